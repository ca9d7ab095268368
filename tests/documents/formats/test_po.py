"""Message catalogues: what has no translation gets one, and all else stays."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.documents.formats.po import Catalog, parse
from regard.documents.passage import Mark, Passage
from regard.errors import InputError

HEADER = r"""# German translations.
#, fuzzy
msgid ""
msgstr ""
"Project-Id-Version: box 1.0\n"
"Language: de\n"
"MIME-Version: 1.0\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Content-Transfer-Encoding: 8bit\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"
"""

BODY = r"""
# by hand
#. extracted
#: menu.c:12
msgctxt "menu"
msgid "Open a \"file\"\tnow"
msgstr ""

msgid "Done"
msgstr "Fertig"

#: main.c:3
#, fuzzy, c-format
#| msgid "%d old"
msgid "%d new\n"
msgstr "%d alt\n"

#, fuzzy
#| msgid "Old"
msgid "New"
msgstr "Alt"
msgid ""
"\n"
"  First line\n"
"\n"
"Second \\ line"
msgstr ""

#, c-format
msgid "One file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""

#, fuzzy
#~ msgid "Gone"
#~ msgstr "Weg"
"""

TRANSLATED = r"""
# by hand
#. extracted
#: menu.c:12
msgctxt "menu"
msgid "Open a \"file\"\tnow"
msgstr "OPEN A \"FILE\"\tNOW"

msgid "Done"
msgstr "Fertig"

#: main.c:3
#, c-format
msgid "%d new\n"
msgstr "%D NEW\n"

msgid "New"
msgstr "NEW"
msgid ""
"\n"
"  First line\n"
"\n"
"Second \\ line"
msgstr ""
"\n"
"  FIRST LINE\n"
"\n"
"SECOND \\ LINE"

#, c-format
msgid "One file"
msgid_plural "%d files"
msgstr[0] "ONE FILE"
msgstr[1] "%D FILES"

