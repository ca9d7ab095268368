"""Markdown: translates the text of paragraphs, headings, list items, quotes and table cells, and keeps the rest.

    "> - [ ] Click **here**\\n>   to wait.\\n"
    template  "> - [ ] ", passage 0, "\\n"
    passage   text "Click here to wait.", marks ** at 6 and ** at 10

The lines of a paragraph are joined by spaces and written as one line; a hard line break (two spaces or a backslash at
the end of a line) is a single mark. Code, formulas, front matter, HTML blocks, rules and link definitions stay
unchanged. Extensions that only some parsers know, labeled boxes and definition lists, keep their lines.
markdown_inline.py parses the inside of a paragraph; markdown_raw_blocks.py finds the end of blocks that stay unchanged.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from regard.documents.formats.markdown_inline import BREAK, label, passage
from regard.documents.formats.markdown_raw_blocks import INDENT, QUOTE, block_end, column_of, front_matter_end, matched
from regard.documents.formats.skeleton import lines_of
from regard.documents.passage import Passage

MARKER = re.compile(r"[ \t]*+(?:[-*+:]|(\d{1,9})[.)])(?:[ \t]++|$)")  # : begins a definition
BOX = re.compile(r"\[[ xX]\][ \t]++")
HEADING = re.compile(r"[ \t]*+#{1,6}+(?:[ \t]++|$)")
RULE = re.compile(r"[ \t]*+([-*_])(?:[ \t]*+\1){2,}+[ \t]*+$")
UNDERLINE = re.compile(r"[ \t]*+(?:=++|-++)[ \t]*+$")
DEFINITION = re.compile(r"[ \t]{0,3}+\[(?!\^)((?:\\.|[^\[\]\\])++)\]:[ \t]*+\S")
NOTE = re.compile(r"[ \t]{0,3}+\[\^[^\s\[\]]++\]:[ \t]++")
DELIMITERS = re.compile(r"[ \t]*+\|?(?:[ \t]*+:?-++:?[ \t]*+(?:\||$))++[ \t]*+$")
PIPE = re.compile(r"(?<!\\)\|")
ALERT = re.compile(r"[ \t]*+\[![\w-]++\][+-]?(?:[ \t]++|$)")
CONTAINER = re.compile(r"[ \t]*+:{3,}+[ \t]*+(?:[\w-]++|\{[^{}]*+\})*+(?:[ \t]++|$|\[[ \t]*+)")
ADMONITION = re.compile(r'[ \t]*+(?:(?:!!!|\?{3}\+?)[ \t]++[\w -]*+(?:"[ \t]*+|$)|===[ \t]++"[ \t]*+)')
"""The labels of boxes, up to their titles: > [!NOTE] Title, :::note Title, :::note[Title], !!! note "Title"."""
MAX_MARKERS = 20
"""Nested list items on one line: each is searched for in the rest of the line."""
LIKE_A_BLOCK = re.compile(r"(?:#{1,6}+(?=[ \t]|$)|[-+*](?=[ \t]|$)|>|=++$|~~~|\d{1,9}(?=[.)](?:[ \t]|$)))")
"""A paragraph that begins like this would be parsed as another block."""


@dataclass(frozen=True)
class MarkdownDocument:
    """A parsed file: fixed pieces, and passages."""

    pieces: Sequence[str | int]
    """Raw text, or the index of a passage."""
    passages: Sequence[Passage]
    cells: frozenset[int]
    """The indices of passages in table cells, which a | would end."""

    def render(self, translated: Sequence[Passage]) -> str:
        assert len(translated) == len(self.passages), "expected one translation for each passage"
        return "".join(
            piece if isinstance(piece, str) else self._rendered(piece, translated[piece]) for piece in self.pieces
        )

    def _rendered(self, number: int, new: Passage) -> str:
        text = new.text.replace("\n", " ")
        like = LIKE_A_BLOCK.match(text)
        guard = (
            like and not any(mark.at == 0 for mark in new.marks) and not LIKE_A_BLOCK.match(self.passages[number].text)
        )
        at = like.end() if like and like[0].isdigit() else 0
        out, done, broken = list[str](), 0, False
        for mark in [*new.marks, None]:
            piece = text[done : mark.at if mark else len(text)]
            piece = piece.lstrip(" ") if broken else piece
            breaks = mark is not None and BREAK.search(mark.raw)
            broken = bool(breaks) or (broken and not piece)
            piece = piece.rstrip(" ") if breaks else piece
            out += [PIPE.sub(r"\\|", piece) if number in self.cells else piece, mark.raw if mark else ""]
            done = mark.at if mark else done
        whole = "".join(out)
        return f"{whole[:at]}\\{whole[at:]}" if guard else whole


@dataclass(slots=True)
class _Line:
    raw: str
    """Without trailing white space."""
    white: str
    end: str
    prefix: str = ""
    """The part of `raw` before the text: >, list markers, white space."""

    @property
    def all(self) -> str:
        return self.raw + self.white + self.end

    @property
    def text(self) -> str:
        return self.raw[len(self.prefix) :]


def parse(text: str) -> MarkdownDocument:
    lines = [_Line(line.rstrip(" \t"), line[len(line.rstrip(" \t")) :], end) for line, end in lines_of(text)]
    definitions = (DEFINITION.match(line.raw.lstrip("> \t")) for line in lines)
    reader = _Reader(lines, [line.raw for line in lines], {label(found[1]) for found in definitions if found})
    reader.read()
    return MarkdownDocument(reader.pieces, reader.passages, frozenset(reader.cells))


@dataclass
class _Reader:
    lines: Sequence[_Line]
    raw: Sequence[str]
    """The lines without trailing white space."""
    labels: set[str]
    """The labels of link definitions."""
    pieces: list[str | int] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    cells: set[int] = field(default_factory=set)
    _paragraph: list[_Line] = field(default_factory=list)
    _columns: list[int] = field(default_factory=list)
    """The columns at which the text of the open list items begins."""
    _depth: int = 0
    """The number of > before the line."""

    def read(self) -> None:
        at = self._keep(0, front_matter_end(self.raw))
        while at < len(self.lines):
            at = self._block(at)
        self._end_paragraph()

    def _keep(self, start: int, end: int) -> int:
        self._end_paragraph()
        self.pieces += [line.all for line in self.lines[start:end]]
        return end

    def _block(self, at: int) -> int:
        """Read the block that begins with this line; returns the line after it."""
        line = self.lines[at]
        quote = matched(QUOTE, line.raw)
        rest, depth = line.raw[len(quote) :], quote.count(">")
        if not rest.strip():
            return self._keep(at, at + 1)
        if depth != self._depth and not (self._paragraph and depth < self._depth):
            self._end_paragraph()
            self._columns, self._depth = [], depth
        if self._paragraph and UNDERLINE.match(rest):
            return self._keep(at, at + 1)
        if self._paragraph and self._begins_table(line, rest):
            return self._table(at, quote)
        if not self._paragraph and self._is_code(line.raw, quote):
            return self._keep(at, at + 1)
        if RULE.match(rest):
            return self._keep(at, at + 1)
        line.prefix = quote + self._markers(line.raw, quote)
        text = line.text
        if end := block_end(self.raw, at, len(line.prefix), self._columns, bool(self._paragraph)):
            return self._keep(at, end)
        if HEADING.match(text):
            self._heading(line)
            return at + 1
        if opening := self._box_opening(text):
            self._box(line, opening)
            return at + 1
        if not self._paragraph and DEFINITION.match(text):
            return self._keep(at, at + 1)
        if NOTE.match(text):
            self._end_paragraph()
        for pattern in (NOTE, INDENT, BOX if MARKER.search(line.prefix) else INDENT):
            line.prefix += matched(pattern, line.text)
        if not line.text:  # an item whose text begins on the next line
            return self._keep(at, at + 1)
        self._paragraph.append(line)
        return at + 1

    def _is_code(self, raw: str, quote: str) -> bool:
        """Whether it is indented by four columns more than the text around it."""
        column = column_of(raw, len(quote) + len(matched(INDENT, raw[len(quote) :])))
        while self._columns and self._columns[-1] > column:
            self._columns.pop()
        base = self._columns[-1] if self._columns else column_of(quote + " " * bool(quote), len(quote) + bool(quote))
        return column >= base + 4

    def _markers(self, raw: str, quote: str) -> str:
        """The list markers at the start of a line. Within a paragraph, a number other than 1 is text."""
        done = len(quote)
        for _ in range(MAX_MARKERS):
            marker = MARKER.match(raw, done)
            if not marker or RULE.match(raw, done):
                break
            if self._paragraph and (marker.end() == len(raw) or (marker[1] not in (None, "1") and not self._columns)):
                break
            self._end_paragraph()
            start = column_of(raw, done + len(matched(INDENT, raw[done:])))
            done = marker.end()
            self._begin_item(start, column_of(raw, done))
            done += len(matched(QUOTE, raw[done:]))
        return raw[len(quote) : done]

    def _begin_item(self, start: int, text: int) -> None:
        """Open a list item at column `start`, whose text begins at column `text`."""
        while self._columns and self._columns[-1] > start:
            self._columns.pop()
        self._columns.append(text)

    def _box_opening(self, text: str) -> str:
        """The label of a box that begins or ends here, or "". An alert must be the first line of its quote."""
        alert = matched(ALERT, text) if self._depth and not self._paragraph else ""
        return alert or matched(CONTAINER, text) or matched(ADMONITION, text)

    def _box(self, line: _Line, opening: str) -> None:
        self._end_paragraph()
        if opening.lstrip()[0] in "!?=":  # its content is indented by four columns
            start = column_of(line.raw, len(line.prefix) + len(matched(INDENT, opening)))
            self._begin_item(start, start + 4)
        line.prefix += opening
        self._title(line, line.text.removesuffix({'"': '"', "[": "]"}.get(opening.rstrip()[-1], "")).rstrip())

    def _heading(self, line: _Line) -> None:
        self._end_paragraph()
        line.prefix += matched(HEADING, line.text)
        core = line.text
        bare = core.rstrip("#")
        if bare != core and (not bare or bare[-1] in " \t"):
            core = bare.rstrip()
        start = core.rfind("{")
        if core.endswith("}") and start > 0 and core[start - 1] in " \t":  # {#name}
            core = core[:start].rstrip()
        self._title(line, core)

    def _title(self, line: _Line, core: str) -> None:
        """A line of its own: a passage, and what may follow it."""
        self.pieces.append(line.prefix)
        self._passage(core, core, {})
        self.pieces.append(line.text[len(core) :] + line.white + line.end)

    def _begins_table(self, line: _Line, rest: str) -> bool:
        head = self._paragraph[-1].text
        if "|" not in rest or not DELIMITERS.match(rest):
            return False
        return len(PIPE.split(head.strip("|"))) == len(PIPE.split(rest.strip().strip("|")))

    def _table(self, at: int, quote: str) -> int:
        head = self._paragraph.pop()
        self._end_paragraph()
        self._row(head)
        self._keep(at, at + 1)
        at += 1
        while at < len(self.lines) and "|" in self.lines[at].raw and self.lines[at].raw.startswith(quote):
            self.lines[at].prefix = quote
            self._row(self.lines[at])
            at += 1
        return at

    def _row(self, line: _Line) -> None:
        self.pieces.append(line.prefix)
        for number, cell in enumerate(PIPE.split(line.text)):
            core = cell.strip()
            start = len(cell) - len(cell.lstrip()) if core else len(cell)
            self.pieces += ["|" if number else "", cell[:start]]
            if self._passage(core, core, {}):
                self.cells.add(len(self.passages) - 1)
            self.pieces.append(cell[start + len(core) :])
        self.pieces.append(line.white + line.end)

    def _end_paragraph(self) -> None:
        lines, self._paragraph = self._paragraph, []
        if not lines:
            return
        parts, kept, breaks = [lines[0].text], [lines[0].text], dict[int, str]()
        length = len(lines[0].text)
        for before, line in pairwise(lines):
            slash = len(before.text) - len(before.text.rstrip("\\"))
            hard = "\\" if slash % 2 else before.white if before.white.startswith("  ") else ""
            kept.append(before.white + before.end + line.prefix + line.text)
            if hard == "\\":
                parts[-1] = parts[-1][:-1]
                length -= 1
            if hard:
                breaks[length] = hard + before.white * (hard == "\\") + before.end + line.prefix
            parts += ["\n" if hard else " ", line.text]
            length += 1 + len(line.text)
        self.pieces.append(lines[0].prefix)
        self._passage("".join(parts), "".join(kept), breaks)
        self.pieces.append(lines[-1].white + lines[-1].end)

    def _passage(self, raw: str, verbatim: str, breaks: dict[int, str]) -> bool:
        found = passage(raw, breaks, self.labels)
        done, words = 0, False
        for start, end in [*found.fixed, (len(found.text), 0)]:
            words = words or any(map(str.isalnum, found.text[done:start]))
            done = end
        self.pieces.append(len(self.passages) if words else verbatim)
        if words:
            self.passages.append(found)
        return words
