"""Translation memories (TMX 1.4): a unit that has a segment in one language and none in the other gets it.

    <tu>                                             <tu>
      <tuv xml:lang="en-US"><seg>Open</seg></tuv>      <tuv xml:lang="en-US"><seg>Open</seg></tuv>
    </tu>                                       ->     <tuv xml:lang="de"><seg>Öffnen</seg></tuv>
                                                     </tu>

The rest of the file stays as it is, to the byte: an XML parser says where things are, and the new parts are put in
between. Entities of the file's own are refused, since a few lines of them can stand for gigabytes; the document type,
which most files name, is not looked up.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from regard.errors import InputError
from regard.translate.formats.template import Template, paired, raw_text
from regard.translate.passage import Mark, Passage

TAG = r"""<(?:[^<>"']++|"[^"]*+"|'[^']*+')*+>"""
TAG_OF_BYTES = re.compile(TAG.encode())
TOKEN = re.compile(
    r"<!\[CDATA\[(?P<verbatim>.*?)\]\]>|(?P<silent><!--.*?-->|<\?.*?\?>)"
    rf"|(?P<tag>{TAG})|(?P<entity>&[^;]*+;)|(?P<text>[^<&]++)",
    re.DOTALL,
)
TAG_NAME = re.compile(r"</?+([^\s/>]++)")
WHOLE: dict[str, Literal["open", "close", "single"]] = {
    "bpt": "open", "ept": "close", "ph": "single", "it": "single", "ut": "single",
}  # fmt: skip
"""Elements whose content is markup of another format: each is one mark, with all that is in it."""
PAIR = re.compile(
    r"""<[^\s/>]++(?:\s++(?!i\s*+=)[^\s=/>]++\s*+=\s*+(?:"[^"]*+"|'[^']*+'))*+\s++i\s*+=\s*+["']([^"']*+)"""
)
"""What a <bpt> and its <ept> have in common."""
ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'"}
WHITE = b" \t\r\n"
Kind = Literal["open", "close", "single", "text"]


@dataclass
class Variant:
    """A <tuv>: a text in one language. All places are those of bytes; 0 until they are known."""

    language: str
    attribute: str
    """What the language is called: xml:lang, or lang in files of old."""
    start: int
    stop: int = 0
    segment: int = 0
    """Where <seg> begins."""
    text_start: int = 0
    text_stop: int = 0


@dataclass
class Scan:
    """What the parser has seen so far."""

    raw: bytes
    parser: expat.XMLParserType
    units: list[list[Variant]] = field(default_factory=list)
    variant: Variant | None = None
    """The one that we are in."""
    inside: list[str] = field(default_factory=list)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        here = self.parser.CurrentByteIndex
        if not self.inside and name != "tmx":
            line = self.parser.CurrentLineNumber
            raise InputError(f"line {line}: begins with <{name}>, but a translation memory (TMX) begins with <tmx>")
        if name == "tu":
            self.units.append([])
            self.variant = None
        elif name == "tuv" and self.units:
            attribute = "lang" if "lang" in attributes else "xml:lang"
            self.variant = Variant(attributes.get(attribute, ""), attribute, here)
            self.units[-1].append(self.variant)
        elif name == "seg" and self.variant and self.inside[-1] == "tuv" and not self.variant.segment:
            self.variant.segment = here
            self.variant.text_start = _after_tag(self.raw, here)
        self.inside.append(name)

    def end(self, name: str) -> None:
        here = self.parser.CurrentByteIndex
        self.inside.pop()
        if name == "seg" and self.variant and self.inside[-1] == "tuv" and not self.variant.text_stop:
            self.variant.text_stop = here
        elif name == "tuv" and self.variant:
            self.variant.stop = _after_tag(self.raw, here)
            self.variant = None

    def entity(self, name: str, *_: object) -> None:
        raise InputError(
            f"line {self.parser.CurrentLineNumber}: declares the entity {name}, and a file with entities of its own "
            "is not taken; write what it stands for in its place"
        )


def parse(text: str, source: str, target: str) -> Template:
    """Languages as in xml:lang; "en" is "en-US", too. A unit without the source, or with the target, stays as it is."""
    raw = text.encode("utf-8", "surrogatepass")  # half a character is not well-formed, and the parser says where
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


# ---- where things are ----


def _units(raw: bytes) -> list[list[Variant]]:
    parser = expat.ParserCreate("utf-8")  # whatever the file says: it has been decoded already
    scan = Scan(raw, parser)
    parser.StartElementHandler = scan.start
    parser.EndElementHandler = scan.end
    parser.EntityDeclHandler = scan.entity
    try:
        parser.Parse(raw, True)
    except expat.ExpatError as error:
        raise InputError(
            f"line {error.lineno}: is not well-formed XML ({expat.ErrorString(error.code)}); "
            "mend it, or export the file again"
        ) from None
    return scan.units


def _after_tag(raw: bytes, place: int) -> int:
    """Where the tag that begins here ends; the end of <tuv/> is told when it is over already."""
    found = TAG_OF_BYTES.match(raw, place)
    return found.end() if found else place


def _to_translate(unit: list[Variant], source: str, target: str) -> Variant | None:
    if any(_speaks(variant, target) for variant in unit):
        return None
    whole = (variant for variant in unit if variant.text_stop and variant.stop)
    return next((variant for variant in whole if _speaks(variant, source)), None)


def _speaks(variant: Variant, language: str) -> bool:
    found, wanted = (name.lower().replace("_", "-") for name in (variant.language, language))
    return found == wanted or found.startswith(f"{wanted}-")


def _frame(raw: bytes, variant: Variant, target: str) -> tuple[bytes, bytes]:
    """What stands before and after the new text, with the white space of the variant that it is a translation of."""
    after_segment = _after_tag(raw, variant.text_stop)
    stop = after_segment
    while raw[stop] in WHITE:
        stop += 1
    opened = _white_before(raw, variant.start) + f"<tuv {variant.attribute}={quoteattr(target)}>".encode()
    return (
        opened + _white_before(raw, variant.segment) + b"<seg>",
        b"</seg>" + raw[after_segment:stop] + b"</tuv>",
    )


def _white_before(raw: bytes, place: int) -> bytes:
    start = place
    while raw[start - 1] in WHITE:
        start -= 1
    return raw[start:place]


# ---- a segment ----


def _passage(raw: str) -> Passage:
    pieces: list[str] = []
    marks: list[Mark] = []
    names: list[str] = []
    around = [""]  # the names of the elements that we are in, no two the same
    length = 0
    for kind, found in _taken_apart(raw):
        if kind == "text":
            pieces.append(found)
            length += len(found)
            continue
        name = _name(found)
        if name in WHOLE:  # an <ept> closes nothing outside the element that it is in, or tags would no longer nest
            kind, pair = WHOLE[name], PAIR.match(found)
            names.append(f"{around[-1]} {pair[1] if pair else ''}")
        elif kind == "open":
            around.append(f"{name} {len(marks)}")
            names.append(around[-1])
        else:
            names.append(around.pop() if kind == "close" else "")
        marks.append(Mark(length, found, kind))
    return Passage("".join(pieces), paired(marks, names))


def _taken_apart(raw: str) -> Iterator[tuple[Kind, str]]:
    """Characters, and what is a mark: a tag, or an element with all that is in it."""
    depth = begun = 0  # depth: how many elements we are in, from the first on that is one mark as a whole
    for token in TOKEN.finditer(raw):
        kind = _kind(token)
        if depth:
            depth += {"open": 1, "close": -1}.get(kind, 0)
            if not depth:
                yield "single", raw[begun : token.end()]
        elif kind == "open" and _name(token[0]) in WHOLE:
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
    digits = token[0][2:-1]
    return chr(int(digits[1:], 16) if digits.startswith("x") else int(digits))


def _written(passage: Passage) -> str:
    return raw_text(passage, escape)
