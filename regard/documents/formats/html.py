"""HTML of any quality, or XML that resembles it: text between block-level tags is a passage, the rest stays.

    <ul>\\n <li>Click <b>here</b> &amp; wait.</li>\\n</ul>
    tokens    <ul>, white space, <li>, "Click ", <b>, "here", </b>, " &amp; wait.", </li>, ...
    runs      what is between block-level tags: "Click " <b> "here" </b> " &amp; wait."
    passage   text "Click here & wait.", marks <b> at 6 and </b> at 10
    template  <ul>\\n <li>, passage 0, </li>\\n</ul>

White space within a passage becomes single spaces, as in a browser. Entities become characters and are written as &lt;
&gt; &amp; and, if the file uses it, &nbsp;. Template expressions, {{ name }} or <%= name %>, are fixed spans and stay
unchanged. Markup at the ends of a passage, pairs around all of it and {% if %} included, stays outside. Texts in
attributes (alt, title, placeholder, aria-label, a page's description) are passages of their own, one for equal tags.
"""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from regard.documents.formats.html_tokenizer import (
    ENTITY,
    RAW_TEXT,
    TEMPLATE,
    WHITE,
    Kind,
    Token,
    attributes,
    decoded,
    partners,
    tokens,
)
from regard.documents.passage import Mark, Passage, Span

CODE = frozenset(["code", "kbd", "samp", "var"])
DRAWN = frozenset(["svg", "math"])
VERBATIM = CODE | DRAWN | {"pre"}
TEXT_LEVEL = (
    "a abbr acronym b bdi bdo big br cite data del dfn em font i img input ins mark nobr q rb rp rt ruby s script "
    "small span strike strong style sub sup time tt u wbr"
)
INLINE = CODE | DRAWN | frozenset(TEXT_LEVEL.split())
"""All other elements end a passage, unknown ones included: a passage that ends too soon is better than two mixed up."""
TEXT_ATTRIBUTES = frozenset(["alt", "title", "placeholder", "aria-label"])
"""Attributes that people read or hear."""
BREAK = re.compile(rf"[{WHITE}]*+<br[{WHITE}/>]", re.IGNORECASE)
"""A break has a space after it in the passage, so that words do not run together, but not in the file."""
WHITE_RUN = re.compile(f"([{WHITE}]+)")
STATEMENT = re.compile(r"<%(?!=)|\{%")
"""How template statements begin, which produce no text themselves."""


@dataclass(slots=True)
class _Item:
    """A token of a run. `element` is the index of the verbatim element around it, or its own if it is a template; -1 if
    it is translated."""

    kind: Kind
    name: str
    start: int
    end: int
    element: int = -1
    partner: int = -1


@dataclass(frozen=True)
class HtmlDocument:
    """A parsed page: fixed pieces, and passages."""

    pieces: Sequence[str | int]
    """Raw text (each tag alone), or the index of a passage."""
    passages: Sequence[Passage]
    attributes: dict[str, list[tuple[Span, int]]]
    """A raw tag -> the spans of its texts, and the indices of their passages."""
    nbsp: str
    """How the file writes a no-break space."""
    templates: dict[int, set[str]]
    """The index of a passage -> its template expressions. Similar text elsewhere was written with entities."""

    def render(self, translated: Sequence[Passage]) -> str:
        assert len(translated) == len(self.passages), "expected one translation for each passage"
        tags = {tag: self._filled(tag, translated) for tag in self.attributes}
        out: list[str] = []
        for piece in self.pieces:
            if isinstance(piece, str):
                out.append(tags.get(piece, piece))
                continue
            passage, done, broken = translated[piece], 0, False
            for mark in passage.marks:
                text, tag = passage.text[done : mark.at], mark.raw.strip(WHITE)
                text, done = text.lstrip(" ") if broken else text, mark.at
                broken = bool(BREAK.match(mark.raw)) or (broken and not text)
                out.append(self._escaped(text.rstrip(" ") if BREAK.match(mark.raw) else text, piece))
                out.append(mark.raw.replace(tag, tags[tag]) if tag in tags else mark.raw)
            out.append(self._escaped(passage.text[done:].lstrip(" ") if broken else passage.text[done:], piece))
        return "".join(out)

    def _filled(self, tag: str, translated: Sequence[Passage]) -> str:
        out, done = [], 0
        for (start, end), number in self.attributes[tag]:
            quote = tag[:start].rstrip(WHITE)[-1]
            out += [tag[done:start], self._escaped(translated[number].text, number, {quote: html.escape(quote)})]
            done = end
        return "".join([*out, tag[done:]])

    def _escaped(self, text: str, number: int, more: Mapping[str, str] = {}) -> str:
        """The text of a passage, or a part of it, with escapes."""
        templates = self.templates.get(number, set())
        escapes = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\xa0": self.nbsp, **more})
        parts = TEMPLATE.split(text) if templates else [text]
        return "".join(part if part in templates else part.translate(escapes) for part in parts)


