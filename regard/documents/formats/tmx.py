"""Translation memories (TMX 1.4): units with a segment in the source language but none in the target language get one.

    <tu>                                             <tu>
      <tuv xml:lang="en-US"><seg>Open</seg></tuv>      <tuv xml:lang="en-US"><seg>Open</seg></tuv>
    </tu>                                       ->     <tuv xml:lang="de"><seg>Öffnen</seg></tuv>
                                                     </tu>

All other bytes of the file stay unchanged: an XML parser finds the positions, and the new parts are inserted. Entity
declarations are refused, since a few lines of them can expand to gigabytes; the document type, which most files name,
is not loaded.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from regard.documents.formats.skeleton import Template, paired, raw_text
from regard.documents.passage import Mark, Passage
from regard.errors import InputError

TAG = r"""<(?:[^<>"']++|"[^"]*+"|'[^']*+')*+>"""
TAG_OF_BYTES = re.compile(TAG.encode())
TOKEN = re.compile(
    r"<!\[CDATA\[(?P<verbatim>.*?)\]\]>|(?P<silent><!--.*?-->|<\?.*?\?>)"
    rf"|(?P<tag>{TAG})|(?P<entity>&[^;]*+;)|(?P<text>[^<&]++)",
    re.DOTALL,
)
TAG_NAME = re.compile(r"</?+([^\s/>]++)")
OPAQUE: dict[str, Literal["open", "close", "single"]] = {
    "bpt": "open", "ept": "close", "ph": "single", "it": "single", "ut": "single",
}  # fmt: skip
"""Elements whose content is markup of another format: each is one mark, with all of its content."""
PAIR_NUMBER = re.compile(
    r"""<[^\s/>]++(?:\s++(?!i\s*+=)[^\s=/>]++\s*+=\s*+(?:"[^"]*+"|'[^']*+'))*+\s++i\s*+=\s*+["']([^"']*+)"""
)
"""The attribute i, which a <bpt> and its <ept> share."""
ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'"}
WHITE = b" \t\r\n"
Kind = Literal["open", "close", "single", "text"]


@dataclass
class Variant:
    """A <tuv>: a text in one language. All positions are in bytes; 0 until known."""

    language: str
    attribute: str
    """The name of the language attribute: xml:lang, or lang in old files."""
    start: int
    stop: int = 0
    segment: int = 0
    """Where <seg> begins."""
    text_start: int = 0
    text_stop: int = 0


@dataclass
class Scan:
    """Handlers of the XML parser, and what they have found so far."""

    raw: bytes
    parser: expat.XMLParserType
    units: list[list[Variant]] = field(default_factory=list)
    variant: Variant | None = None
    """The current one."""
    open_elements: list[str] = field(default_factory=list)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        here = self.parser.CurrentByteIndex
        if not self.open_elements and name != "tmx":
            line = self.parser.CurrentLineNumber
            raise InputError(f"line {line}: the file begins with <{name}>, but a TMX file begins with <tmx>")
        if name == "tu":
            self.units.append([])
            self.variant = None
        elif name == "tuv" and self.units:
            attribute = "lang" if "lang" in attributes else "xml:lang"
            self.variant = Variant(attributes.get(attribute, ""), attribute, here)
            self.units[-1].append(self.variant)
        elif name == "seg" and self.variant and self.open_elements[-1] == "tuv" and not self.variant.segment:
            self.variant.segment = here
            self.variant.text_start = _after_tag(self.raw, here)
        self.open_elements.append(name)

    def end(self, name: str) -> None:
        here = self.parser.CurrentByteIndex
        self.open_elements.pop()
        if name == "seg" and self.variant and self.open_elements[-1] == "tuv" and not self.variant.text_stop:
            self.variant.text_stop = here
        elif name == "tuv" and self.variant:
            self.variant.stop = _after_tag(self.raw, here)
            self.variant = None

    def entity(self, name: str, *_: object) -> None:
        raise InputError(
            f"line {self.parser.CurrentLineNumber}: declares the entity {name}; entity declarations are not supported, "
            "write out the text instead"
        )


def parse(text: str, source: str, target: str) -> Template:
    """Parse a file. "en" also matches "en-US". Units without the source or with the target language stay unchanged."""
    raw = text.encode("utf-8", "surrogatepass")  # the parser reports lone surrogates with their line
    pieces: list[str | int] = []
    passages: list[Passage] = []
    done = 0
    for unit in _units(raw):
        variant = _to_translate(unit, source, target)
        if variant is None:
            continue
        segment = raw[variant.text_start : variant.text_stop]
        bare = segment.strip(WHITE)
        if not bare:
            continue
        before, after = segment.split(bare, 1)
        opened, closed = _frame(raw, variant, target)
        pieces += [(raw[done : variant.stop] + opened + before).decode(), len(passages), (after + closed).decode()]
        passages.append(_passage(bare.decode()))
        done = variant.stop
    pieces.append(raw[done:].decode())
    return Template(pieces, passages, _written)


# ---- positions ----


def _units(raw: bytes) -> list[list[Variant]]:
    parser = expat.ParserCreate("utf-8")  # whatever the file declares: it was decoded before
    scan = Scan(raw, parser)
    parser.StartElementHandler = scan.start
    parser.EndElementHandler = scan.end
    parser.EntityDeclHandler = scan.entity
    try:
        parser.Parse(raw, True)
    except expat.ExpatError as error:
        raise InputError(
            f"line {error.lineno}: is not well-formed XML ({expat.ErrorString(error.code)}); "
            "correct it, or export the file again"
        ) from None
    return scan.units


def _after_tag(raw: bytes, position: int) -> int:
    """The end of the tag at this position. The parser reports the end of <tuv/> at the position after it."""
    found = TAG_OF_BYTES.match(raw, position)
    return found.end() if found else position


def _to_translate(unit: list[Variant], source: str, target: str) -> Variant | None:
    if any(_is_in(variant, target) for variant in unit):
        return None
    whole = (variant for variant in unit if variant.text_stop and variant.stop)
    return next((variant for variant in whole if _is_in(variant, source)), None)


def _is_in(variant: Variant, language: str) -> bool:
    found, expected = (name.lower().replace("_", "-") for name in (variant.language, language))
    return found == expected or found.startswith(f"{expected}-")


def _frame(raw: bytes, variant: Variant, target: str) -> tuple[bytes, bytes]:
    """The markup before and after the new text, with the white space of the source variant."""
    after_segment = _after_tag(raw, variant.text_stop)
    stop = after_segment
    while raw[stop] in WHITE:
        stop += 1
    opened = _white_before(raw, variant.start) + f"<tuv {variant.attribute}={quoteattr(target)}>".encode()
    return (
        opened + _white_before(raw, variant.segment) + b"<seg>",
        b"</seg>" + raw[after_segment:stop] + b"</tuv>",
    )


def _white_before(raw: bytes, position: int) -> bytes:
    start = position
    while raw[start - 1] in WHITE:
        start -= 1
    return raw[start:position]


# ---- a segment ----


def _passage(raw: str) -> Passage:
    pieces: list[str] = []
    marks: list[Mark] = []
    names: list[str] = []
    elements = [""]  # unique names of the open elements
    length = 0
    for kind, found in _tokens(raw):
        if kind == "text":
            pieces.append(found)
            length += len(found)
            continue
        name = _name(found)
        if name in OPAQUE:  # an <ept> closes nothing outside its own element, or tags would not nest
            kind, pair = OPAQUE[name], PAIR_NUMBER.match(found)
            names.append(f"{elements[-1]} {pair[1] if pair else ''}")
        elif kind == "open":
            elements.append(f"{name} {len(marks)}")
            names.append(elements[-1])
        else:
            names.append(elements.pop() if kind == "close" else "")
        marks.append(Mark(length, found, kind))
    return Passage("".join(pieces), paired(marks, names))


def _tokens(raw: str) -> Iterator[tuple[Kind, str]]:
    """Text, and marks: a tag, or an opaque element with all of its content."""
    depth = begun = 0  # depth: the number of open elements, from the first opaque one on
    for token in TOKEN.finditer(raw):
        kind = _kind(token)
        if depth:
            depth += {"open": 1, "close": -1}.get(kind, 0)
            if not depth:
                yield "single", raw[begun : token.end()]
        elif kind == "open" and _name(token[0]) in OPAQUE:
            depth, begun = 1, token.start()
        else:
            yield kind, _characters(token) if kind == "text" else token[0]


def _kind(token: re.Match[str]) -> Kind:
    if token.lastgroup == "tag":
        if token[0].endswith("/>"):
            return "single"
        return "close" if token[0].startswith("</") else "open"
    known = token[0] in ENTITIES or token[0].startswith("&#")
    return "single" if token.lastgroup == "silent" or (token.lastgroup == "entity" and not known) else "text"


def _name(raw: str) -> str:
    found = TAG_NAME.match(raw)
    return found[1] if found else ""


def _characters(token: re.Match[str]) -> str:
    if token.lastgroup == "verbatim":
        return token["verbatim"]
    if not token[0].startswith("&"):
        return token[0]
    if token[0] in ENTITIES:
        return ENTITIES[token[0]]
    digits = token[0][2:-1].lstrip("0")  # the parser allows any number of them, int() does not
    return chr(int(digits[1:], 16) if digits.startswith("x") else int(digits))


def _written(passage: Passage) -> str:
    return raw_text(passage, escape)