#, fuzzy
#~ msgid "Gone"
#~ msgstr "Weg"
"""


def upper(document: Catalog) -> str:
    return document.render([Passage(passage.text.upper()) for passage in document.passages])


def copied(document: Catalog) -> str:
    return document.render(document.passages)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_what_has_no_translation_gets_one(end: str, mark: str) -> None:
    document = parse(mark + (HEADER + BODY).replace("\n", end))
    assert [passage.text for passage in document.passages] == [
        'Open a "file"\tnow',
        "%d new",
        "New",
        "First line",
        "Second \\ line",
        "One file",
        "%d files",
    ]
    assert upper(document) == mark + (HEADER + TRANSLATED).replace("\n", end)


def test_a_translated_catalogue_stays() -> None:
    text = HEADER + TRANSLATED
    assert parse(text).passages == []
    assert copied(parse(text)) == text


def test_all_anew() -> None:
    document = parse(HEADER + TRANSLATED, all=True)
    assert [passage.text for passage in document.passages][:2] == ['Open a "file"\tnow', "Done"]
    assert upper(document) == HEADER + TRANSLATED.replace("Fertig", "DONE")


def test_without_a_line_end_at_the_end() -> None:
    assert copied(parse('msgid "a"\nmsgstr ""')) == 'msgid "a"\nmsgstr "a"'
    assert copied(parse('msgid "a"\r\nmsgstr "b"')) == 'msgid "a"\r\nmsgstr "b"'
    assert copied(parse("")) == ""


def test_a_translation_brings_no_line_feeds() -> None:
    said = Passage("\nb\n", (Mark(1, "<b>"),))
    assert parse('msgid "a\\n"\nmsgstr ""\n').render([said]) == 'msgid "a\\n"\nmsgstr " <b>b \\n"\n'


# ---- plural forms ----

PLURAL = 'msgid "One"\nmsgid_plural "Many"\n'


def head(forms: int) -> str:
    return f'msgid ""\nmsgstr "Plural-Forms: nplurals={forms}; plural=0;\\n"\n\n'


@pytest.mark.parametrize(
    ("before", "strings", "expected"),
    [
        ("", ["", ""], ["ONE", "MANY"]),
        ("", ["", "", ""], ["ONE", "MANY", "MANY"]),
        (head(3), ["", ""], ["ONE", "MANY", "MANY"]),
        (head(1), [""], ["MANY"]),  # the one form is for all numbers
        (head(2), ["Eins", ""], ["Eins", "MANY"]),
        (head(2), ["Eins"], ["Eins", "MANY"]),
        (head(2), ["Eins", "Viele"], ["Eins", "Viele"]),
        (head(99), ["", ""], ["ONE", "MANY"]),
        ('msgid ""\nmsgstr "Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"\n\n', ["", ""], ["ONE", "MANY"]),
    ],
)
def test_plural_forms(before: str, strings: list[str], expected: list[str]) -> None:
    def entry(values: list[str]) -> str:
        return before + PLURAL + "".join(f'msgstr[{form}] "{value}"\n' for form, value in enumerate(values))

    assert upper(parse(entry(strings))) == entry(expected)
    assert upper(parse(entry(strings).removesuffix("\n"))) == entry(expected).removesuffix("\n")


# ---- broken files ----


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('msgid "a"\nmsgstr "b" c\n', 2),
        ('msgid "a"\n\nmsgstr "b"c"\n', 3),
        ('msgid "a\nmsgstr ""\n', 1),
        ('msgid "a\\"\nmsgstr ""\n', 1),
        ("hello\n", 1),
        ('# a\n"b"\n', 2),
        ('msgid "a"\n\nmsgid "b"\nmsgstr ""\n', 1),
        ('msgid "a"\nmsgstr ""\n\nmsgid "b"\n', 4),
        ('msgstr "b"\n', 1),
        ('msgctxt "b"\n', 1),
        ('msgid "a"\nmsgstr "b"\nmsgctxt "c"\nmsgstr "d"\n', 3),
        ("\x00\n", 1),
    ],
)
def test_a_broken_file_names_the_line(text: str, line: int) -> None:
    with pytest.raises(InputError, match=rf"^line {line}: [^\n]+; [^\n]+$"):
        parse(text)


@settings(deadline=None, max_examples=300)
@given(
    st.text()
    | st.lists(st.sampled_from(['"a\\n"', "msgid ", "msgstr ", "\n", "#, fuzzy", "#~", '""', "\\"])).map("".join)
)
def test_any_text_is_taken_or_refused(text: str) -> None:
    refusal = None
    try:
        document = parse(text)
    except InputError as error:
        refusal = str(error)
    if refusal is not None:
        assert refusal.startswith("line ")
        assert "\n" not in refusal
        return
    again = parse(copied(document))
    assert again.passages == [] or copied(again) == copied(document)


ESCAPES = {
    "\\": "\\\\",
    '"': '\\"',
    "\n": "\\n",
    "\t": "\\t",
    "\r": "\\r",
    "\a": "\\a",
    "\v": "\\v",
    "\f": "\\f",
    "\b": "\\b",
}


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet='a \\"\n\t\r\v%ä{}\u2028', min_size=1))
def test_a_message_is_copied(message: str) -> None:
    """What was a msgid is a msgstr: an entry that has it as its msgid is read as the same."""
    written = "".join(ESCAPES.get(character, character) for character in message)
    text = f'msgid "{written}"\nmsgstr ""\n'
    rendered = copied(parse(text))
    assert rendered.startswith(f'msgid "{written}"\nmsgstr "')
    back = rendered.removeprefix(f'msgid "{written}"\n').replace("msgstr", "msgid") + 'msgstr ""\n'
    assert parse(back).passages == parse(text).passages
    strings = [line[line.index('"') + 1 : -1] for line in rendered.split("\n")[1:-1]]
    assert "".join(strings) == written
    assert all("\\n" not in string.replace("\\\\", "")[:-2] for string in strings)


def test_escapes_that_gettext_knows() -> None:
    document = parse('msgid "a\\101\\x42\\q"\nmsgstr ""\n')
    assert document.passages == [Passage("aAB\\q")]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"Caf\303\251", "Café"),
        (r"\xc3\xA9\101", "éA"),
        (r"\342\202\254 5", "€ 5"),
        (r"Caf\351", "Café"),  # not UTF-8: as in ISO-8859-1
        (r"\303\251\351\303", "ééÃ"),
        (r"\777", "ÿ"),
        (r"\\303\\251", r"\303\251"),
    ],
)
def test_bytes_are_utf_8(written: str, meant: str) -> None:
    document = parse(f'msgid "{written}"\nmsgstr ""\n')
    assert document.passages == [Passage(meant)]
    assert copied(document).endswith('msgstr "' + meant.replace("\\", "\\\\") + '"\n')


def test_bytes_go_over_lines() -> None:
    assert parse('msgid "Caf\\303"\n"\\251"\nmsgstr ""\n').passages == [Passage("Café")]


@pytest.mark.parametrize("charset", ["CHARSET", "ISO-8859-1", "us-ascii", "KOI8-R", "UTF-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_header_says_utf_8(charset: str, end: str) -> None:
    whole = (HEADER + '\nmsgid "charset=x"\nmsgstr "charset=y"\n').replace("\n", end)
    assert copied(parse(whole.replace("charset=UTF-8", f"charset={charset}"))) == whole


@pytest.mark.parametrize("charset", ["utf-8", "UTF8"])
def test_a_header_that_says_so_stays(charset: str) -> None:
    whole = HEADER.replace("charset=UTF-8", f"charset={charset}")
    assert copied(parse(whole)) == whole


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="needs gettext's msgfmt")
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_gettext_takes_it(end: str, tmp_path: Path) -> None:
    text = copied(parse((HEADER + BODY).replace("#, fuzzy\nmsgid", "msgid", 1).replace("\n", end)))
    (tmp_path / "a.po").write_text(text, newline="")
    command = ["msgfmt", "--check", "--statistics", "-o", str(tmp_path / "a.mo"), str(tmp_path / "a.po")]
    done = subprocess.run(command, capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    assert "6 translated messages." in done.stderr


def test_long_lines_and_many() -> None:
    start = time.thread_time()
    for text in (
        HEADER + BODY.replace("#~", "#~ ") * 10_000,
        'msgid "' + "word " * 20_000 + '"\nmsgstr ""\n',
        'msgid "' + "a\\n" * 50_000 + '"\nmsgstr ""\n',
        'msgid ""\n' + '"a"\n' * 50_000 + 'msgstr ""\n',
        "# a\n" * 100_000 + 'msgid "a"\nmsgstr ""\n',
        'msgid "a"\n' + 'msgid_plural "b"\n# c\n' * 50_000 + 'msgstr ""\n',
        'msgid "a"\n' + "".join(f'msgstr[{form}] ""\n' for form in range(50_000)),
    ):
        assert len(upper(parse(text))) > len(text) // 2
    for broken in ('"' * 100_001, 'msgid "' + "\\" * 100_001, "msgid" + " " * 100_000 + "x"):
        with pytest.raises(InputError):
            parse(broken)
    assert time.thread_time() - start < 30