def parse(text: str) -> HtmlDocument:
    reader = _Reader(text)
    reader.read(list(tokens(text)))
    nbsp = next((spelling for spelling in ("&nbsp;", "&#160;", "&#xa0;") if spelling in text), "\xa0")
    return HtmlDocument(reader.pieces, reader.passages, reader.attributes, nbsp, reader.templates)


# --- runs


@dataclass
class _Reader:
    text: str
    pieces: list[str | int] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    attributes: dict[str, list[tuple[Span, int]]] = field(default_factory=dict)
    templates: dict[int, set[str]] = field(default_factory=dict)
    _run: list[_Item] = field(default_factory=list)

    def read(self, found: Sequence[Token]) -> None:
        closing = partners(found)
        blocks = list(accumulate((bool(token.name) and token.name not in INLINE for token in found), initial=0))
        number = 0
        while number < len(found):
            token = found[number]
            unclosed = len(found) - 1 if token.name == "pre" else -1  # to the end of the file, as in a browser
            last = closing.get(number, unclosed) if token.kind == "open" and self._is_verbatim(token) else -1
            if last < 0:
                self._add_attributes(token)
                self._add(_Item(*token, element=number if token.kind == "template" else -1))
            elif token.name in DRAWN:
                self._add(_Item("single", token.name, token.start, found[last].end))
            elif blocks[number] < blocks[last + 1]:
                self._end_run()
                self.pieces.append(self.text[token.start : found[last].end])
            else:
                self._run += [_Item(*inner, element=number) for inner in found[number : last + 1]]
            number = max(number, last) + 1
        self._end_run()

    def _raw(self, item: _Item | Token) -> str:
        return self.text[item.start : item.end]

    def _is_verbatim(self, token: Token) -> bool:
        if token.name in VERBATIM:
            return True
        tag = self._raw(token)
        if "translate" not in tag.lower():  # most tags
            return False
        values = {name: tag[slice(*span)].lower() for name, span in attributes(tag)}
        return values.get("translate") == "no" or "notranslate" in values.get("class", "").split()

    def _add_attributes(self, token: Token) -> None:
        """Add the texts in a tag's attributes as passages."""
        tag = self._raw(token)
        if token.kind not in ("open", "single") or not token.name or tag in self.attributes or token.name in RAW_TEXT:
            return
        spans = list(attributes(tag))
        values = {name: tag[slice(*span)].lower() for name, span in spans}
        names = (
            TEXT_ATTRIBUTES | {"content"}
            if token.name == "meta" and values.get("name") == "description"
            else TEXT_ATTRIBUTES
        )
        found = []
        for name, (start, end) in spans:
            value = tag[start:end].strip(WHITE)
            parts = TEMPLATE.split(value)
            if name in names and tag[start - 1] in "\"'" and any(map(str.isalnum, decoded("".join(parts[::2])))):
                start += len(tag[start:end]) - len(tag[start:end].lstrip(WHITE))
                found.append(((start, start + len(value)), len(self.passages)))
                self._add_passage(_value(parts), parts[1::2])
        if found:
            self.attributes[tag] = found

    def _add(self, item: _Item) -> None:
        if item.name and item.name not in INLINE:
            self._end_run()
            self.pieces.append(self._raw(item))
        else:
            self._run.append(item)

    def _end_run(self) -> None:
        run, self._run = self._run, []
        texts = (item for item in run if item.kind == "text" and item.element < 0)
        if not any(any(map(str.isalnum, ENTITY.sub("", decoded(self._raw(item))))) for item in texts):
            self.pieces += map(self._raw, run)
            return
        _pair(run)
        first, last = self._core(run)
        self.pieces += map(self._raw, run[:first])
        if run[first].kind == "text":
            white = len(self._raw(run[first])) - len(self._raw(run[first]).lstrip(WHITE))
            self.pieces.append(self.text[run[first].start : run[first].start + white])
            run[first].start += white
        end = run[last - 1].end
        if run[last - 1].kind == "text":
            run[last - 1].end = run[last - 1].start + len(self._raw(run[last - 1]).rstrip(WHITE))
        self.pieces.append(len(self.passages))
        templates = [self._raw(item) for item in run[first:last] if item.kind == "template"]
        self._add_passage(_passage(self.text, run[first:last]), templates)
        self.pieces += [self.text[run[last - 1].end : end], *map(self._raw, run[last:])]

    def _core(self, run: Sequence[_Item]) -> Span:
        """The run without markup and white space at its ends, and without pairs around all of it."""
        texts = [at for at, item in enumerate(run) if self._is_text(item)]
        first, last, left, right = 0, len(run), texts[0], texts[-1] + 1
        while first < left:
            item = run[first]
            if item.kind == "open" and item.partner >= right:
                last = item.partner
            elif item.kind == "open" and item.partner >= left:
                break
            first += 1
        while last > right and (run[last - 1].kind != "close" or run[last - 1].partner >= right):
            last -= 1
        return first, last

    def _is_text(self, item: _Item) -> bool:
        raw = self._raw(item)
        return bool(raw.strip(WHITE)) if item.kind == "text" else item.kind == "template" and not STATEMENT.match(raw)

    def _add_passage(self, passage: Passage, templates: Sequence[str]) -> None:
        if templates:
            self.templates[len(self.passages)] = set(templates)
        self.passages.append(passage)


