"""Pieces as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from regard.text.words import BYTES, readable, word_numbers


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


def test_words() -> None:
    assert word_numbers(["ĠI", "Ġam", "bit", ".", "</s>"], [1, 2, 3, 4, 5], {5}) == [0, 1, 1, 1, -1]
