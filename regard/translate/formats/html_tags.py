"""Tags, comments, entities and templates of HTML, found in text of any quality.

    "a <b>c</b> < d<!-- e --> {{ f }}"   ->   "a ", <b>, "c", </b>, " < d", <!-- e -->, " ", {{ f }}

Scanned here and not with html.parser, which does not say where things end, and mends what is broken. Time is linear in
the length of the text: patterns never go back (`*+`), and what cannot be found from one place on is not looked for
from the next.
"""

import html
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from regard.translate.passage import Span

RAW_TEXT = frozenset(["script", "style", "textarea"])
"""Nothing in them is markup but their own end."""
CHILDLESS = "area base br col embed hr img input link meta param source track wbr"
VOID = frozenset(CHILDLESS.split())
WHITE = " \t\n\r\f"

FILLED_IN = (  # never over an end tag: "{{" in a text is then no template, and what follows is not lost
    r"(?:<%(?:[^<%]++|<(?!%)|%(?!>))*+%>"
    r"|\{\{(?:[^{}<]++|\{(?!\{)|\}(?!\})|<(?!/))*+\}\}++"
    r"|\{%(?:[^{%<]++|\{(?!%)|%(?!\})|<(?!/))*+%\}"
    r"|\$\{(?:[^${}<]++|\$(?!\{)|<(?!/))*+\})"
)
TEMPLATE = re.compile(f"({FILLED_IN})")
"""<%= a %>  {{ a }}  {% if a %}  ${a}: filled in by another program, which must find it as it was. None begins inside
another of its kind, so that a text of many that never end is not read anew from each."""
OPENING = re.compile(r"<|\{[{%]|\$\{")

QUOTED = "|".join(rf"{quote}(?:[^{quote}<{{$]++|{FILLED_IN}|[<{{$])*+{quote}" for quote in "\"'")
TAG = re.compile(rf"<(/?)([A-Za-z][\w:.-]*+)(?:[^<>={{$]++|{FILLED_IN}|[{{$]|=\s*+(?>{QUOTED}|))*+")
"""Without its last >, so that a stray < is told from a tag by what comes next."""
ATTRIBUTE = re.compile(rf"""{FILLED_IN}|([^\s"'<>/=]++)(?:\s*+=\s*+({QUOTED}|[^\s"'>]++))?""")
ENTITY = re.compile(r"(&(?:#\d{1,9}+(?!\d);?|#[xX][0-9a-fA-F]{1,8}+(?![0-9a-fA-F]);?|[A-Za-z][A-Za-z0-9]{0,31};?))")
"""Of some length only: html.unescape fails at numbers of thousands of digits."""
ASIDES = {"<!--": ["-->"], "<![CDATA[": ["]]>"], "<!": [">"], "<?php": ["?>"], "<?": ["?>", ">"]}
"""How each begins -> how it ends: with the first of these that comes at all. PHP may go on to the end of the file;
others that lack their ?> are word processors'."""

Kind = Literal["text", "template", "open", "close", "single"]


class Token(NamedTuple):
    kind: Kind
    name: str
    """In small letters; empty for text and templates, and for comments and the like, which are single."""
    start: int
    end: int


def decoded(raw: str) -> str:
    return ENTITY.sub(lambda found: html.unescape(found[0]), raw)


def tokens(text: str) -> Iterator[Token]:
    """All of the text, one after the other."""
    lasts = {end: text.rfind(end) for ends in ASIDES.values() for end in ends}
    done = at = 0
    while opening := OPENING.search(text, at):
        at = opening.start()
        aside = next((beginning for beginning in ASIDES if text.startswith(beginning, at)), None)
        if template := TEMPLATE.match(text, at):
            token = Token("template", "", *template.span())
        elif aside:
            closing = next((closing for closing in ASIDES[aside] if at + 2 <= lasts[closing]), None)
            # from where a comment is never closed, a browser shows nothing
            end = text.index(closing, at + 2) + len(closing) if closing else len(text)
            token = Token("single", "", at, end)
        else:
            found = TAG.match(text, at)
            if not found or text[found.end() : found.end() + 1] != ">":  # a stray <, and so is what looked like a tag
                at = found.end() if found else at + 1
                continue
            token = _tag(text, found)
        if done < at:
            yield Token("text", "", done, at)
        yield token
        done = at = token.end
    if done < len(text):
        yield Token("text", "", done, len(text))


def _tag(text: str, found: re.Match[str]) -> Token:
    name, end = found[2].lower(), found.end() + 1
    if found[1]:
        return Token("close", name, found.start(), end)
    if found[0].endswith("/") or name in VOID:
        return Token("single", name, found.start(), end)
    if name in RAW_TEXT:
        closing = re.compile(rf"</{name}(?=[\s/>])[^<>]*>", re.IGNORECASE).search(text, end)
        return Token("single", name, found.start(), closing.end() if closing else len(text))
    return Token("open", name, found.start(), end)


def partners(tokens: Sequence[Token]) -> dict[int, int]:
    """The number of a tag that opens -> of the one that closes it, name by name: what is between is not looked at."""
    opened: dict[str, list[int]] = {}
    found = {}
    for number, token in enumerate(tokens):
        if token.kind == "open":
            opened.setdefault(token.name, []).append(number)
        elif token.kind == "close" and opened.get(token.name):
            found[opened[token.name].pop()] = number
    return found


def attributes(tag: str) -> Iterator[tuple[str, Span]]:
    """(name, where its value is), for those that have one."""
    for found in ATTRIBUTE.finditer(tag, 1):
        if found[2] is not None:
            quoted = found[2][0] in "\"'"
            yield found[1].lower(), (found.start(2) + quoted, found.end(2) - quoted)
