"""A passage: text that is translated as a whole, and the markup inside it.

    "Click <b>here</b>."   ->   text "Click here.", marks: open <b> at 6, close </b> at 10

Every format (a file each in formats/) splits a file into passages and puts the translated ones back. markup.py decides
where the marks go in a translation, from the word alignment.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Span = tuple[int, int]
"""Start and end: the characters from the first up to, but not including, the second."""
Link = tuple[Span, Span]
"""An alignment link: a span of the text and the span of the translation that it became."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Markup between two characters of a text."""

    at: int
    """The number of characters before it."""
    raw: str
    """As the file has it: <b>, </b>, <br/>, **."""
    kind: Literal["open", "close", "single"] = "single"
    """An open mark is closed again, properly nested; a single mark has no partner."""


@dataclass(frozen=True, slots=True)
class Passage:
    """Text without markup, and its marks in order."""

    text: str
    marks: tuple[Mark, ...] = ()
    fixed: tuple[Span, ...] = ()
    """Spans that must not be translated: code, templates, escapes."""


class Document(Protocol):
    """A parsed file."""

    @property
    def passages(self) -> Sequence[Passage]:
        """The texts to translate, in order."""

    def render(self, translated: Sequence[Passage]) -> str:
        """The file with these passages in place of its own."""
