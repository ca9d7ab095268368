"""What every tokenizer refuses, before it is handed to a library that would crash or pass over it."""

from collections.abc import Sequence

from regard.errors import InputError

UNDECODED = range(0xDC80, 0xDD00)
"""What Python makes of the bytes 0x80 to 0xFF of an argument or a file name that is not UTF-8 (PEP 383)."""


def check_text(text: str) -> None:
    """A Python str may hold half of a surrogate pair (from broken JSON or the command line); no tokenizer can."""
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
    """`tokenizers` passes over an unknown id without a word; sentencepiece reads a neighbour's."""
    for position, number in enumerate(ids):
        if not 0 <= number < vocab:
            raise InputError(f"id {number} at position {position} is outside the vocabulary, 0 to {vocab - 1}")
