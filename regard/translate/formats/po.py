r"""Message catalogues of gettext (.po, .pot): each msgid that has no msgstr yet is translated into one.

    #: menu.c:12                       passage "Open a file"
    msgid "Open a file\n"       ->     msgid "Open a file\n"
    msgstr ""                          msgstr "Datei öffnen\n"

Each line of a msgid is a passage; white space around it and \n stay. What is fuzzy is translated again and then no
longer fuzzy: the flag and the previous msgid (#|) go, since both speak of the old translation. All other lines stay as
they are: comments, obsolete entries (#~), entries that have their msgstr, and the header but for its charset, which
becomes UTF-8 (a template's is CHARSET): a translation may have letters that another does not have.

Of an entry with a plural, msgstr[0] comes from msgid and all other forms from msgid_plural. Where the language has but
one form, it is used for all numbers and comes from msgid_plural: "One file" would be wrong for two.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from regard.errors import InputError
from regard.translate.formats.template import edges, fill, lines_of, raw_text
from regard.translate.passage import Passage

BOM = "\ufeff"
STRINGS = r'(?:"(?:[^"\\]++|\\.)*+"\s*+)'
FIELD = re.compile(
    rf"\s*+(?P<keyword>msgctxt|msgid_plural|msgid|msgstr\s*+\[\s*+\d++\s*+\]|msgstr|domain)\s*+{STRINGS}*+"
)
MORE = re.compile(rf"\s*+{STRINGS}++")
STRING = re.compile(r'"((?:[^"\\]++|\\.)*+)"')
BYTE = re.compile(r"\\(?:[0-7]{1,3}|x[0-9A-Fa-f]{1,2})")
ESCAPE = re.compile(rf"(?P<bytes>(?:{BYTE.pattern})++)|\\.")
SHORT_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\\": "\\", '"': '"'}
WRITTEN = str.maketrans({character: f"\\{letter}" for letter, character in SHORT_ESCAPES.items()})
LATIN = {0xDC00 + byte: byte for byte in range(0x80, 0x100)}
"""Bytes that are no UTF-8, as Python marks them -> as the characters that they are elsewhere."""
CHARSET = re.compile(r"(charset=)(?!utf-?8\b)[\w.:-]++", re.IGNORECASE)
FORMS = re.compile(r"nplurals\s*=\s*(\d{1,2})\b")
MOST_FORMS = 10
"""More than any language has (Arabic: 6); a header that says more is not believed."""


@dataclass
class Field:
    """msgid, msgstr and so on, with the lines that belong to it."""

    keyword: str
    start: int
    stop: int
    """From this line up to, not including, that one."""
    raw: list[str] = field(default_factory=list)
    """Its strings, as they stand between quotation marks."""

    @property
    def value(self) -> str:
        return _unescaped("".join(self.raw))


@dataclass
class Entry:
    comments: list[int] = field(default_factory=list)
    """Lines before it that begin with a #."""
    fields: list[Field] = field(default_factory=list)

    def find(self, keyword: str) -> Field | None:
        return next((found for found in self.fields if found.keyword == keyword), None)

    @property
    def strings(self) -> list[Field]:
        return [found for found in self.fields if found.keyword.startswith("msgstr")]


Message = list[str | int]
"""A msgid: white space and line feeds that stay, and the numbers of its passages."""


@dataclass(frozen=True)
class Write:
    """A msgstr that is to be written."""

    keyword: str
    message: Message
    end: str
    """Of each of its lines."""


@dataclass(frozen=True)
class Catalog:
    pieces: Sequence[str | Write]
    passages: Sequence[Passage]
    added: str
    """A line end that the file did not have at its end, and shall not have."""

    def render(self, translated: Sequence[Passage]) -> str:
        assert len(translated) == len(self.passages), "a translation for each passage"
        # msgfmt compares line feeds at both ends, so a translation brings none of its own
        texts = [raw_text(passage).replace("\n", " ") for passage in translated]
        whole = "".join(piece if isinstance(piece, str) else _written(piece, texts) for piece in self.pieces)
        return whole.removesuffix(self.added)


def parse(text: str, all: bool = False) -> Catalog:
    """With `all`, entries that have a msgstr get a new one, too."""
    rest = text.removeprefix(BOM)
    lines = list(lines_of(rest))
    added = ""
    if lines and not lines[-1][1]:
        added = lines[0][1] or "\n"
        lines[-1] = (lines[-1][0], added)
    entries = list(_entries([content for content, _ in lines]))
    header = next((entry.strings[0] for entry in entries if _is_header(entry)), None)
    forms = _forms(header)
    changes: dict[int, list[str | Write]] = {
        place: [CHARSET.sub(r"\1UTF-8", "".join(lines[place]))]
        for place in (range(header.start, header.stop) if header else ())
    }
    passages: list[Passage] = []
    for entry in entries:
        changes |= _changes(entry, lines, forms, passages, all)
    pieces: list[str | Write] = [text[: len(text) - len(rest)]]
    for place, (content, end) in enumerate(lines):
        pieces += changes.get(place, [content + end])
    return Catalog(pieces, passages, added)


# ---- lines -> entries ----


