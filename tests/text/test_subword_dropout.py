"""Words cut by chance: a pure function of the word, and the plain cut where nothing is left to chance."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_samples import ENGLISH, GERMAN, LINES, any_text

from regard.errors import ConfigError
from regard.text.learn import TokenizerSettings, learn
from regard.text.subword_dropout import Sampler, draw

TOKENIZERS: dict[str, Any] = {}


def tokenizer(kind: Any) -> Any:
    if kind not in TOKENIZERS:
        TOKENIZERS[kind] = learn(TokenizerSettings(kind=kind, vocab=600), LINES * 3, LINES)
    return TOKENIZERS[kind]


def sampler(kind: str, dropout: float, variants: int = 16) -> Sampler:
    return Sampler(tokenizer(kind).contents["tokenizer.json"], dropout, variants)


def cuts_of(sampler: Sampler, words: list[str]) -> list[list[list[int]]]:
    found = sampler.cuts(words)
    flat = [ids.tolist() for ids in np.split(found.ids, np.cumsum(found.lengths)[:-1])] if words else []
    step = sampler.variants + 1
    return [flat[i : i + step] for i in range(0, len(flat), step)]


def words_of(sampler: Sampler, texts: list[str]) -> list[str]:
    return sorted({word for text in texts for word in sampler.words(text)})


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@settings(deadline=None, max_examples=50)
@given(text=any_text())
def test_without_dropout_every_cut_is_the_plain_one(kind: str, text: str) -> None:
    here = sampler(kind, 0.0, 2)
    words = here.words(text)
    assert [number for word in words for number in here.plain(word)] == tokenizer(kind).encode(text)[:-1]
    assert all(cut == cuts[0] for cuts in cuts_of(here, words) for cut in cuts)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@settings(deadline=None, max_examples=30)
@given(text=any_text(), dropout=st.floats(0, 0.99))
def test_every_cut_gives_the_word_back(kind: str, text: str, dropout: float) -> None:
    here = sampler(kind, dropout, 3)
    cuts = cuts_of(here, here.words(text))
    for variant in range(4):
        assert tokenizer(kind).decode([number for word in cuts for number in word[variant]]) == text


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_word_is_cut_the_same_in_any_company(kind: str) -> None:
    here = sampler(kind, 0.3)
    words = words_of(here, ENGLISH.splitlines() + GERMAN.splitlines())
    together = dict(zip(words, cuts_of(here, words), strict=True))
    assert any(len(set(map(tuple, cuts))) > 3 for cuts in together.values())
    backwards = words[::-2]
    assert cuts_of(here, backwards) == [together[word] for word in backwards]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_more_dropout_cuts_finer(kind: str) -> None:
    words = words_of(sampler(kind, 0.0), LINES)
    lengths = [sampler(kind, dropout).cuts(words).lengths[:, 1:].mean() for dropout in (0.0, 0.1, 0.5, 0.99)]
    assert lengths == sorted(lengths)
    assert lengths[3] > 1.5 * lengths[0]


def test_the_chance_of_a_merge_is_the_one_asked_for() -> None:
    """' i' + 's' can be merged in one way only, so it stays apart as often as dropout says."""
    here = learn(TokenizerSettings(vocab=261), ["x yyy yyy"], [])
    merged = Sampler(here.contents["tokenizer.json"], 0.25, variants=4000).cuts(["yy"])
    assert merged.lengths[0, 0] == 1
    assert (merged.lengths[0, 1:] == 2).mean() == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_no_words_and_endless_words(kind: str) -> None:
    here = sampler(kind, 0.5)
    assert cuts_of(here, []) == []
    (cuts,) = cuts_of(here, ["a" * 1000])
    assert all(cut == here.plain("a" * 1000) for cut in cuts)


def test_draws_are_the_same_on_every_machine() -> None:
    assert draw(1, 2, np.arange(3)).tolist() == [int(draw(1, 2, i)[0]) for i in range(3)]
    assert draw(0).tolist() == [16294208416658607535]  # splitmix64's first output for the seed 0
    bits = draw(7, np.arange(100_000))
    assert (bits / 2.0**64).mean() == pytest.approx(0.5, abs=0.005)
    assert len(set(bits.tolist())) == 100_000


def test_a_tokenizer_from_elsewhere_cannot_vary() -> None:
    content = (
        tokenizer("bpe")
        .contents["tokenizer.json"]
        .replace(b'"Prepend"', b'"NFC"')
        .replace(b',\n    "prepend": " "', b"")
    )
    with pytest.raises(ConfigError, match="dropout needs a tokenizer that regard has learnt"):
        Sampler(content, 0.1)
