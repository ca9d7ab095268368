"""A file's name -> its format; its bytes -> text, and back.

    film.srt   ->   "subtitles"   ->   read_text: the text, and how it was encoded   ->   parse   ->   a Document

Texts are UTF-8, unless a byte order mark or a declaration in the file says otherwise: <meta charset>, <?xml encoding?>,
the header of a .po file. They are written in the encoding they were read in; characters that it lacks become &#8364;.
Only .po files always become UTF-8. Line ends are never changed.
"""

import codecs
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

from regard.documents.formats.encodings import codec_of
from regard.documents.passage import Document
from regard.errors import InputError, UsageError
from regard.io import write_bytes

Format = Literal["plain", "subtitles", "po", "tmx", "tsv", "html", "markdown"]
FORMATS: dict[Format, tuple[str, ...]] = {
    "plain": (".txt",),
    "subtitles": (".srt", ".vtt"),
    "po": (".po", ".pot"),
    "tmx": (".tmx",),
    "tsv": (".tsv",),
    "html": (".html", ".htm", ".xhtml"),
    "markdown": (".md", ".markdown"),
}
"""Format -> the endings of its files. Each format is a module of this package."""


@dataclass(frozen=True)
class Encoding:
    codec: str
    mark: bytes = b""
    """The byte order mark before the text."""
    missing: Literal["strict", "xmlcharrefreplace"] = "strict"
    """What to do with characters that the encoding lacks."""


MAX_BYTES = 100_000_000
"""The largest file; a document is in memory as a whole."""
UTF_8 = Encoding("utf-8")
WITH_BYTE_ORDER_MARK = [
    Encoding("utf-8", codecs.BOM_UTF8),
    Encoding("utf-32-le", codecs.BOM_UTF32_LE),  # before that of UTF-16, which it begins with
    Encoding("utf-32-be", codecs.BOM_UTF32_BE),
    Encoding("utf-16-le", codecs.BOM_UTF16_LE),
    Encoding("utf-16-be", codecs.BOM_UTF16_BE),
]
XML = rb"""\s*+<\?xml\s[^>]{0,200}?\sencoding\s*+=\s*+["']"""
META = rb"""<meta\s[^>]{0,200}?\bcharset\s*+=\s*+["']?"""
DECLARATIONS: dict[Format, re.Pattern[bytes]] = {
    "html": re.compile(rb"(?:\A%b|%b)([\w.:-]++)" % (XML, META), re.IGNORECASE),
    "tmx": re.compile(rb"\A%b([\w.:-]++)" % XML),
    "po": re.compile(rb'Content-Type:[^"\n]{0,200}?charset=([\w.:-]++)', re.IGNORECASE),
}
"""How a file declares its encoding."""
WINDOWS = re.compile(rb"[\x80-\x9f]")
"""Characters in windows-1252; in ISO-8859-1, which is often declared instead, controls that no text has."""


def format_of(path: Path) -> Format:
    found = _named(path)
    if found is None:
        known = " ".join(suffix for suffixes in FORMATS.values() for suffix in suffixes)
        raise UsageError(f"{path}: unknown file format; known endings are {known}; for other files give --format")
    return found


def _named(path: Path) -> Format | None:
    return next((format for format, suffixes in FORMATS.items() if path.suffix.lower() in suffixes), None)


def parse(text: str, format: Format, *, source: str | None, target: str | None) -> Document:
    """Parse a file's text. Only TMX files, which have several languages, need `source` and `target`."""
    languages = {}
    if format == "tmx":
        if source is None or target is None:
            raise UsageError("a TMX file has several languages; name the source and the target, such as en and de")
        languages = {"source": source, "target": target}
    # imported on first use: few runs need more than one format
    module = import_module(f"regard.documents.formats.{format}")
    document: Document = module.parse(text, **languages)
    return document


def read_text(path: Path, format: Format | None = None) -> tuple[str, Encoding]:
    """The text without its byte order mark, and the encoding for `write_text`. Default format: from the file's name."""
    raw = read_bytes(path, MAX_BYTES)
    format = format or _named(path)
    declared = _declared(raw, DECLARATIONS[format]) if format in DECLARATIONS else UTF_8
    encoding = next((marked for marked in WITH_BYTE_ORDER_MARK if raw.startswith(marked.mark)), declared)
    try:
        text = raw[len(encoding.mark) :].decode(encoding.codec)
    except UnicodeDecodeError as error:
        place = len(encoding.mark) + error.start
        line = raw.count(b"\n", 0, place) + 1
        raise InputError(
            f"{path}: line {line}: byte {place + 1} of the file (0x{raw[place]:02X}) is not {encoding.codec.upper()}; "
            "save the file as UTF-8"
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{path}: line {line}: has a NUL, so it is not text; if it is UTF-16, save it as UTF-8")
    return text, UTF_8 if format == "po" and not encoding.mark else encoding


def read_bytes(path: Path, most: int) -> bytes:
    """All of a file or a pipe, which may be endless."""
    try:
        with path.open("rb") as file:
            raw = file.read(most + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    if len(raw) > most:
        raise InputError(f"{path}: is larger than {most // 10**6} MB; divide it into several files")
    return raw


def _declared(raw: bytes, declaration: re.Pattern[bytes]) -> Encoding:
    """The declared encoding, if it is one of the web's. Valid UTF-8 beyond ASCII is UTF-8 whatever is declared: nothing
    else looks like it."""
    found = declaration.search(raw)
    codec = codec_of(found[1].decode("ascii")) if found else None
    if codec is None or (not raw.isascii() and _is_utf_8(raw)):
        return UTF_8
    if codec == "iso8859-1" and WINDOWS.search(raw):
        codec = "windows-1252"
    return Encoding(codec, missing="xmlcharrefreplace")


def _is_utf_8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeError:
        return False
    return True


def write_text(path: Path, text: str, encoding: Encoding = UTF_8) -> None:
    write_bytes(path, encoding.mark + text.encode(encoding.codec, encoding.missing))
