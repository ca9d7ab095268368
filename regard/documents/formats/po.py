r"""gettext message catalogs (.po, .pot): each msgid without a msgstr gets one.

    #: menu.c:12                       passage "Open a file"
    msgid "Open a file\n"       ->     msgid "Open a file\n"
    msgstr ""                          msgstr "Datei öffnen\n"

Each line of a msgid is a passage; white space around it and \n stay. Fuzzy entries are translated again and lose the
flag and the previous msgid (#|), which describe the old translation. All other lines stay unchanged: comments, obsolete
entries (#~), translated entries, and the header except its charset, which becomes UTF-8 (a .pot file has CHARSET): a
translation may need characters that another charset lacks.

In an entry with a plural, msgstr[0] comes from msgid and all other forms from msgid_plural. If the language has only
one form, it is used for all numbers and comes from msgid_plural: "One file" would be wrong for two.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from regard.documents.formats.skeleton import edges, fill, lines_of, raw_text
from regard.documents.passage import Passage
from regard.errors import InputError

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
ESCAPES = str.maketrans({character: f"\\{letter}" for letter, character in SHORT_ESCAPES.items()})
LATIN = {0xDC00 + byte: byte for byte in range(0x80, 0x100)}
"""Bytes that are not UTF-8, as Python's surrogates -> as Latin-1 characters."""
CHARSET = re.compile(r"(charset=)(?!utf-?8\b)[\w.:-]++", re.IGNORECASE)
PLURAL_FORMS = re.compile(r"nplurals\s*=\s*(\d{1,2})\b")
MAX_PLURAL_FORMS = 10
"""More than any language has (Arabic: 6); a header with more is ignored."""


@dataclass
class Field:
    """msgid, msgstr and so on, with its lines."""

    keyword: str
    start: int
    stop: int
    """Its lines: from `start` up to, but not including, `stop`."""
    raw: list[str] = field(default_factory=list)
    """Its strings, without the quotation marks."""

    @property
    def value(self) -> str:
        return _unescaped("".join(self.raw))


@dataclass
class Entry:
    """A message with its comments, fields and translations."""

    comments: list[int] = field(default_factory=list)
    """The lines before it that begin with #."""
    fields: list[Field] = field(default_factory=list)

    def find(self, keyword: str) -> Field | None:
        return next((found for found in self.fields if found.keyword == keyword), None)

    @property
    def translations(self) -> list[Field]:
        return [found for found in self.fields if found.keyword.startswith("msgstr")]


Message = list[str | int]
"""A msgid: white space and line feeds that stay, and the indices of its passages."""


@dataclass(frozen=True)
class NewTranslation:
    """A msgstr to write."""

    keyword: str
    message: Message
    end: str
    """The line end."""


@dataclass(frozen=True)
class Catalog:
    """A parsed catalog."""

    pieces: Sequence[str | NewTranslation]
    passages: Sequence[Passage]
    added_end: str
    """The line end that was added to the last line, and is removed again."""

    def render(self, translated: Sequence[Passage]) -> str:
        assert len(translated) == len(self.passages), "expected one translation for each passage"
        # msgfmt compares line feeds at both ends, so a translation must add none
        texts = [raw_text(passage).replace("\n", " ") for passage in translated]
        whole = "".join(piece if isinstance(piece, str) else _written(piece, texts) for piece in self.pieces)
        return whole.removesuffix(self.added_end)


def parse(text: str, all: bool = False) -> Catalog:
    """Parse a catalog. With `all`, translated entries are translated again."""
    rest = text.removeprefix(BOM)
    lines = list(lines_of(rest))
    added_end = ""
    if lines and not lines[-1][1]:
        added_end = lines[0][1] or "\n"
        lines[-1] = (lines[-1][0], added_end)
    entries = list(_entries([content for content, _ in lines]))
    header = next((entry.translations[0] for entry in entries if _is_header(entry)), None)
    forms = _forms(header)
    changes: dict[int, list[str | NewTranslation]] = {
        number: [CHARSET.sub(r"\1UTF-8", "".join(lines[number]))]
        for number in (range(header.start, header.stop) if header else ())
    }
    passages: list[Passage] = []
    for entry in entries:
        changes |= _changes(entry, lines, forms, passages, all)
    pieces: list[str | NewTranslation] = [text[: len(text) - len(rest)]]
    for number, (content, end) in enumerate(lines):
        pieces += changes.get(number, [content + end])
    return Catalog(pieces, passages, added_end)


# ---- lines -> entries ----


