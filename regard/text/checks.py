"""Checks before a tokenizer library is called, which would crash or ignore the problem."""

from collections.abc import Sequence

from regard.errors import InputError

UNDECODED = range(0xDC80, 0xDD00)
"""How Python decodes the bytes 0x80 to 0xFF of an argument or a file name that is not UTF-8 (PEP 383)."""


def check_text(text: str) -> None:
    """Refuse half of a surrogate pair: a Python str can hold it (broken JSON, command line), a tokenizer cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        if code in UNDECODED:
            before = len(text[: error.start].encode("utf-8"))
            raise InputError(f"the text is not UTF-8: its byte {before + 1} is 0x{code - 0xDC00:02X}") from None
        raise InputError(
            f"the text has a lone surrogate U+{code:04X} at position {error.start}, which is not a character: remove it"
        ) from None


def check_ids(ids: Sequence[int], vocab: int) -> None:
    """Refuse ids outside the vocabulary: `tokenizers` skips them silently, sentencepiece reads another piece."""
    for position, number in enumerate(ids):
        if not 0 <= number < vocab:
            raise InputError(f"id {number} at position {position} is outside the vocabulary, 0 to {vocab - 1}")
