"""The types of this folder's fixtures."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Done(NamedTuple):
    """The output of the program."""

    stdout: str
    stderr: str


Run = Callable[..., Done]
Folders = dict[str, Path]
