"""Pieces -> words: which word of the text, as white space cuts it, each piece belongs to."""

from collections.abc import Collection, Sequence

NO_WORD = -1
"""For pieces that stand for no part of the text."""
SPACES = ("▁", "Ġ")
"""How sentencepiece and byte-level BPE spell the space before a word."""


def word_numbers(pieces: Sequence[str], ids: Sequence[int], special: Collection[int | None]) -> list[int]:
    """The number of each piece's word, from 0. A piece that begins with a space begins a word; so does the first."""
    numbers: list[int] = []
    word = NO_WORD
    for piece, token in zip(pieces, ids, strict=True):
        if token in special:
            numbers.append(NO_WORD)
            continue
        if word == NO_WORD or piece.startswith(SPACES):
            word += 1
        numbers.append(word)
    return numbers
