"""Pieces as people write them."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizer_samples import ENGLISH, GERMAN
from tokenizers import pre_tokenizers

from regard.models.config import GenerationConfig, Seq2SeqConfig
from regard.models.seq2seq import Seq2Seq
from regard.tasks import TranslationModel
from regard.text.train_tokenizer import TokenizerSettings, learn
from regard.text.word_ids import BYTES, readable, word_numbers


def test_the_alphabet_is_that_of_byte_level_bpe() -> None:
    assert set(BYTES) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(BYTES.values()) == list(range(256))


@given(st.text())
def test_what_is_spelt_in_bytes_comes_back(text: str) -> None:
    spelling = {byte: letter for letter, byte in BYTES.items()}
    try:
        spelt = "".join(spelling[byte] for byte in text.encode("utf-8"))
    except UnicodeEncodeError:
        return
    assert readable(spelt) == text


@pytest.mark.parametrize("piece", ["▁Haus", "##ing", "▁café", "é", "Ã"])
def test_other_spellings_stay(piece: str) -> None:
    assert readable(piece) == piece


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_words_of_a_learned_tokenizer(kind: Literal["bpe", "unigram"]) -> None:
    tokenizer = learn(TokenizerSettings(kind=kind, vocab=420), ENGLISH.splitlines(), GERMAN.splitlines())
    for text in (*ENGLISH.splitlines(), "Häuser 😀 und, ganz neu: xylophone!"):
        ids = tokenizer.encode(text)
        numbers = word_numbers(tokenizer.pieces(ids), ids, {tokenizer.end})
        assert numbers[-1] == -1
        words = [tokenizer.decode([i for i, n in zip(ids, numbers, strict=True) if n == word]) for word in range(99)]
        assert [word.strip() for word in words if word] == text.split()


def test_alignment_with_a_unigram_tokenizer() -> None:
    """End to end, with a model that has learned nothing."""
    tokenizer = learn(TokenizerSettings(kind="unigram", vocab=420), ENGLISH.splitlines(), GERMAN.splitlines())
    config = Seq2SeqConfig(vocab=420, width=32, heads=4, inner=64, encoder_layers=1, decoder_layers=1, context=60)
    generation = GenerationConfig(start=1, end=(2,), pad=0, max_tokens=12)
    model = TranslationModel(Seq2Seq(config).eval(), generation, tokenizer, Path("toy"))
    target = tokenizer.encode_target("Das sind vier Wörter.")
    source = tokenizer.encode("It has five words here.")
    translation = replace(model.translations(["x"])[0][0], source_ids=source, ids=target)
    assert model.attention_of_words(translation).shape == (4, 5)


def test_words() -> None:
    assert word_numbers(["ĠI", "Ġam", "bit", ".", "</s>"], [1, 2, 3, 4, 5], {5}) == [0, 1, 1, 1, -1]
