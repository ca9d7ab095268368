"""Names, formats and encodings: what is read is written as it was."""

import time
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.documents.formats.encodings import LABELS
from regard.documents.formats.files import FORMATS, UTF_8, Encoding, Format, format_of, parse, read_text, write_text
from regard.errors import InputError, OutputError, UsageError

SAMPLES: dict[Format, str] = {
    "plain": "One.\n",
    "subtitles": "1\n00:00:01,000 --> 00:00:02,000\nOne.\n",
    "po": 'msgid "One."\nmsgstr ""\n',
    "tmx": '<tmx><body><tu><tuv xml:lang="EN"><seg>One.</seg></tuv></tu></body></tmx>',
    "tsv": "One.\t2\n",
}


@pytest.mark.parametrize("format", FORMATS)
def test_the_name_says_the_format(format: Format) -> None:
    for suffix in FORMATS[format]:
        assert format_of(Path("somewhere") / f"a.b{suffix}") == format
        assert format_of(Path(f"A{suffix.upper()}")) == format


def test_every_format_has_a_name() -> None:
    assert set(FORMATS) == set(get_args(Format))


@pytest.mark.parametrize("name", ["letter.docx", "README", ".txt", "a.txt.gz"])
def test_a_name_that_says_nothing(name: str) -> None:
    with pytest.raises(UsageError, match=rf"^{name}: .*\.txt \.srt .*\.markdown"):
        format_of(Path(name))


@pytest.mark.parametrize("format", SAMPLES)
def test_each_format_is_parsed(format: Format) -> None:
    document = parse(SAMPLES[format], format, source="en", target="de")
    assert [passage.text for passage in document.passages] == ["One."]
    assert "One." in document.render(document.passages)


@pytest.mark.parametrize("languages", [("en", None), (None, "de")])
def test_a_memory_needs_both_languages(languages: tuple[str | None, str | None]) -> None:
    with pytest.raises(UsageError, match="source and the target"):
        parse(SAMPLES["tmx"], "tmx", source=languages[0], target=languages[1])


TEXT = "a\r\nä\n\r三"
MARKS = {
    "utf-8": [b"", b"\xef\xbb\xbf"],
    "utf-16-le": [b"\xff\xfe"],
    "utf-16-be": [b"\xfe\xff"],
    "utf-32-le": [b"\xff\xfe\0\0"],
    "utf-32-be": [b"\0\0\xfe\xff"],
}


@pytest.mark.parametrize(("codec", "mark"), [(codec, mark) for codec, marks in MARKS.items() for mark in marks])
def test_what_is_read_is_written_as_it_was(codec: str, mark: bytes, tmp_path: Path) -> None:
    raw = mark + TEXT.encode(codec)
    (tmp_path / "a").write_bytes(raw)
    text, found = read_text(tmp_path / "a")
    assert (text, found) == (TEXT, Encoding(codec, mark))
    write_text(tmp_path / "b", text, found)
    assert (tmp_path / "b").read_bytes() == raw


PAGE = "<!-- é --><meta charset={}><p>x"
OLD_PAGE = '<META http-equiv="Content-Type" content="text/html; charset={}"><!-- é -->x'
MEMORY = '<?xml version="1.0" encoding="{}"?><!-- é --><tmx/>'
CATALOG = '# é\nmsgid ""\nmsgstr ""\n"Content-Type: text/plain; charset={}\\n"\n'


@pytest.mark.parametrize(
    ("name", "whole"), [("a.html", PAGE), ("a.HTM", OLD_PAGE), ("a.xhtml", MEMORY), ("a.tmx", MEMORY)]
)
@pytest.mark.parametrize("codec", ["ISO-8859-1", "latin1", "windows-1252", "ISO-8859-15"])
def test_the_encoding_that_a_file_declares(name: str, whole: str, codec: str, tmp_path: Path) -> None:
    whole = whole.format(codec)
    (tmp_path / name).write_bytes(whole.encode(codec))
    text, encoding = read_text(tmp_path / name)
    assert text == whole
    write_text(tmp_path / name, f"{text} ł ü", encoding)
    assert (tmp_path / name).read_bytes() == f"{whole} &#322; ü".encode(codec)


@pytest.mark.parametrize("name", ["a.html", "a.tmx"])
@pytest.mark.parametrize(
    "codec", ["UTF-8", "utf-16", "x-unknown", "base64", "undefined", "idna", "cp500", "ISO-8859-1"]
)
def test_what_is_utf_8_is_that_whatever_it_declares(name: str, codec: str, tmp_path: Path) -> None:
    whole = (PAGE if name == "a.html" else MEMORY).format(codec)
    (tmp_path / name).write_bytes(whole.encode())
    assert read_text(tmp_path / name)[0] == whole


HIDDEN = {  # what Python would make a tag of
    "unicode_escape": r"\x3cscript\x3e",
    "raw_unicode_escape": r"\u003cscript\u003e",
    "utf-7": "+ADw-script+AD4-",
    "iso-2022-jp": "\x1b(B<\x1b(J",
    "hz": "~~",
    "idna": "x",
    "punycode": "x",
    "utf_8_sig": "x",
    "undefined": "x",
    "rot13": "<fpevcg>",
    "mbcs": "x",
    "string_escape": "x",
}


