"""A file's name -> its format; its bytes -> text, and back.

    film.srt   ->   "subtitles"   ->   read_text: the text, and how it was encoded   ->   parse   ->   a Document

Texts are UTF-8, or UTF-16 where a byte order mark says so. What was read with a mark is written with it, and line ends
are never touched.
"""

import codecs
from importlib import import_module
from pathlib import Path
from typing import Literal

from regard.documents.passage import Document
from regard.errors import InputError, OutputError, UsageError

Format = Literal["plain", "subtitles", "catalog", "memory", "table", "html", "markdown"]
FORMATS: dict[Format, tuple[str, ...]] = {
    "plain": (".txt",),
    "subtitles": (".srt", ".vtt"),
    "catalog": (".po", ".pot"),
    "memory": (".tmx",),
    "table": (".tsv",),
    "html": (".html", ".htm", ".xhtml"),
    "markdown": (".md", ".markdown"),
}
"""Format -> how the names of its files end. A module beside this one has the name of each."""

Encoding = Literal["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"]
MARKS: dict[Encoding, bytes] = {
    "utf-8-sig": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}
"""The byte order mark of each encoding that has one."""


def format_of(path: Path) -> Format:
    found = next((format for format, suffixes in FORMATS.items() if path.suffix.lower() in suffixes), None)
    if found is None:
        known = " ".join(suffix for suffixes in FORMATS.values() for suffix in suffixes)
        raise UsageError(
            f"{path}: the end of its name is none of those that are known ({known}); "
            "give it the one that fits what is in it"
        )
    return found


def parse(text: str, format: Format, *, source: str | None, target: str | None) -> Document:
    """The languages are for a translation memory, which has several; no other format asks for them."""
    languages = {}
    if format == "memory":
        if source is None or target is None:
            raise UsageError(
                "a translation memory has several languages; name the source and the target, such as en, de"
            )
        languages = {"source": source, "target": target}
    module = import_module(f"regard.documents.{format}")  # when first met: few files are of more than one format
    document: Document = module.parse(text, **languages)
    return document


def read_text(path: Path) -> tuple[str, Encoding]:
    """The text without its byte order mark, and what `write_text` needs to write one like it."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    encoding: Encoding = next((name for name, mark in MARKS.items() if raw.startswith(mark)), "utf-8")
    mark = MARKS.get(encoding, b"")
    codec = encoding.removesuffix("-sig")
    try:
        return raw[len(mark) :].decode(codec), encoding
    except UnicodeDecodeError as error:
        place = len(mark) + error.start
        line = raw.count(b"\n", 0, place) + 1
        raise InputError(
            f"{path}: line {line}: byte {place + 1} of the file (0x{raw[place]:02X}) is not {codec.upper()}; "
            "save the file as UTF-8"
        ) from None


def write_text(path: Path, text: str, encoding: Encoding = "utf-8") -> None:
    raw = MARKS.get(encoding, b"") + text.encode(encoding.removesuffix("-sig"))
    try:
        path.write_bytes(raw)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from None
