import math
from typing import Any

import pytest

from regard.config import from_table, to_table
from regard.decoding.settings import SearchSettings, search_settings
from regard.errors import ConfigError
from regard.models.config import GenerationConfig


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"beam": 0}, "beam must be at least 1 and at most 1,024, not 0"),
        ({"beam": 10**9}, "beam must be at least"),
        ({"beam": 2.0}, "beam must be a whole number, not 2.0"),
        ({"beam": True}, "beam must be a whole number, not True"),
        ({"beam": None}, "beam must be a whole number, not None"),
        ({"beam": 2, "n_best": 3}, "n_best 3 of a beam of 2"),
        ({"n_best": 0}, "n_best must be at least"),
        ({"length_penalty": math.nan}, "length_penalty must be at least"),
        ({"length_penalty": math.inf}, "length_penalty must be at least"),
        ({"length_penalty": "1"}, "length_penalty must be a number, not '1'"),
        ({"length_form": "papre"}, "did you mean 'paper'"),
        ({"patience": -1.0}, "patience must be at least"),
        ({"temperature": -0.5}, "temperature must be at least"),
        ({"temperature": math.nan}, "temperature must be at least"),
        ({"temperature": 1e-9}, "temperature must be 0"),
        ({"temperature": 1.0, "beam": 2}, "search or sample, not both"),
        ({"temperature": 1.0, "top_p": 0.0}, "top_p must be above 0"),
        ({"temperature": 1.0, "top_p": 1.1}, "top_p must be at least"),
        ({"temperature": 1.0, "min_p": -0.1}, "min_p must be at least"),
        ({"temperature": 1.0, "top_k": -1}, "top_k must be at least"),
        ({"temperature": 1.0, "n_best": 10**6}, "n_best must be at least"),
        ({"top_k": 5}, "top_k is for sampling"),
        ({"top_p": 0.5}, "top_p is for sampling"),
        ({"min_p": 0.5}, "min_p is for sampling"),
        ({"repetition_penalty": 0.0}, "repetition_penalty must be at least"),
        ({"frequency_penalty": 3.0}, "frequency_penalty must be at least"),
        ({"presence_penalty": -3.0}, "presence_penalty must be at least"),
        ({"beam": 2, "repetition_penalty": 0.9}, "cannot reward repetition"),
        ({"beam": 2, "presence_penalty": -0.1}, "cannot reward repetition"),
        ({"beam": 2, "frequency_penalty": -0.1}, "cannot reward repetition"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram must be at least"),
        ({"min_tokens": 5, "max_tokens": 4}, "min_tokens 5 is more than max_tokens 4"),
        ({"max_tokens": -1}, "max_tokens must be at least"),
        ({"max_tokens": 10**9}, "max_tokens must be at least"),
        ({"seed": -1}, "seed must be at least"),
        ({"seed": 2**64}, "seed must be at least"),
    ],
)
def test_what_cannot_be_is_refused_by_name(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        SearchSettings(**settings)


def test_a_file_can_hold_it() -> None:
    settings = SearchSettings(beam=4, n_best=2, length_form="paper", length_penalty=0.6, patience=2.0, max_tokens=10)
    assert from_table(SearchSettings, to_table(settings), "here") == settings
    assert from_table(SearchSettings, {"length_penalty": 1}, "here") == SearchSettings()
    with pytest.raises(ConfigError, match="here: unknown key 'beams' - did you mean 'beam'"):
        from_table(SearchSettings, {"beams": 4}, "here")


def test_unset_settings_are_what_the_help_says() -> None:
    model = GenerationConfig(beam=2, length_penalty=0.6)
    settings = search_settings(model, {"n_best": 5})
    assert (settings.beam, settings.patience, settings.length_penalty) == (5, 1.0, 0.6)
    assert (SearchSettings().patience, SearchSettings(beam=2).enough) == (None, math.inf)


def test_the_papers_length_penalty() -> None:
    settings = SearchSettings(length_form="paper", length_penalty=0.6)
    assert settings.penalty(1) == 1.0
    assert settings.penalty(7) == pytest.approx(2**0.6)
    assert settings.score(-3.0, 7) == pytest.approx(-3.0 / 2**0.6)


def test_the_plain_length_penalty() -> None:
    assert SearchSettings(length_penalty=1.0).score(-6.0, 4) == -1.5
    assert SearchSettings(length_penalty=0.0).score(-6.0, 4) == -6.0
    assert SearchSettings(length_penalty=-1.0).score(-6.0, 4) == -24.0


def test_nothing_said_scores_nothing() -> None:
    assert SearchSettings(length_penalty=2.0).score(0.0, 0) == 0.0
