"""Markdown within a paragraph: emphasis, links, code and the like, as marks and fixed spans.

    "See **the [docs](url)** for `x`."
    text   "See the docs for `x`.", marks ** at 4, [ at 8, ](url) at 12, ** at 12, fixed `x`

The first pass, from left to right, finds literals (code, addresses, escapes), brackets and tags, and pairs those. The
second pass finds emphasis between them: a pair of * or _ never has one end inside a link and the other outside.
Unpaired delimiters are text. The rules are CommonMark's, with one exception: if the rule of three forbids a pair with
the nearest delimiter run, no further one is tried; both stay text, unchanged.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from regard.documents.formats.html_tokenizer import TAG, VOID
from regard.documents.passage import Mark, Passage, Span

SPECIAL = re.compile(
    r"""(?P<escape>\\[!-/:-@\[-`{-~])
    |(?P<ticks>`++)
    |(?P<fixed><[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*+>|<[^\s<>@]++@[^\s<>@]++>|<(code|kbd|samp|var)>[^<]*+</\4>
        |(?<!\w)(?:https?://|www\.)[^\s<>()\[\]*`|"]*[^\s<>()\[\]*`|".,;:!?'_~]
        |&(?:\#\d{1,9}|\#[xX][0-9a-fA-F]{1,8}|[A-Za-z][A-Za-z0-9]{1,31});)
    |(?P<note>\[\^[^\s\[\]]++\])
    |(?P<aside><!--)
    |(?P<tag></?[A-Za-z])
    |(?P<bracket>!?\[)
    |(?P<end>\])
    |(?P<run>\*++|_++|~++)
    |(?P<break>\n)""",
    re.VERBOSE,
)
TAIL = re.compile(
    r"""\]\([ \t\n]*+(?:<[^<>\n]*+>|[^\s()<]*+(?:\([^\s()]*+\)[^\s()]*+)*+)
    (?:[ \t\n]++(?:"[^"]*+"|'[^']*+'|\([^()]*+\)))?+[ \t\n]*+\)""",
    re.VERBOSE,
)
FULL_TAIL = re.compile(r"\]\[([^\[\]]++)\]")
SHORTCUT = re.compile(r"\[([^\[\]]++)\](?:\[\])?(?![(\[])")
LINE_FEED = re.compile("\n")
TICKS = re.compile("`++")
BREAK = re.compile(r"\n|<br(?=[\s/>])", re.IGNORECASE)
"""In the raw text of line breaks: they have a space after them in the passage, but not in the file."""
MAX_TAG = 2000
"""Characters; without a limit, many unclosed tags would each be read to the end."""

ADDED = "added"
"""The name of a space that is not in the file."""

Kind = Literal["text", "fixed", "open", "close", "single", "run"]


@dataclass(slots=True)
class _Token:
    kind: Kind
    raw: str
    name: str = ""
    """The name of a tag, or "[": its closing token has the same; or ADDED."""
    opens: bool = False
    closes: bool = False
    left: int = 0
    """Of a run of * _ ~: how many characters are not paired yet."""
    opened: list[int] = field(default_factory=list)
    """The size of each pair that it opens, the innermost first."""
    closed: list[int] = field(default_factory=list)


def label(text: str) -> str:
    """A link label, normalized for comparison with definitions."""
    return " ".join(text.split()).casefold()


def passage(raw: str, breaks: Mapping[int, str], labels: Collection[str]) -> Passage:
    """The passage of a paragraph, whose lines are joined by spaces, or by line feeds at hard breaks.

    `breaks` has the source of each hard break, by position.
    """
    tokens = _Scanner(raw, breaks, labels).scan()
    _emphasize(tokens)
    return _written(tokens)


class _Scanner:
    def __init__(self, raw: str, breaks: Mapping[int, str], labels: Collection[str]) -> None:
        self.raw, self.breaks, self.labels = raw, breaks, labels
        self.found: list[_Token] = []
        self.stack: list[_Token] = []
        self.depth: dict[str, int] = {}
        self.ticks: dict[int, list[int]] = {}
        for found in TICKS.finditer(raw):
            self.ticks.setdefault(len(found[0]), []).append(found.start())
        self.last_aside = raw.rfind("-->")

    def scan(self) -> list[_Token]:
        done = 0
        while found := SPECIAL.search(self.raw, done):
            self._text(done, found.start())
            done = self._special(found)
        self._text(done, len(self.raw))
        return self.found

    def _text(self, start: int, end: int) -> None:
        if start < end:
            self._add("text", start, end)

    def _add(self, kind: Kind, start: int, end: int, name: str = "") -> int:
        raw = LINE_FEED.sub(lambda found: self._no_break(start + found.start()), self.raw[start:end])
        self.found.append(_Token(kind, raw, name))
        return end

    def _no_break(self, at: int) -> str:
        """What remains of a line break inside code or an address, where it is not a break."""
        return "\\ " if self.breaks[at].startswith("\\") else " "

    def _special(self, found: re.Match[str]) -> int:
        """Read the token that begins here; returns its end."""
        start, end = found.span()
        match found.lastgroup:
            case "escape" | "fixed":
                return self._add("fixed", start, end)
            case "ticks":
                return self._code(start, end)
            case "note":
                return self._add("single", start, end)
            case "break":
                self._add("single", start, end)
                self.found[-1].raw = self.breaks[start]
                return self._space(end)
            case "run":
                self._add("run", start, end)
                _flank(self.found[-1], self.raw[max(start - 1, 0) : start], self.raw[end : end + 1])
                return end
            case "aside" if start < self.last_aside:
                return self._add("single", start, self.raw.index("-->", start) + 3)
            case "tag":
                return self._tag(start)
            case "bracket":
                return self._bracket(start, end)
            case "end":
                return self._end(start)
        return self._add("text", start, end)

    def _code(self, start: int, end: int) -> int:
        """A code span up to equally many `, or else only these, as text."""
        same = self.ticks.get(end - start, [])
        index = bisect_right(same, start)
        if index == len(same):
            return self._add("text", start, end)
        return self._add("fixed", start, same[index] + end - start)

    def _space(self, end: int) -> int:
        """Add a space after a break, so that words do not run together. It is removed when the mark is written."""
        self.found.append(_Token("text", " ", ADDED))
        return end

    def _tag(self, start: int) -> int:
        found = TAG.match(self.raw, start, start + MAX_TAG)
        if not found or self.raw[found.end() : found.end() + 1] != ">":
            return self._add("text", start, start + 1)
        name, end = found[2].lower(), found.end() + 1
        if name == "br":
            return self._line_tag(start, end)
        self._add("single", start, end, name)
        if found[1]:
            self._close(name, self.found[-1])
        elif not (found[0].endswith("/") or name in VOID):
            self._push(self.found[-1])
        return end

    def _line_tag(self, start: int, end: int) -> int:
        """<br> with the white space around it. Like every break, it has one space after it in the passage."""
        last = self.found[-1] if self.found and self.found[-1].kind == "text" else _Token("text", "")
        bare = last.raw.rstrip(" \t")
        while self.raw[end : end + 1] in (" ", "\t"):
            end += 1
        white = "" if last.name == ADDED else last.raw[len(bare) :]  # after another break, the space was added here
        last.raw = bare
        self._add("single", start, end)
        self.found[-1].raw = white + self.found[-1].raw
        return self._space(end) if start and end < len(self.raw) else end

    def _bracket(self, start: int, end: int) -> int:
        shortcut = SHORTCUT.match(self.raw, start)
        if shortcut and label(shortcut[1]) in self.labels:
            return self._add("fixed", start, shortcut.end())  # its text is its label
        self._add("text", start, end, "[")
        self._push(self.found[-1])
        return end

    def _end(self, start: int) -> int:
        tail = TAIL.match(self.raw, start)
        if not tail and (full := FULL_TAIL.match(self.raw, start)) and label(full[1]) in self.labels:
            tail = full
        if tail and self.depth.get("["):
            self._add("single", start, tail.end(), "[")
            self._close("[", self.found[-1])
            return tail.end()
        if self.stack and self.stack[-1].name == "[":
            self.depth["["] -= 1
            self.stack.pop()
        return self._add("text", start, start + 1)

    def _push(self, token: _Token) -> None:
        self.stack.append(token)
        self.depth[token.name] = self.depth.get(token.name, 0) + 1

    def _close(self, name: str, closing: _Token) -> None:
        """Close the last open token of this name. Those opened after it stay single tags, or text."""
        while self.depth.get(name):
            token = self.stack.pop()
            self.depth[token.name] -= 1
            if token.name == name:
                token.kind, closing.kind = "open", "close"
                return


def _flank(run: _Token, before: str, after: str) -> None:
    """Find whether a run of * _ ~ can open or close emphasis, from the characters around it."""
    run.left = len(run.raw)
    if run.raw[0] == "~" and run.left != 2:
        return
    white_before, white_after = not before or before.isspace(), not after or after.isspace()
    sign_before, sign_after = (bool(near) and not near.isalnum() and not near.isspace() for near in (before, after))
    left = not white_after and (not sign_after or white_before or sign_before)
    right = not white_before and (not sign_before or white_after or sign_after)
    if run.raw[0] == "_":
        run.opens, run.closes = left and (not right or sign_before), right and (not left or sign_after)
    else:
        run.opens, run.closes = left, right


def _emphasize(tokens: Sequence[_Token]) -> None:
    """Pair delimiter runs. Pairs do not cross the start of an open link or tag."""
    stack: list[_Token | None] = []
    walls = [-1]
    depths: dict[str, list[int]] = {"*": [], "_": [], "~": []}

    def cut(length: int) -> None:
        while len(stack) > length:
            if top := stack.pop():
                depths[top.raw[0]].pop()

    for token in tokens:
        if token.kind == "open":
            walls.append(len(stack))
            stack.append(None)
        elif token.kind == "close":
            cut(walls.pop())
        elif token.kind == "run":
            same = depths[token.raw[0]]
            while token.closes and token.left and same and same[-1] > walls[-1]:
                other = stack[same[-1]]
                assert other
                both = (token.opens or other.closes) and (len(token.raw) + len(other.raw)) % 3 == 0
                if both and (len(token.raw) % 3 or len(other.raw) % 3):
                    break
                cut(same[-1] + 1)
                size = min(2, token.left, other.left)
                token.closed.append(size)
                other.opened.append(size)
                token.left -= size
                other.left -= size
                if not other.left:
                    cut(same[-1])
            if token.opens and token.left:
                same.append(len(stack))
                stack.append(token)


def _written(tokens: Sequence[_Token]) -> Passage:
    text, length, marks, fixed = list[str](), 0, list[Mark](), list[Span]()
    for token in tokens:
        raw, sign = token.raw, token.raw[:1]
        if token.kind == "run":
            marks += [Mark(length, sign * size, "close") for size in token.closed]
            raw = sign * token.left
        elif token.kind in ("open", "close", "single"):
            marks.append(Mark(length, token.raw, token.kind))
            continue
        text.append(raw)
        if token.kind == "fixed":
            fixed.append((length, length + len(raw)))
        length += len(raw)
        marks += [Mark(length, sign * size, "open") for size in reversed(token.opened)]
    return Passage("".join(text), tuple(marks), tuple(fixed))