def _entries(lines: Sequence[str]) -> Iterator[Entry]:
    entry = Entry()
    for number, line in enumerate(lines):
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
                entry.comments.append(number)
        elif found := FIELD.fullmatch(bare):
            keyword = re.sub(r"\s", "", found["keyword"])
            if _begins(keyword, entry):
                yield _checked(entry)
                entry = Entry()
            if keyword != "domain":
                entry.fields.append(Field(keyword, number, number + 1, STRING.findall(bare)))
        elif MORE.fullmatch(bare) and entry.fields:
            entry.fields[-1].raw += STRING.findall(bare)
            entry.fields[-1].stop = number + 1
        else:
            raise InputError(
                f"line {number + 1}: expected a comment (#), a keyword (msgid, msgstr …) with a string in quotation "
                'marks, or another string; inside a string, write \\" for each "'
            )
    if entry.fields:
        yield _checked(entry)


def _begins(keyword: str, entry: Entry) -> bool:
    """Whether this field begins a new entry."""
    if keyword == "msgid":
        return any(found.keyword != "msgctxt" for found in entry.fields)
    return keyword in ("msgctxt", "domain") and bool(entry.fields)


def _checked(entry: Entry) -> Entry:
    keywords = [found.keyword for found in entry.fields]
    line = entry.fields[0].start + 1
    if "msgid" not in keywords:
        raise InputError(f"line {line}: {keywords[0]} has no msgid; put one before it, or remove it")
    if not entry.translations:
        raise InputError(f'line {line}: msgid has no msgstr; put msgstr "" after it')
    return entry


def _is_header(entry: Entry) -> bool:
    identity = entry.find("msgid")
    return identity is not None and not identity.value and not entry.find("msgctxt")


def _forms(header: Field | None) -> int | None:
    """The number of plural forms that the header declares."""
    found = PLURAL_FORMS.search(header.value) if header else None
    return int(found[1]) if found and 1 <= int(found[1]) <= MAX_PLURAL_FORMS else None


# ---- entries -> changes ----


def _changes(
    entry: Entry, lines: Sequence[tuple[str, str]], forms: int | None, passages: list[Passage], all: bool
) -> dict[int, list[str | NewTranslation]]:
    """Line -> its replacement, for an entry to be translated."""
    identity, plural = entry.find("msgid"), entry.find("msgid_plural")
    assert identity is not None  # _checked
    fuzzy = any("fuzzy" in _flags(lines[number][0]) for number in entry.comments)
    present = {found.keyword: found for found in entry.translations}
    keywords = [f"msgstr[{form}]" for form in range(forms)] if plural and forms else list(present)
    empty = [keyword for keyword in keywords if keyword not in present or not present[keyword].value]
    to_write = keywords if all or fuzzy else empty
    if not identity.value or not to_write:
        return {}

    first = _message(identity.value, passages)
    others = _message(plural.value, passages) if plural else first
    end = lines[identity.start][1]
    changes = _without_fuzzy(entry, lines) if fuzzy else {}
    more: list[str | NewTranslation] = []
    for keyword in to_write:
        singular = keyword == "msgstr[0]" and len(keywords) > 1
        new = NewTranslation(keyword, first if singular else others, end)
        if keyword in present:
            found = present[keyword]
            changes |= {number: [] for number in range(found.start, found.stop)} | {found.start: [new]}
        else:
            more.append(new)
    last = entry.translations[-1].stop - 1
    changes[last] = [*changes.get(last, ["".join(lines[last])]), *more]
    return changes


def _flags(line: str) -> list[str]:
    """ "#, fuzzy, c-format" -> ["fuzzy", "c-format"]."""
    bare = line.strip()
    return [flag.strip() for flag in bare[2:].split(",")] if bare.startswith("#,") else []


def _without_fuzzy(entry: Entry, lines: Sequence[tuple[str, str]]) -> dict[int, list[str | NewTranslation]]:
    changes: dict[int, list[str | NewTranslation]] = {}
    for number in entry.comments:
        content, end = lines[number]
        flags = _flags(content)
        if "fuzzy" in flags:
            left = [flag for flag in flags if flag != "fuzzy"]
            changes[number] = [f"#, {', '.join(left)}{end}"] if left else []
        elif content.strip().startswith("#|"):
            changes[number] = []
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


def _written(new: NewTranslation, texts: Sequence[str]) -> str:
    """As gettext writes it: a text of several lines is an empty string and then a string for each line."""
    value = fill(new.message, texts)
    strings = [value] if "\n" not in value[:-1] else ["", *(content + end for content, end in lines_of(value))]
    return f"{new.keyword} " + "".join(f'"{string.translate(ESCAPES)}"{new.end}' for string in strings)


def _unescaped(raw: str) -> str:
    return ESCAPE.sub(_character, raw)


def _character(found: re.Match[str]) -> str:
    """The character of an escape, or of a sequence of byte escapes: \\303\\251 is one letter."""
    if found["bytes"] is None:
        return SHORT_ESCAPES.get(found[0][1:], found[0])
    digits = [escape[1:] for escape in BYTE.findall(found[0])]
    raw = bytes(int(one[1:], 16) if one[0] == "x" else int(one, 8) & 0xFF for one in digits)
    return raw.decode("utf-8", "surrogateescape").translate(LATIN)
