"""Pieces -> words: which word of the text, as white space cuts it, each piece belongs to."""

import re
from collections.abc import Collection, Sequence

UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Thai and Lao, Burmese, Khmer, kana, Han: no spaces between words, so anything may stand next to a letter."""
NO_WORD = -1
"""For pieces that stand for no part of the text."""
SPACES = ("▁", "Ġ")
"""How sentencepiece and byte-level BPE spell the space before a word."""


def _letters_of_bytes() -> dict[str, int]:
    """How byte-level BPE spells bytes: those that can be seen as Latin-1 has them, others by letters from 256 on."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {chr(256 + i): byte for i, byte in enumerate(others)}


BYTES = _letters_of_bytes()


def readable(piece: str) -> str:
    """A piece as people write it: ĠSchÃ¼ler is " Schüler". What does not spell whole characters stays as it is."""
    try:
        return bytes(BYTES[letter] for letter in piece).decode("utf-8")
    except (KeyError, UnicodeDecodeError):
        return piece


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
