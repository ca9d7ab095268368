r"""Subtitles, SubRip (.srt) and WebVTT (.vtt): the text of each is a passage, or several.

    7                                       passage "I told you so." with <i> at 2 and </i> at 6;
    00:00:01,000 --> 00:00:02,500           number, times and blank line stay
    I <i>told                               ->
    you</i> so.                             the translation in two lines again, about as long as each other

Lines are joined, since a sentence may span several; but a line that begins with a dash or a note (♪) is another
speaker's turn, a passage of its own. The dash, notes at either end and {\an8} at the start stay in place (an {\i1} that
ends again does not), as does a line without a letter or digit. Real files break the rules: numbers may be missing,
blank lines missing or too many, times may have a dot or overlap. All that is required is a line with two times and an
arrow.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from regard.documents.formats.skeleton import fill, lines_of, paired, raw_text, unescaped
from regard.documents.passage import Mark, Passage
from regard.errors import InputError

TIME = r"\d++(?::\d++){1,3}+(?:[,.]\d++)?+"  # with or without hours; with frames instead of a fraction
TIMING = re.compile(rf"[\s\ufeff]*+{TIME}\s*+-++>\s*+{TIME}")
NUMBER = re.compile(r"[\s\ufeff]*+\d++\s*+")
WHITE = " \t\r\n\f\v"  # no-break spaces are part of the text
MAX_LINE = 42
"""Characters, the limit of television. A one-line subtitle becomes two lines if its translation is longer."""

# In SubRip only these are tags: <laughs> is text. In WebVTT text cannot contain <, so everything in <> is a tag.
SUBRIP_TAG = r"</?+(?i:i|b|u|s|font|c|v|lang|ruby|rt|span|em|strong|br)\b[^<>]*+>"
WEBVTT_TAG = r"<[^<>]*+>"
TAG_NAME = re.compile(r"</?+\s*+([A-Za-z]++)")
OVERRIDE = re.compile(r"\\(\d?[A-Za-z]++)([^\\{}]*+)")
r"""An override in braces: its name and value. {\i0} and {\c}, with 0 or no value, end what another began."""
TOKEN = (
    r"(?P<tag>{tag})|(?P<override>\{{\\[^{{}}]*+\}})|(?P<note>[♩♪♫♬])|(?P<white>[ \t\r\n\f\v]++)"
    r"|(?P<dash>[-–—]++(?!\d))|(?P<entity>{entity})|(?P<text>[^<{{&♩♪♫♬ \t\r\n\f\v]++|[<{{&])"
)
ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&nbsp;": "\xa0", "&lrm;": "\u200e", "&rlm;": "\u200f"}
NO_ENTITY = r"(?!)"  # matches nothing: SubRip has none


@dataclass(frozen=True)
class Syntax:
    """The differences between the two formats."""

    token: re.Pattern[str]
    turn: re.Pattern[str]
    """How a line begins if another speaker says it."""
    escape: Callable[[str], str]
    webvtt: bool


def _syntax(tag: str, entity: str, escape: Callable[[str], str], webvtt: bool) -> Syntax:
    turn = rf"(?:\s|{tag}|\{{\\[^{{}}]*+\}})*+(?:[♩♪♫♬]|[-–—]++(?!\d))"
    return Syntax(re.compile(TOKEN.format(tag=tag, entity=entity)), re.compile(turn), escape, webvtt)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\xa0", "&nbsp;")


SUBRIP = _syntax(SUBRIP_TAG, NO_ENTITY, unescaped, webvtt=False)
WEBVTT = _syntax(WEBVTT_TAG, "|".join(ENTITIES), _escaped, webvtt=True)

Line = tuple[str, str]  # content, line end


@dataclass(frozen=True)
class Turn:
    """A passage and its layout in the file."""

    passage: Passage
    source: str
    """Its raw text, in its lines."""
    lines: int
    grows: bool
    """It is a whole subtitle and may get a second line."""
    end: str
    """The line end."""


@dataclass(frozen=True)
class Subtitles:
    """A parsed file: fixed pieces, and turns."""

    pieces: Sequence[str | int]
    turns: Sequence[Turn]
    passages: Sequence[Passage]
    syntax: Syntax

    def render(self, translated: Sequence[Passage]) -> str:
        assert len(translated) == len(self.passages), "expected one translation for each passage"
        texts = [_written(turn, passage, self.syntax) for turn, passage in zip(self.turns, translated, strict=True)]
        return fill(self.pieces, texts)


def parse(text: str) -> Subtitles:
    """Parse WebVTT if the first line says so, SubRip otherwise."""
    syntax = WEBVTT if text.removeprefix("\ufeff").startswith("WEBVTT") else SUBRIP
    lines = list(lines_of(text))
    timings = [place for place, (content, _) in enumerate(lines) if TIMING.match(content)]
    if not timings:
        raise InputError("no line has times such as 00:00:01,000 --> 00:00:02,500; is this a subtitle file?")
    pieces: list[str | int] = []
    turns: list[Turn] = []
    done = 0
    for group in _groups(lines, timings, syntax):
        pieces.append(_joined(lines[done : group.start]))
        done = group.stop
        for run in _runs(lines[group.start : group.stop], syntax):
            # the line end of the line before: the last line of a file may have none
            pieces += _add_turn(run, turns, syntax, grows=len(group) == 1, end=lines[group.start - 1][1])
    pieces.append(_joined(lines[done:]))
    return Subtitles(pieces, turns, [turn.passage for turn in turns], syntax)


def _joined(lines: Sequence[Line]) -> str:
    return "".join(content + end for content, end in lines)


def _groups(lines: Sequence[Line], timings: Sequence[int], syntax: Syntax) -> Iterator[range]:
    """The ranges of text lines: without blank lines, after a line with times."""
    for timing, following in zip(timings, [*timings[1:], len(lines)], strict=True):
        stop = following - _has_name(lines, timing, following, syntax)
        start = timing + 1
        for place in range(timing + 1, stop + 1):
            if place < stop and lines[place][0].strip():
                continue
            # after a blank line: more text, or a number followed by a blank line. In WebVTT: a comment
            first = start == timing + 1
            if place > start and (first or not (syntax.webvtt or _is_number(lines[start:place]))):
                yield range(start, place)
            start = place + 1
            if syntax.webvtt:
                break


def _has_name(lines: Sequence[Line], timing: int, following: int, syntax: Syntax) -> bool:
    """Whether the line before the next times is its number; in WebVTT, any identifier after a blank line."""
    place = following - 1
    if following == len(lines) or place == timing:
        return False
    named = syntax.webvtt and place - 1 > timing and not lines[place - 1][0].strip()
    return named or NUMBER.fullmatch(lines[place][0]) is not None


def _is_number(lines: Sequence[Line]) -> bool:
    return len(lines) == 1 and NUMBER.fullmatch(lines[0][0]) is not None


def _runs(group: Sequence[Line], syntax: Syntax) -> Iterator[Sequence[Line]]:
    """The lines of a subtitle as turns of one or more lines, and single lines without text."""
    start = 0
    for place, (content, _) in enumerate(group):
        silent = not _has_text(content, syntax)
        if start < place and (silent or syntax.turn.match(content)):
            yield group[start:place]
            start = place
        if silent:
            yield group[place : place + 1]
            start = place + 1
    if start < len(group):
        yield group[start:]


def _has_text(content: str, syntax: Syntax) -> bool:
    found = syntax.token.finditer(content)
    return any(token.lastgroup == "text" and any(map(str.isalnum, token[0])) for token in found)


def _add_turn(run: Sequence[Line], turns: list[Turn], syntax: Syntax, grows: bool, end: str) -> list[str | int]:
    """The pieces of a run; adds its turn to `turns`."""
    if not _has_text(_joined(run), syntax):  # what one line has as text, two may have as a tag
        return [_joined(run)]
    last_end = run[-1][1]
    raw = _joined(run).removesuffix(last_end)
    tokens = list(syntax.token.finditer(raw))
    first, last = _text_within(tokens)
    start, stop = tokens[first].start(), tokens[last - 1].end()
    passage = _passage(tokens[first:last])
    turns.append(Turn(passage, raw[start:stop], len(run), grows, end))
    return [raw[:start], len(turns) - 1, raw[stop:] + last_end]


def _text_within(tokens: Sequence[re.Match[str]]) -> tuple[int, int]:
    """The tokens of the passage: those after a note, a dash or {\\an8} at the start and before a note at the end."""
    kinds = [token.lastgroup for token in tokens]
    first, last = 0, len(tokens)
    ended = {_name(token[0]) for token in tokens if token.lastgroup == "override" and _kind(token[0]) == "close"}
    for place, kind in enumerate(kinds):
        if kind in ("note", "dash") or (kind == "override" and _name(tokens[place][0]) not in ended):
            first = place + 1
        elif kind not in ("tag", "override", "white"):
            break
    for place in range(len(tokens) - 1, first, -1):
        if kinds[place] == "note":
            last = place
        elif kinds[place] not in ("tag", "white"):
            break
    while kinds[first] == "white":
        first += 1
    while kinds[last - 1] == "white":
        last -= 1
    return first, last


def _passage(tokens: Sequence[re.Match[str]]) -> Passage:
    """Text with single spaces, and the tags as marks."""
    pieces: list[str] = []
    marks: list[Mark] = []
    length = 0
    for token in tokens:
        if token.lastgroup in ("tag", "override"):
            marks.append(Mark(length, token[0], _kind(token[0])))
            continue
        text = ENTITIES[token[0]] if token.lastgroup == "entity" else token[0]
        if token.lastgroup == "white":
            text = " " if pieces and pieces[-1] != " " else ""
        if text:
            pieces.append(text)
            length += len(text)
    text = "".join(pieces).rstrip(" ")  # a space before the tags at the end
    marks = [replace(mark, at=min(mark.at, len(text))) for mark in marks]
    return Passage(text, paired(marks, [_name(mark.raw) for mark in marks]))


def _kind(raw: str) -> Literal["open", "close", "single"]:
    if raw.startswith("{"):
        return "open" if any(value not in ("", "0") for _, value in OVERRIDE.findall(raw)) else "close"
    name = TAG_NAME.match(raw)
    if name is None or name[1].lower() == "br" or raw.endswith("/>"):
        return "single"
    return "close" if raw.startswith("</") else "open"


def _name(raw: str) -> str:
    """A name that opening and closing marks share. Tags and overrides never have the same name."""
    if raw.startswith("{"):
        return "".join(f"\\{name}" for name in sorted(name for name, _ in OVERRIDE.findall(raw)))
    name = TAG_NAME.match(raw)
    return name[1].lower() if name else ""


def _written(turn: Turn, passage: Passage, syntax: Syntax) -> str:
    if (passage.text, passage.marks) == (turn.passage.text, turn.passage.marks):
        return turn.source  # not translated: a name, a number
    lines = 2 if turn.grows and len(passage.text) > max(MAX_LINE, len(turn.passage.text)) else turn.lines
    raw = raw_text(replace(passage, text=_broken(passage.text, lines)), syntax.escape)
    return turn.end.join(line.strip(WHITE) for line in raw.split("\n"))


def _broken(text: str, lines: int) -> str:
    """The text with some spaces replaced by line feeds, so that the positions of marks stay valid."""
    text = re.sub(r"[\t\r\n\f\v]", " ", text)
    spaces = [found.start() for found in re.finditer(r"(?<=\S) +(?=\S)", text)]
    chosen = spaces if len(spaces) < lines else _nearest(spaces, len(text), lines)
    characters = list(text)
    for position in chosen:
        characters[position] = "\n"
    return "".join(characters)


def _nearest(spaces: Sequence[int], length: int, lines: int) -> list[int]:
    """For each line end, the space nearest to the ideal position; a space is left for each line end that follows."""
    chosen: list[int] = []
    first = 0
    for line in range(1, lines):
        ideal = (length + 1) * line / lines - 1
        last = len(spaces) - (lines - line)
        index = min(max(bisect_left(spaces, ideal), first), last)
        if index > first and ideal - spaces[index - 1] <= abs(spaces[index] - ideal):
            index -= 1
        chosen.append(spaces[index])
        first = index + 1
    return chosen
