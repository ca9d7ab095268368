"""Pieces -> words: which word of the text, split at white space, each piece belongs to."""

import re
from collections.abc import Collection, Sequence

UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Thai and Lao, Burmese, Khmer, kana, Han: no spaces between words, so anything may stand next to a letter."""
NO_WORD = -1
"""For pieces outside the text: tags, the end token."""
SPACES = ("▁", "Ġ", " ")
"""The space before a word, as spelled by sentencepiece, byte-level BPE and regard's own unigram tokenizers."""


def _byte_letters() -> dict[str, int]:
    """How byte-level BPE spells bytes: printable ones as in Latin-1, the others as letters from 256 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


BYTES = _byte_letters()


def readable(piece: str) -> str:
    """A piece as people write it: ĠSchÃ¼ler is " Schüler". A piece that is not whole characters stays unchanged."""
    try:
        return bytes(BYTES[letter] for letter in piece).decode("utf-8")
    except (KeyError, UnicodeDecodeError):
        return piece


def word_numbers(pieces: Sequence[str], ids: Sequence[int], special: Collection[int | None]) -> list[int]:
    """The number of each piece's word, from 0. The first piece and each piece that begins with a space begin a word."""
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
