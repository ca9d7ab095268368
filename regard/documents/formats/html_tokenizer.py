"""A tokenizer for HTML of any quality: tags, comments, entities and template expressions.

    "a <b>c</b> < d<!-- e --> {{ f }}"   ->   "a ", <b>, "c", </b>, " < d", <!-- e -->, " ", {{ f }}

Not based on html.parser, which does not tell where a token ends and repairs broken markup. Time is linear in the length
of the text: patterns never backtrack (`*+`), and what is not found from one position on is not searched for again.
"""

import html
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from regard.documents.passage import Span

RAW_TEXT = frozenset(["script", "style", "textarea"])
"""Elements without markup inside, except their own end tag."""
CHILDLESS = "area base br col embed hr img input link meta param source track wbr"
VOID = frozenset(CHILDLESS.split())
WHITE = " \t\n\r\f"

EXPRESSION = (  # never across an end tag: a stray "{{" must not swallow the text that follows
    r"(?:<%(?:[^<%]++|<(?!%)|%(?!>))*+%>"
    r"|\{\{(?:[^{}<]++|\{(?!\{)|\}(?!\})|<(?!/))*+\}\}++"
    r"|\{%(?:[^{%<]++|\{(?!%)|%(?!\})|<(?!/))*+%\}"
    r"|\$\{(?:[^${}<]++|\$(?!\{)|<(?!/))*+\})"
)
TEMPLATE = re.compile(f"({EXPRESSION})")
"""<%= a %>  {{ a }}  {% if a %}  ${a}: expressions that another program replaces, so they must not change. None begins
inside another of its kind, so that many unclosed ones are not each read to the end."""
OPENING = re.compile(r"<|\{[{%]|\$\{")

QUOTED = "|".join(rf"{quote}(?:[^{quote}<{{$]++|{EXPRESSION}|[<{{$])*+{quote}" for quote in "\"'")
TAG = re.compile(rf"<(/?)([A-Za-z][\w:.-]*+)(?:[^<>={{$]++|{EXPRESSION}|[{{$]|=\s*+(?>{QUOTED}|))*+")
"""Without the final >: whether it follows tells a tag from a stray <."""
ATTRIBUTE = re.compile(rf"""{EXPRESSION}|([^\s"'<>/=]++)(?:\s*+=\s*+({QUOTED}|[^\s"'>]++))?""")
ENTITY = re.compile(r"(&(?:#\d{1,9}+(?!\d);?|#[xX][0-9a-fA-F]{1,8}+(?![0-9a-fA-F]);?|[A-Za-z][A-Za-z0-9]{0,31};?))")
"""Of limited length: html.unescape fails on numbers with thousands of digits."""
COMMENTS = {"<!--": ["-->"], "<![CDATA[": ["]]>"], "<!": [">"], "<?php": ["?>"], "<?": ["?>", ">"]}
"""The start of comments and the like -> how they end: with the first of these that follows. PHP may extend to the
end of the file; other <? without ?> come from word processors."""

Kind = Literal["text", "template", "open", "close", "single"]


class Token(NamedTuple):
    kind: Kind
    name: str
    """In lower case; empty for text, templates, and comments, which are single."""
    start: int
    end: int


def decoded(raw: str) -> str:
    return ENTITY.sub(lambda found: html.unescape(found[0]), raw)


def tokens(text: str) -> Iterator[Token]:
    """The tokens of the text, which together are all of it."""
    lasts = {end: text.rfind(end) for ends in COMMENTS.values() for end in ends}
    done = at = 0
    while opening := OPENING.search(text, at):
        at = opening.start()
        comment = next((beginning for beginning in COMMENTS if text.startswith(beginning, at)), None)
        if template := TEMPLATE.match(text, at):
            token = Token("template", "", *template.span())
        elif comment:
            closing = next((closing for closing in COMMENTS[comment] if at + 2 <= lasts[closing]), None)
            # a browser shows nothing after a comment that is never closed
            end = text.index(closing, at + 2) + len(closing) if closing else len(text)
            token = Token("single", "", at, end)
        else:
            found = TAG.match(text, at)
            if not found or text[found.end() : found.end() + 1] != ">":  # a stray <
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
    """The index of each opening tag -> that of its closing tag. Names are matched separately, whatever is between."""
    opened: dict[str, list[int]] = {}
    found = {}
    for index, token in enumerate(tokens):
        if token.kind == "open":
            opened.setdefault(token.name, []).append(index)
        elif token.kind == "close" and opened.get(token.name):
            found[opened[token.name].pop()] = index
    return found


def attributes(tag: str) -> Iterator[tuple[str, Span]]:
    """(name, span of the value) of each attribute that has a value."""
    for found in ATTRIBUTE.finditer(tag, 1):
        if found[2] is not None:
            quoted = found[2][0] in "\"'"
            yield found[1].lower(), (found.start(2) + quoted, found.end(2) - quoted)
