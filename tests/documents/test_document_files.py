"""Names, formats and encodings: what is read is written as it was."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.documents.files import FORMATS, Encoding, Format, format_of, parse, read_text, write_text
from regard.errors import InputError, OutputError, UsageError

SAMPLES: dict[Format, str] = {
    "plain": "One.\n",
    "subtitles": "1\n00:00:01,000 --> 00:00:02,000\nOne.\n",
    "catalog": 'msgid "One."\nmsgstr ""\n',
    "memory": '<tmx><body><tu><tuv xml:lang="EN"><seg>One.</seg></tuv></tu></body></tmx>',
    "table": "One.\t2\n",
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
        parse(SAMPLES["memory"], "memory", source=languages[0], target=languages[1])


RAW: list[tuple[Encoding, bytes]] = [
    ("utf-8", "a\r\nä\n\r三".encode()),
    ("utf-8-sig", b"\xef\xbb\xbf" + "a\r\nä\n\r三".encode()),
    ("utf-16-le", b"\xff\xfe" + "a\r\nä\n\r三".encode("utf-16-le")),
    ("utf-16-be", b"\xfe\xff" + "a\r\nä\n\r三".encode("utf-16-be")),
]


@pytest.mark.parametrize(("encoding", "raw"), RAW)
def test_what_is_read_is_written_as_it_was(encoding: Encoding, raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(raw)
    text, found = read_text(tmp_path / "a")
    assert (text, found) == ("a\r\nä\n\r三", encoding)
    write_text(tmp_path / "b", text, found)
    assert (tmp_path / "b").read_bytes() == raw


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
        assert "is not UTF-" in refusal
        return
    write_text(path, text, encoding)
    assert path.read_bytes() == raw


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"one\ntw\xe4\n", r"line 2: byte 7 of the file \(0xE4\) is not UTF-8; save the file as UTF-8"),
        (b"\xef\xbb\xbf\xff", r"line 1: byte 4 of the file \(0xFF\) is not UTF-8;"),
        (b"\xff\xfea\x00b", r"line 1: byte 5 of the file \(0x62\) is not UTF-16-LE;"),
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