@pytest.mark.parametrize("name", ["a.html", "a.xhtml", "a.tmx", "a.po"])
@pytest.mark.parametrize("codec", HIDDEN)
def test_what_is_no_encoding_of_the_web_is_not_obeyed(name: str, codec: str, tmp_path: Path) -> None:
    whole = {"a.html": PAGE, "a.xhtml": MEMORY, "a.tmx": MEMORY, "a.po": CATALOG}[name].replace("é", HIDDEN[codec])
    (tmp_path / name).write_bytes(whole.format(codec).encode())
    text, encoding = read_text(tmp_path / name)
    assert (text, encoding) == (whole.format(codec), UTF_8)


def test_every_encoding_is_a_superset_of_ascii() -> None:
    """The declaration was read as ASCII; and markup must stay what it is."""
    ascii = bytes(range(128))
    for codec in LABELS:
        assert ascii.decode(codec) == ascii.decode("ascii"), codec
        assert ascii.decode("ascii").encode(codec) == ascii, codec


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("Shift_JIS", "表示"),
        ("gb2312", "你好"),
        ("Big5", "你好"),
        ("EUC-KR", "안녕"),
        ("koi8-r", "мир"),
        ("euc-jp", "日本語の表"),
    ],
)
def test_the_encodings_of_the_east(label: str, text: str, tmp_path: Path) -> None:
    whole = PAGE.format(label).replace("é", text)
    (tmp_path / "a.html").write_bytes(whole.encode(label))
    found, encoding = read_text(tmp_path / "a.html")
    assert found == whole
    write_text(tmp_path / "a.html", found, encoding)
    assert (tmp_path / "a.html").read_bytes() == whole.encode(label)


def test_ascii_is_written_as_it_is_declared(tmp_path: Path) -> None:
    (tmp_path / "a.tmx").write_bytes(MEMORY.replace("é", "e").format("ISO-8859-1").encode())
    text, encoding = read_text(tmp_path / "a.tmx")
    write_text(tmp_path / "a.tmx", text.replace("<tmx/>", "<tmx>ä €</tmx>"), encoding)
    assert (tmp_path / "a.tmx").read_bytes().endswith(b"<tmx>\xe4 &#8364;</tmx>")


def test_quotation_marks_of_windows(tmp_path: Path) -> None:
    raw = PAGE.format("iso-8859-1").encode("latin-1") + b"\x93a\x94"
    (tmp_path / "a.html").write_bytes(raw)
    text, encoding = read_text(tmp_path / "a.html")
    assert text.endswith("“a”")
    write_text(tmp_path / "a.html", text, encoding)
    assert (tmp_path / "a.html").read_bytes() == raw


@pytest.mark.parametrize("codec", ["ISO-8859-1", "CHARSET", "UTF-8"])
def test_a_catalogue_becomes_utf_8(codec: str, tmp_path: Path) -> None:
    whole = CATALOG.format(codec)
    (tmp_path / "a.po").write_bytes(whole.encode("latin-1" if codec == "ISO-8859-1" else "utf-8"))
    text, encoding = read_text(tmp_path / "a.po")
    assert (text, encoding) == (whole, UTF_8)
    rendered = parse(text, "po", source=None, target=None).render([])
    assert rendered == CATALOG.format("UTF-8")


def test_others_declare_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(PAGE.format("iso-8859-1").encode("latin-1"))
    with pytest.raises(InputError, match="is not UTF-8"):
        read_text(tmp_path / "a.md")


def test_a_declaration_takes_no_longer_than_that(tmp_path: Path) -> None:
    start = time.thread_time()
    for name, raw in (("a.html", b"<meta "), ("a.html", b"<?xml "), ("a.po", b"Content-Type:"), ("a.tmx", b"<?xml ")):
        (tmp_path / name).write_bytes(raw * 50_000)
        read_text(tmp_path / name)
    assert time.thread_time() - start < 8


@settings(deadline=None, max_examples=200)
@given(raw=st.binary() | st.text().map(str.encode))
def test_any_bytes_come_back_or_are_refused(raw: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(raw)
    refusal = None
    try:
        text, encoding = read_text(path)
    except InputError as error:
        refusal = str(error)
    if refusal is not None:
        assert "is not UTF-" in refusal or "has a NUL" in refusal
        return
    write_text(path, text, encoding)
    assert path.read_bytes() == raw


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"one\ntw\xe4\n", r"line 2: byte 7 of the file \(0xE4\) is not UTF-8; save the file as UTF-8"),
        (b"\xef\xbb\xbf\xff", r"line 1: byte 4 of the file \(0xFF\) is not UTF-8;"),
        (b"\xff\xfea\x00b", r"line 1: byte 5 of the file \(0x62\) is not UTF-16-LE;"),
        ("a\nb".encode("utf-16-le"), r"line 1: has a NUL, so it is not text; if it is UTF-16, save it as UTF-8"),
        ("a\nb".encode("utf-32-be"), r"line 1: has a NUL, "),
        (b"a\nb\0c", r"line 2: has a NUL, "),
    ],
)
def test_bytes_that_are_no_text(raw: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(raw)
    with pytest.raises(InputError, match=rf"a\.txt: {said}"):
        read_text(tmp_path / "a.txt")


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.txt: cannot be read \(No such file"):
        read_text(tmp_path / "none.txt")
    with pytest.raises(OutputError, match=r"a\.txt: cannot be written \(No such file"):
        write_text(tmp_path / "nowhere" / "a.txt", "a")
