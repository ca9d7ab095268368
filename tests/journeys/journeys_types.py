"""The types of this folder's fixtures, and what its tests share."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Done(NamedTuple):
    """The output of the program."""

    stdout: str
    stderr: str


Run = Callable[..., Done]
Folders = dict[str, Path]


def error_line(done: Done) -> str:
    """The one line on standard error."""
    lines = done.stderr.splitlines()
    assert done.stdout == ""
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("regard: ")
    return lines[0]
