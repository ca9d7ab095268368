"""What the fixtures of this folder are, for the tests' signatures."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Done(NamedTuple):
    """What a run of the program printed."""

    stdout: str
    stderr: str


Run = Callable[..., Done]
Folders = dict[str, Path]