def _pair(run: Sequence[_Item]) -> None:
    """Find partners, properly nested. A tag without a partner becomes single."""
    stack: list[int] = []
    depth: dict[str, int] = {}
    for at, item in enumerate(run):
        if item.kind == "open":
            stack.append(at)
            depth[item.name] = depth.get(item.name, 0) + 1
        elif item.kind == "close":
            while depth.get(item.name) and item.partner < 0:
                other = stack.pop()
                depth[run[other].name] -= 1
                if run[other].name == item.name:
                    item.partner, run[other].partner = other, at
    for item in run:
        if item.kind in ("open", "close") and item.partner < 0:
            item.kind = "single"


@dataclass
class _Writer:
    """Builds a passage. White space that a browser does not show becomes part of the mark beside it."""

    text: list[str] = field(default_factory=list)
    length: int = 0
    marks: list[Mark] = field(default_factory=list)
    fixed: dict[int, Span] = field(default_factory=dict)
    white: bool = True
    """Whether further white space would be invisible."""

    def add(self, text: str, white: bool = False) -> None:
        self.text.append(text)
        self.length += len(text)
        self.white = white

    def add_fixed(self, text: str, element: int) -> None:
        start = self.fixed.get(element, (self.length, 0))[0]
        self.add(text)
        self.fixed[element] = start, self.length

    def add_text(self, raw: str) -> None:
        for part in ENTITY.split(raw):
            text = html.unescape(part) if ENTITY.fullmatch(part) else part
            if text == part and ENTITY.fullmatch(part) and part.endswith(";"):
                self.marks.append(Mark(self.length, part))  # defined by the file itself: other programs know it
                continue
            for piece in filter(None, WHITE_RUN.split(text)):
                if piece[0] not in WHITE:
                    self.add(piece)
                elif not self.white:
                    self.add(" ", white=True)
                elif self.marks and (self.marks[-1].at == self.length or self._after_break()):
                    self.marks[-1] = replace(self.marks[-1], raw=self.marks[-1].raw + piece)

    def add_break(self, raw: str) -> None:
        if self.length and self.white and self.marks[-1:] and self.marks[-1].at == self.length:
            pass  # "a <b><br>c": there is a space already, but before another mark
        elif self.length and self.white:
            raw = raw if self._after_break() else " " + raw
            self.text.pop()
            self.length -= 1
            self.white = False
        self.marks.append(Mark(self.length, raw))
        if not self.white:
            self.add(" ", white=True)

    def _after_break(self) -> bool:
        """Whether the text ends with the space of a break."""
        before = next((mark for mark in reversed(self.marks) if mark.at < self.length), None)
        return bool(before and before.at == self.length - 1 and BREAK.match(before.raw))

    def passage(self) -> Passage:
        text, marks = "".join(self.text), self.marks
        if self.white and text:
            seen = "" if self._after_break() else " "
            text = text[:-1]
            first = next((at for at, mark in enumerate(marks) if mark.at > len(text)), len(marks))
            late = [replace(mark, at=len(text)) for mark in marks[first:]]
            marks = marks[:first] + [replace(mark, raw=seen + mark.raw) for mark in late[:1]] + late[1:]
        return Passage(text, tuple(marks), tuple(span for span in self.fixed.values() if span[0] < span[1]))


def _passage(text: str, run: Sequence[_Item]) -> Passage:
    writer = _Writer()
    for item in run:
        raw = text[item.start : item.end]
        if item.kind == "template":
            writer.add_fixed(raw, item.element)
        elif item.kind == "text" and item.element >= 0:
            writer.add_fixed(decoded(raw), item.element)
        elif item.kind == "text":
            writer.add_text(raw)
        elif BREAK.match(raw):
            writer.add_break(raw)
        else:
            writer.marks.append(Mark(writer.length, raw, item.kind))
    return writer.passage()


def _value(parts: Sequence[str]) -> Passage:
    """The passage of an attribute's value: texts and templates in turn."""
    writer = _Writer()
    for number, part in enumerate(parts):
        if number % 2:
            writer.add_fixed(part, number)
        else:
            writer.add(WHITE_RUN.sub(" ", decoded(part)))
    return writer.passage()
