"""A passage: a stretch of text that is translated as one, and the markup inside it.

    "Click <b>here</b>."   ->   text "Click here.", marks: open <b> at 6, close </b> at 10

Every format (one file each beside this one) takes a file apart into passages and puts translated ones back in
their places. Where marks go in a translation is decided in marks.py, from which word became which.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True)
class Mark:
    """A piece of markup between two characters of a text."""

    at: int
    """How many characters of the text are before it."""
    raw: str
    """As it stands in the file: <b>, </b>, <br/>, **."""
    kind: Literal["open", "close", "single"] = "single"
    """What is opened is closed again, in the order of brackets; a single one stands for itself."""


@dataclass(frozen=True)
class Passage:
    """Text without markup, and the marks in the order in which they stand."""

    text: str
    marks: tuple[Mark, ...] = ()
    fixed: tuple[tuple[int, int], ...] = ()
    """(start, end) of stretches of the text that must come out as they are: code, entities that mean themselves."""


class Document(Protocol):
    """A file taken apart."""

    @property
    def passages(self) -> Sequence[Passage]:
        """What there is to translate, in order."""

    def render(self, translated: Sequence[Passage]) -> str:
        """The file with these passages in the places of its own."""


Span = tuple[int, int]
"""From this character up to, not including, that one."""
Link = tuple[Span, Span]
"""A word of the text and the word of its translation that it became, both as spans of characters."""
