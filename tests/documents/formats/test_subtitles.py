"""Subtitles: what is said is translated; numbers, times and all else stay, in files of every kind."""

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.documents.formats.subtitles import Subtitles, parse
from regard.documents.passage import Mark, Passage
from regard.errors import InputError

FILM = """\ufeff1
00:00:01,000 --> 00:00:02,500
Good morning.

2
00:00:03,000 --> 00:00:04,000  X1:117 X2:619 Y1:042 Y2:428
I <i>told
you</i> so.

3
00:00:05,000 --> 00:00:06,000
{\\an8}- Where is <b>he</b>?
– I don't know
  at all.

4
00:00:07,000 --> 00:00:08,000
♪

5
00:00:09,000 --> 00:00:10,000
<i>
♪ Happy birthday
to you ♪
</i>

6
00:00:11,000 --> 00:00:12,000
<font color="#ffff00">It is -5
outside.</font> <laughs>


7
00:00:12,000 --> 00:00:13,000


8
00:00:13,000 --> 00:00:14,000
1984
"""

WEB = """WEBVTT - A film
Kind: captions

STYLE
::cue { color: white }

NOTE
Not to be translated
at all

intro
00:01.000 --> 00:02.000 align:start position:10%
<v Ann>Fish &amp; chips,&nbsp;please</v> <00:01.500>now

NOTE Nor this.

00:00:03.000 --> 00:00:04.000

NOTE Nor this

2
00:00:03.000 --> 00:00:04.000
- Yes.
- <c.loud>No!</c>
"""


def cue(text: str) -> str:
    return f"1\n00:00:01,000 --> 00:00:02,000\n{text}\n"


def texts(document: Subtitles) -> list[str]:
    return [passage.text for passage in document.passages]


def upper(document: Subtitles) -> str:
    return document.render([Passage(passage.text.upper(), passage.marks) for passage in document.passages])


def test_what_is_said_is_a_passage() -> None:
    assert texts(parse(FILM)) == [
        "Good morning.",
        "I told you so.",
        "Where is he?",
        "I don't know at all.",
        "Happy birthday to you",
        "It is -5 outside. <laughs>",
        "1984",
    ]


def test_tags_are_marks() -> None:
    passages = parse(FILM).passages
    assert passages[1].marks == (Mark(2, "<i>", "open"), Mark(10, "</i>", "close"))
    assert passages[2].marks == (Mark(9, "<b>", "open"), Mark(11, "</b>", "close"))
    assert passages[5].marks == (Mark(0, '<font color="#ffff00">', "open"), Mark(17, "</font>", "close"))


@pytest.mark.parametrize("text", [FILM, WEB])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r\r\n"])
def test_the_same_comes_out(text: str, end: str) -> None:
    for whole in (text, text.removesuffix("\n"), text.removeprefix("\ufeff"), text + "\n\n"):
        document = parse(whole.replace("\n", end))
        assert document.render(document.passages) == whole.replace("\n", end)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_all_but_what_is_said_stays(end: str) -> None:
    expected = FILM
    for before, after in [
        ("Good morning.", "GOOD MORNING."),
        ("I <i>told\nyou</i> so.", "I <i>TOLD\nYOU</i> SO."),
        ("Where is <b>he</b>?", "WHERE IS <b>HE</b>?"),
        ("I don't know\n  at all.", "I DON'T\nKNOW AT ALL."),
        ("Happy birthday\nto you", "HAPPY BIRTHDAY\nTO YOU"),
        ("It is -5\noutside.</font> <laughs>", "IT IS -5\nOUTSIDE.</font> <LAUGHS>"),
    ]:
        assert before in expected
        expected = expected.replace(before, after)
    assert upper(parse(FILM.replace("\n", end))) == expected.replace("\n", end)