def _entries(lines: Sequence[str]) -> Iterator[Entry]:
    entry = Entry()
    for place, line in enumerate(lines):
        bare = line.strip()
        if not bare:
            continue
        if bare.startswith("#"):
            if entry.fields and entry.fields[-1].keyword.startswith("msgstr"):
                yield _checked(entry)
                entry = Entry()
            if bare.startswith("#~"):  # an obsolete entry stays, and so do the comments before it
                entry.comments.clear()
            else:
                entry.comments.append(place)
        elif found := FIELD.fullmatch(bare):
            keyword = re.sub(r"\s", "", found["keyword"])
            if _begins(keyword, entry):
                yield _checked(entry)
                entry = Entry()
            if keyword != "domain":
                entry.fields.append(Field(keyword, place, place + 1, STRING.findall(bare)))
        elif MORE.fullmatch(bare) and entry.fields:
            entry.fields[-1].raw += STRING.findall(bare)
            entry.fields[-1].stop = place + 1
        else:
            raise InputError(
                f"line {place + 1}: should be a comment (#), or a keyword (msgid, msgstr …) with a text in quotation "
                'marks, or more of the text before; within a text, put a \\ before each "'
            )
    if entry.fields:
        yield _checked(entry)


def _begins(keyword: str, entry: Entry) -> bool:
    """Whether this is the first field of another entry."""
    if keyword == "msgid":
        return any(found.keyword != "msgctxt" for found in entry.fields)
    return keyword in ("msgctxt", "domain") and bool(entry.fields)


def _checked(entry: Entry) -> Entry:
    keywords = [found.keyword for found in entry.fields]
    line = entry.fields[0].start + 1
    if "msgid" not in keywords:
        raise InputError(f"line {line}: {keywords[0]} belongs to no msgid; put one before it, or remove it")
    if not entry.strings:
        raise InputError(f'line {line}: msgid has no msgstr; put msgstr "" after it')
    return entry


def _is_header(entry: Entry) -> bool:
    identity = entry.find("msgid")
    return identity is not None and not identity.value and not entry.find("msgctxt")


def _forms(header: Field | None) -> int | None:
    """How many plural forms the header says there are."""
    found = FORMS.search(header.value) if header else None
    return int(found[1]) if found and 1 <= int(found[1]) <= MOST_FORMS else None


# ---- entries -> what changes ----


def _changes(
    entry: Entry, lines: Sequence[tuple[str, str]], forms: int | None, passages: list[Passage], all: bool
) -> dict[int, list[str | Write]]:
    """Line -> what stands there instead, for an entry that is to be translated."""
    identity, plural = entry.find("msgid"), entry.find("msgid_plural")
    assert identity is not None  # _checked
    fuzzy = any("fuzzy" in _flags(lines[place][0]) for place in entry.comments)
    present = {found.keyword: found for found in entry.strings}
    wanted = [f"msgstr[{form}]" for form in range(forms)] if plural and forms else list(present)
    empty = [keyword for keyword in wanted if keyword not in present or not present[keyword].value]
    writes = wanted if all or fuzzy else empty
    if not identity.value or not writes:
        return {}

    first = _message(identity.value, passages)
    others = _message(plural.value, passages) if plural else first
    end = lines[identity.start][1]
    changes = _without_fuzzy(entry, lines) if fuzzy else {}
    more: list[str | Write] = []
    for keyword in writes:
        singular = keyword == "msgstr[0]" and len(wanted) > 1
        write = Write(keyword, first if singular else others, end)
        if keyword in present:
            found = present[keyword]
            changes |= {place: [] for place in range(found.start, found.stop)} | {found.start: [write]}
        else:
            more.append(write)
    last = entry.strings[-1].stop - 1
    changes[last] = [*changes.get(last, ["".join(lines[last])]), *more]
    return changes


def _flags(line: str) -> list[str]:
    """ "#, fuzzy, c-format" -> ["fuzzy", "c-format"]."""
    bare = line.strip()
    return [flag.strip() for flag in bare[2:].split(",")] if bare.startswith("#,") else []


def _without_fuzzy(entry: Entry, lines: Sequence[tuple[str, str]]) -> dict[int, list[str | Write]]:
    changes: dict[int, list[str | Write]] = {}
    for place in entry.comments:
        content, end = lines[place]
        flags = _flags(content)
        if "fuzzy" in flags:
            left = [flag for flag in flags if flag != "fuzzy"]
            changes[place] = [f"#, {', '.join(left)}{end}"] if left else []
        elif content.strip().startswith("#|"):
            changes[place] = []
    return changes


# ---- strings ----


def _message(value: str, passages: list[Passage]) -> Message:
    message: Message = []
    for content, end in lines_of(value):
        before, core, after = edges(content)
        if core:
            message += [before, len(passages), after + end]
            passages.append(Passage(core))
        else:
            message.append(content + end)
    return message


def _written(write: Write, texts: Sequence[str]) -> str:
    """As gettext writes it: a string a line, after an empty one, where there are several lines."""
    value = fill(write.message, texts)
    strings = [value] if "\n" not in value[:-1] else ["", *(content + end for content, end in lines_of(value))]
    return f"{write.keyword} " + "".join(f'"{string.translate(WRITTEN)}"{write.end}' for string in strings)


def _unescaped(raw: str) -> str:
    return ESCAPE.sub(_character, raw)


def _character(found: re.Match[str]) -> str:
    """Of one escape, or of a row of bytes: \\303\\251 is one letter."""
    if found["bytes"] is None:
        return SHORT_ESCAPES.get(found[0][1:], found[0])
    digits = [escape[1:] for escape in BYTE.findall(found[0])]
    raw = bytes(int(one[1:], 16) if one[0] == "x" else int(one, 8) & 0xFF for one in digits)
    return raw.decode("utf-8", "surrogateescape").translate(LATIN)
