import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from small_configs import SMALL, decoder, encoder, seq2seq, vision

from regard.errors import ConfigError
from regard.models.config import RotaryScaling

Make = Callable[..., Any]
TEXT = (seq2seq, encoder, decoder)
ALL = (*TEXT, vision)


def refused(make: Make, key: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"\b{key}\b"):
        make(**settings)


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("key", ["width", "heads", "kv_heads", "head_width", "inner"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_block_has_at_least_one_of_each(make: Make, key: str, value: int) -> None:
    refused(make, key, {key: value})


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("value", [-0.1, 1.0, float("nan")])
def test_dropout_is_a_share(make: Make, value: float) -> None:
    refused(make, "dropout", {"dropout": value})


@pytest.mark.parametrize("make", ALL)
def test_heads_divide_the_width_or_have_a_width_of_their_own(make: Make) -> None:
    refused(make, "head_width", {"heads": 3})
    assert make(heads=3, head_width=5).per_head_width == 5
    assert make(heads=4).per_head_width == 2


@pytest.mark.parametrize("make", ALL)
def test_query_heads_share_key_value_heads_evenly(make: Make) -> None:
    refused(make, "kv_heads", {"heads": 4, "kv_heads": 3})
    refused(make, "kv_heads", {"heads": 2, "kv_heads": 4})


@pytest.mark.parametrize("make", TEXT)
@pytest.mark.parametrize("key", ["vocab", "context"])
def test_text_has_a_vocabulary_and_a_context(make: Make, key: str) -> None:
    refused(make, key, {key: 0})


@pytest.mark.parametrize("make", TEXT)
def test_rotary_positions_need_an_even_head_width(make: Make) -> None:
    refused(make, "rotary", {"positions": "rotary", "head_width": 3})


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (seq2seq, "encoder_layers"),
        (seq2seq, "decoder_layers"),
        (seq2seq, "source_vocab"),
        (encoder, "layers"),
        (decoder, "layers"),
        (vision, "layers"),
        (vision, "image"),
        (vision, "patch"),
        (vision, "channels"),
    ],
)
def test_a_family_has_at_least_one_of_each(make: Make, key: str) -> None:
    refused(make, key, {key: 0})


@pytest.mark.parametrize(
    ("make", "key", "settings"),
    [
        (seq2seq, "source_vocab", {"tied": "all", "source_vocab": 12}),
        (encoder, "labels", {"head": "classifier"}),
        (encoder, "labels", {"labels": ("yes", "no")}),
        (encoder, "pooler", {"pooling": "pooler"}),
        (encoder, "segments", {"segments": -1}),
        (decoder, "labels", {"head": "classifier"}),
        (decoder, "labels", {"labels": ("yes", "no")}),
        (decoder, "rotary_scaling", {"rotary_scaling": RotaryScaling(kind="linear", factor=2.0)}),
        (vision, "patches", {"image": 7}),
        (RotaryScaling, "factor", {"kind": "linear", "factor": 0.0}),
        (RotaryScaling, "low", {"kind": "llama3", "factor": 8.0, "low": 4.0}),
        (RotaryScaling, "original_context", {"kind": "llama3", "factor": 8.0, "original_context": 0}),
    ],
)
def test_settings_that_contradict_each_other_are_refused(make: Make, key: str, settings: dict[str, Any]) -> None:
    refused(make, key, settings)


@pytest.mark.parametrize(
    ("make", "key", "value", "near"),
    [
        (seq2seq, "positions", "sinusoid", "sinusoidal"),
        (seq2seq, "tied", "targets", "target"),
        (encoder, "head", "masked_ml", "masked_lm"),
        (encoder, "pooling", "men", "mean"),
        (decoder, "positions", "rotery", "rotary"),
        (decoder, "activation", "swighlu", "swiglu"),
        (vision, "norm", "layers", "layer"),
    ],
)
def test_a_misspelt_choice_builds_no_other_model(make: Make, key: str, value: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f"^unknown {key} '{value}' - did you mean '{near}'\\?$"):
        make(**{key: value})


def test_a_misspelt_scaling_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown kind 'llama-3' - did you mean 'llama3'"):
        RotaryScaling(kind="llama-3", factor=8.0)  # type: ignore[arg-type]


def test_equal_vocabularies_may_be_tied_three_ways() -> None:
    assert seq2seq(tied="all", source_vocab=11).source_vocab == 11


@pytest.mark.parametrize("name", SMALL)
def test_settings_are_frozen(name: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SMALL[name].width = 16  # type: ignore[misc]


@pytest.mark.parametrize("name", SMALL)
def test_settings_are_given_by_name(name: str) -> None:
    with pytest.raises(TypeError):
        type(SMALL[name])(8, 2)