def test_webvtt() -> None:
    document = parse(WEB)
    assert document.passages == [
        Passage(
            "Fish & chips,\xa0please now",
            (Mark(0, "<v Ann>", "open"), Mark(20, "</v>", "close"), Mark(21, "<00:01.500>")),
        ),
        Passage("Yes."),
        Passage("No!", (Mark(0, "<c.loud>", "open"), Mark(3, "</c>", "close"))),
    ]
    said = [Passage("A & b > c"), Passage("Ja."), Passage("Nein!")]
    rendered = document.render(said)
    expected = WEB.replace("<v Ann>Fish &amp; chips,&nbsp;please</v> <00:01.500>now", "A &amp; b &gt; c")
    assert rendered == expected.replace("Yes.", "Ja.").replace("<c.loud>No!</c>", "Nein!")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<i>One</i>", [Passage("One", (Mark(0, "<i>", "open"), Mark(3, "</i>", "close")))]),
        ("<i>One", [Passage("One", (Mark(0, "<i>"),))]),
        ("One</i>", [Passage("One", (Mark(3, "</i>"),))]),
        (
            "<i>a <b>b</i> c</b>",
            [Passage("a b c", (Mark(0, "<i>", "open"), Mark(2, "<b>"), Mark(3, "</i>", "close"), Mark(5, "</b>")))],
        ),
        ("<i> One </i>", [Passage("One", (Mark(0, "<i>", "open"), Mark(3, "</i>", "close")))]),
        ("One<br/>two", [Passage("Onetwo", (Mark(3, "<br/>"),))]),
        ("{\\an8}{\\i1}One {\\b1}two", [Passage("One two", (Mark(4, "{\\b1}"),))]),
        ("A {\\i1}b{\\i0} c", [Passage("A b c", (Mark(2, "{\\i1}", "open"), Mark(3, "{\\i0}", "close")))]),
        ("{\\i1}A{\\i0} b", [Passage("A b", (Mark(0, "{\\i1}", "open"), Mark(1, "{\\i0}", "close")))]),
        ("{\\an8}{\\b700}A{\\b}", [Passage("A", (Mark(0, "{\\b700}", "open"), Mark(1, "{\\b}", "close")))]),
        ("A {\\i1\\b1}b{\\b0\\i0}", [Passage("A b", (Mark(2, "{\\i1\\b1}", "open"), Mark(3, "{\\b0\\i0}", "close")))]),
        ("A {\\c&HFF&}b{\\c}", [Passage("A b", (Mark(2, "{\\c&HFF&}", "open"), Mark(3, "{\\c}", "close")))]),
        ("A <i>b{\\i0} c", [Passage("A b c", (Mark(2, "<i>"), Mark(3, "{\\i0}")))]),
        (
            "A {\\i1}b <i>c{\\i0} d</i>",
            [
                Passage(
                    "A b c d", (Mark(2, "{\\i1}", "open"), Mark(4, "<i>"), Mark(5, "{\\i0}", "close"), Mark(7, "</i>"))
                )
            ],
        ),
        ("A{\\pos(1,2)} b{\\r}", [Passage("A b", (Mark(1, "{\\pos(1,2)}"), Mark(3, "{\\r}")))]),
        ("<i>- One.\n- Two.</i>", [Passage("One."), Passage("Two.", (Mark(4, "</i>"),))]),
        ("One.\n-Two.", [Passage("One."), Passage("Two.")]),
        ("♪ One ♪\n♪ two ♪", [Passage("One"), Passage("two")]),
        ("<i>♪ One ♪</i>", [Passage("One")]),
        ("One\n...\ntwo", [Passage("One"), Passage("two")]),
        ("<b>\nOne\n</b>", [Passage("One")]),
        ("I <3 {you} & me", [Passage("I <3 {you} & me")]),
        ("10\xa0000  men", [Passage("10\xa0000 men")]),
    ],
)
def test_what_is_in_a_subtitle(text: str, expected: list[Passage]) -> None:
    document = parse(cue(text))
    assert document.passages == expected
    assert document.render(expected) == cue(text)


@pytest.mark.parametrize(
    ("source", "said", "expected"),
    [
        ("a\nb", "eins zwei drei vier", "eins zwei\ndrei vier"),
        ("a\nb", "eins\nzwei drei  vier", "eins zwei\ndrei  vier"),
        ("a\nb\nc", "eins zwei drei vier fünf sechs", "eins zwei\ndrei vier\nfünf sechs"),
        ("a\nb\nc", "eins zwei", "eins\nzwei"),
        ("a\nb", "Donaudampfschifffahrt", "Donaudampfschifffahrt"),
        ("a\nb", "eins zwei dreiundvierzigtausend", "eins zwei\ndreiundvierzigtausend"),
        ("a", "kurz und gut", "kurz und gut"),
        ("a", "lang " * 9 + "Ende", "lang lang lang lang lang\nlang lang lang lang Ende"),
        ("a\n- b", "lang " * 9 + "Ende", "lang " * 9 + "Ende"),
        ("a\nb", "", ""),
    ],
)
def test_lines_are_balanced(source: str, said: str, expected: str) -> None:
    document = parse(cue(source))
    rest = document.passages[1:]
    assert document.render([Passage(said), *rest]) == cue(expected + ("\n- b" if rest else ""))


