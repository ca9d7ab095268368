"""What every tokenizer refuses, before it is handed to a library that would crash or pass over it."""

from collections.abc import Sequence

from regard.errors import InputError


def check_text(text: str) -> None:
    """A Python str may hold half of a surrogate pair (from broken JSON or file names); no tokenizer can."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise InputError(
            f"the text has a lone surrogate U+{code:04X} at position {error.start}, which is not a character: remove it"
        ) from None


def check_ids(ids: Sequence[int], vocab: int) -> None:
    """`tokenizers` passes over an unknown id without a word; sentencepiece reads a neighbour's."""
    for position, number in enumerate(ids):
        if not 0 <= number < vocab:
            raise InputError(f"id {number} at position {position} is outside the vocabulary, 0 to {vocab - 1}")
