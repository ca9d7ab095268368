"""Random segmentations: a pure function of the word; without dropout, the tokenizer's own segmentation."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_samples import ENGLISH, GERMAN, LINES, any_text

from regard.errors import ConfigError
from regard.text.subword_dropout import SubwordDropout, random_bits
from regard.text.train_tokenizer import TokenizerSettings, learn

TOKENIZERS: dict[str, Any] = {}


def tokenizer(kind: Any) -> Any:
    if kind not in TOKENIZERS:
        TOKENIZERS[kind] = learn(TokenizerSettings(kind=kind, vocab=600), LINES * 3, LINES)
    return TOKENIZERS[kind]


def sampler(kind: str, dropout: float, variants: int = 16) -> SubwordDropout:
    return SubwordDropout(tokenizer(kind).contents["tokenizer.json"], dropout, variants)


def segmentations_of(sampler: SubwordDropout, words: list[str]) -> list[list[list[int]]]:
    found = sampler.segmentations(words)
    flat = [ids.tolist() for ids in np.split(found.ids, np.cumsum(found.lengths)[:-1])] if words else []
    step = sampler.variants + 1
    return [flat[i : i + step] for i in range(0, len(flat), step)]


def words_of(sampler: SubwordDropout, texts: list[str]) -> list[str]:
    return sorted({word for text in texts for word in sampler.split_words(text)})


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@settings(deadline=None, max_examples=50)
@given(text=any_text())
def test_without_dropout_every_segmentation_is_the_tokenizers_own(kind: str, text: str) -> None:
    here = sampler(kind, 0.0, 2)
    words = here.split_words(text)
    assert [number for word in words for number in here.tokenize(word)] == tokenizer(kind).encode(text)[:-1]
    assert all(ids == rows[0] for rows in segmentations_of(here, words) for ids in rows)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@settings(deadline=None, max_examples=30)
@given(text=any_text(), dropout=st.floats(0, 0.99))
def test_every_segmentation_gives_the_word_back(kind: str, text: str, dropout: float) -> None:
    here = sampler(kind, dropout, 3)
    rows = segmentations_of(here, here.split_words(text))
    for variant in range(4):
        assert tokenizer(kind).decode([number for word in rows for number in word[variant]]) == text


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_segmentations_do_not_depend_on_other_words(kind: str) -> None:
    here = sampler(kind, 0.3)
    words = words_of(here, ENGLISH.splitlines() + GERMAN.splitlines())
    together = dict(zip(words, segmentations_of(here, words), strict=True))
    assert any(len(set(map(tuple, rows))) > 3 for rows in together.values())
    backwards = words[::-2]
    assert segmentations_of(here, backwards) == [together[word] for word in backwards]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_more_dropout_gives_shorter_pieces(kind: str) -> None:
    words = words_of(sampler(kind, 0.0), LINES)
    lengths = [sampler(kind, dropout).segmentations(words).lengths[:, 1:].mean() for dropout in (0.0, 0.1, 0.5, 0.99)]
    assert lengths == sorted(lengths)
    assert lengths[3] > 1.5 * lengths[0]


def test_merges_are_skipped_with_the_given_probability() -> None:
    """' i' + 's' can be merged in one way only, so it stays apart as often as dropout says."""
    here = learn(TokenizerSettings(vocab=261), ["x yyy yyy"], [])
    merged = SubwordDropout(here.contents["tokenizer.json"], 0.25, variants=4000).segmentations(["yy"])
    assert merged.lengths[0, 0] == 1
    assert (merged.lengths[0, 1:] == 2).mean() == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_no_words_and_endless_words(kind: str) -> None:
    here = sampler(kind, 0.5)
    assert segmentations_of(here, []) == []
    (rows,) = segmentations_of(here, ["a" * 1000])
    assert all(ids == here.tokenize("a" * 1000) for ids in rows)


def test_random_bits_are_the_same_on_every_machine() -> None:
    assert random_bits(1, 2, np.arange(3)).tolist() == [int(random_bits(1, 2, i)[0]) for i in range(3)]
    assert random_bits(0).tolist() == [16294208416658607535]  # splitmix64's first output for the seed 0
    bits = random_bits(7, np.arange(100_000))
    assert (bits / 2.0**64).mean() == pytest.approx(0.5, abs=0.005)
    assert len(set(bits.tolist())) == 100_000


def test_a_tokenizer_from_elsewhere_cannot_vary() -> None:
    content = (
        tokenizer("bpe")
        .contents["tokenizer.json"]
        .replace(b'"Prepend"', b'"NFC"')
        .replace(b',\n    "prepend": " "', b"")
    )
    with pytest.raises(ConfigError, match="dropout needs a tokenizer learned by regard"):
        SubwordDropout(content, 0.1)
