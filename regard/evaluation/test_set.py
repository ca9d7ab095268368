"""A test set, line by line. Every line counts, the empty ones too: a figure over fewer lines is another figure."""

from collections.abc import Iterator
from pathlib import Path

from regard.data.sources import Bad, DataSettings, aligned_lines
from regard.errors import InputError


def aligned(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """The pairs of two files, plain or gzipped, one at a time; white space around a line is taken off."""
    empty = True
    for where, found in aligned_lines(source, target, DataSettings().longest_line):
        if isinstance(found, Bad):
            raise InputError(f"{where}: {found.detail}")
        one, other = found
        yield one.strip(), other.strip()
        empty = False
    if empty:
        raise InputError(f"{source}: is empty, so there is nothing to measure")


def read(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """The two sides of a test set."""
    pairs = list(aligned(source, target))
    return [one for one, _ in pairs], [other for _, other in pairs]
