"""A test set, line by line. Every line counts, empty ones too: a score over fewer lines is another score."""

from collections.abc import Iterator
from pathlib import Path

from regard.data.sources import BadLine, DataSettings, aligned_lines
from regard.errors import InputError


def aligned(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """The pairs of two files, plain or gzipped, one at a time, without surrounding white space."""
    empty = True
    for location, pair in aligned_lines(source, target, DataSettings().longest_line):
        if isinstance(pair, BadLine):
            raise InputError(f"{location}: {pair.detail}")
        yield pair[0].strip(), pair[1].strip()
        empty = False
    if empty:
        raise InputError(f"{source}: is empty; there is nothing to score")


def read(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """The two sides of a test set."""
    pairs = list(aligned(source, target))
    return [source for source, _ in pairs], [target for _, target in pairs]
