"""What the formats share: a file as lines, as fixed text with passages in between, and as text again.

"  Hello.\r\n"   ->   pieces ["  ", 0, "\r\n"], passages [Passage("Hello.")]   ->   "  Hallo.\r\n"
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from regard.documents.passage import Mark, Passage

LINE = re.compile(r"[^\n]*\n|[^\n]+")
LEADING_WHITE = re.compile(r"[\s\ufeff]*+")  # a remaining byte order mark is not part of the text


def unescaped(text: str) -> str:
    """The `escape` of formats that escape nothing."""
    return text


def raw_text(passage: Passage, escape: Callable[[str], str] = unescaped) -> str:
    """The text with its marks inserted. The text is escaped, the marks are not."""
    pieces, done = [], 0
    for mark in passage.marks:
        pieces += [escape(passage.text[done : mark.at]), mark.raw]
        done = mark.at
    return "".join([*pieces, escape(passage.text[done:])])


def lines_of(text: str) -> Iterator[tuple[str, str]]:
    """(content, line end) of each line. Only a line feed ends a line, with or without carriage returns before it."""
    for found in LINE.finditer(text):
        content = found[0].rstrip("\r\n")
        yield content, found[0][len(content) :]


def edges(text: str) -> tuple[str, str, str]:
    """The white space before, the text, the white space after."""
    found = LEADING_WHITE.match(text)
    assert found is not None  # it also matches the empty string
    core = text[found.end() :].rstrip()
    return found[0], core, text[found.end() + len(core) :]


def paired(marks: Sequence[Mark], names: Sequence[str]) -> tuple[Mark, ...]:
    """The marks, with those single that have no partner of the same name here, or cross another pair."""
    found = list(marks)
    waiting: list[int] = []
    open_count: Counter[str] = Counter()
    for index, (mark, name) in enumerate(zip(marks, names, strict=True)):
        if mark.kind == "open":
            waiting.append(index)
            open_count[name] += 1
        elif mark.kind == "close" and not open_count[name]:
            found[index] = replace(mark, kind="single")
        elif mark.kind == "close":
            while names[opened := waiting.pop()] != name:
                open_count[names[opened]] -= 1
                found[opened] = replace(marks[opened], kind="single")
            open_count[name] -= 1
    for opened in waiting:
        found[opened] = replace(marks[opened], kind="single")
    return tuple(found)


@dataclass(frozen=True)
class Template:
    """A document whose passages are written one by one."""

    pieces: Sequence[str | int]
    """Fixed text, and the index of each passage in its position."""
    passages: Sequence[Passage]
    write: Callable[[Passage], str] = raw_text

    def render(self, translated: Sequence[Passage]) -> str:
        assert len(translated) == len(self.passages), "expected one translation for each passage"
        texts = [self.write(passage) for passage in translated]
        return fill(self.pieces, texts)


def fill(pieces: Sequence[str | int], texts: Sequence[str]) -> str:
    return "".join(piece if isinstance(piece, str) else texts[piece] for piece in pieces)