def test_a_second_line_at_the_end_of_a_file() -> None:
    text = cue("a").replace("\n", "\r\n").removesuffix("\r\n")
    assert parse(text).render([Passage("lang " * 9 + "Ende")]).endswith("lang lang\r\nlang lang lang lang Ende")


def test_a_line_is_not_broken_inside_a_tag() -> None:
    tag = '<font color="red" size="12">'
    said = Passage("eins zwei drei", (Mark(5, tag, "open"), Mark(9, "</font>", "close")))
    assert parse(cue("a\nb")).render([said]) == cue(f"eins\n{tag}zwei</font> drei")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00:00:01,000 --> 00:00:02,000\nOne.\n\n00:00:01,000 --> 00:00:02,000\nTwo.", ["One.", "Two."]),
        ("1\n00:00:01.000 --> 00:00:02.000\nOne.\n2\n0:0:1,0->0:0:2,0\nTwo.", ["One.", "Two."]),
        ("1\n00:00:09,000 --> 00:00:02,000\n2\n00:00:01,000 --> 00:00:02,000\nTwo.", ["Two."]),
        ("1\n\n00:00:01,000 --> 00:00:02,000\n\nOne.\n\n2\n\n00:00:01,000 --> 00:00:02,000\n\nTwo.", ["One.", "Two."]),
        ("1\n00:00:01,000 --> 00:00:02,000\nOne.\n\nMore.\n\n\n7\n00:00:01,000 --> 00:00:02,000", ["One.", "More."]),
        ("A film\n\n1\n00:00:01,000 --> 00:00:02,000", []),
        ("WEBVTT\n\n00:01.000 --> 00:02.000\nOne.\n00:02.000 --> 00:03.000\nTwo.", ["One.", "Two."]),
    ],
)
def test_damaged_files_are_taken_as_they_are(text: str, expected: list[str]) -> None:
    document = parse(text)
    assert texts(document) == expected
    assert document.render(document.passages) == text


@pytest.mark.parametrize("text", ["", "Good morning.\n", "1\n00:00:01,000\nOne.\n", "WEBVTT\n\nNOTE nothing\n"])
def test_a_file_without_times(text: str) -> None:
    with pytest.raises(InputError, match=r"^no line has times such as 00:00:01,000 --> .*; is this a subtitle file\?$"):
        parse(text)


PARTS = [
    "00:01.0 --> 00:02.0",
    "\n",
    "\n\n",
    "\r\n",
    "2",
    "-",
    "–",
    "♪",
    "<i>",
    "</i>",
    "<",
    "{\\an8}",
    "{\\i1}",
    "{\\i0}",
    "{",
    "&amp;",
    " ",
    "a",
    "NOTE",
]


@settings(deadline=None, max_examples=400)
@given(
    text=st.text() | st.lists(st.sampled_from(PARTS)).map("".join),
    head=st.sampled_from(["", "WEBVTT\n\n", "\ufeff"]),
    said=st.text(),
)
@example("- \n-", "", "")
@example("{\\a\n8}", "", "")
@example("<i\na>", "WEBVTT\n\n", "")
def test_any_text_comes_back(text: str, head: str, said: str) -> None:
    whole = f"{head}00:00:01,000 --> 00:00:02,000\n{text}"
    document = parse(whole)
    assert document.render(document.passages) == whole
    for passage in document.passages:
        assert passage.text.strip(" ") == passage.text != ""
        assert [mark.at for mark in passage.marks] == sorted(mark.at for mark in passage.marks)
        assert all(0 <= mark.at <= len(passage.text) for mark in passage.marks)
    document.render([Passage(said, passage.marks[:0]) for passage in document.passages])
    assert upper(document).count("-->") >= 1


def test_long_lines_and_many() -> None:
    start = time.thread_time()
    for text in (
        FILM.removeprefix("\ufeff") * 15_000,  # more than 100,000 subtitles
        cue("word " * 20_000),
        cue("word\n" * 20_000),
        cue("<i>" * 30_000 + "a" + "</b>" * 30_000),
        cue("<i" * 50_000 + "{\\a" * 30_000),
        cue("{\\i1}a" * 30_000 + "{\\i0}" * 30_000),
        cue("a{" + "\\i1" * 50_000 + "}b"),
        cue("- " * 50_000 + "a" + " ♪" * 50_000),
        cue("1" * 100_000),
        cue(" " * 100_000 + "a" + " " * 100_000 + "b"),
        cue("00:" * 30_000),
    ):
        document = parse(text)
        assert document.render(document.passages) == text
        assert len(upper(document)) >= len(text) // 2
    assert time.thread_time() - start < 60
