"""Plain text: lines are passages, and all around them stays."""

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.documents.formats.plain import parse
from regard.documents.formats.skeleton import raw_text
from regard.documents.passage import Mark, Passage

LETTER = "\ufeffDear Ann,\r\n\r\n\tI am here.  \r\n \t\r\n– Tom\u2028 P.S.\n\n\nEnd"


def test_lines_are_passages() -> None:
    assert parse(LETTER).passages == [
        Passage("Dear Ann,"),
        Passage("I am here."),
        Passage("– Tom\u2028 P.S."),
        Passage("End"),
    ]


def test_all_around_them_stays() -> None:
    document = parse(LETTER)
    assert document.render([Passage(passage.text.upper()) for passage in document.passages]) == LETTER.upper()


def test_a_line_stays_one_line() -> None:
    assert parse("one\r\ntwo").render([Passage("eins\nund"), Passage("zwei")]) == "eins und\r\nzwei"


def test_a_translation_for_each_passage() -> None:
    with pytest.raises(AssertionError):
        parse("one\ntwo").render([Passage("eins")])


@settings(deadline=None, max_examples=300)
@given(st.text() | st.text(alphabet="a \t\r\n\ufeff\x85\u2028"))
@example("")
@example("\r")
@example("a\r\r\n\n\rb\r")
def test_the_same_comes_out(text: str) -> None:
    document = parse(text)
    assert document.render(document.passages) == text
    assert all(passage.text.strip() == passage.text != "" for passage in document.passages)


def test_long_lines_and_many() -> None:
    start = time.thread_time()
    for text in ("word " * 20_000, " " * 1_000_000, "a\n" * 100_000, " \r" * 100_000):
        document = parse(text)
        assert document.render(document.passages) == text
    assert time.thread_time() - start < 10


def test_marks_are_put_in_in_order() -> None:
    marks = (Mark(0, "<b>", "open"), Mark(0, "<i>", "open"), Mark(2, "</i>", "close"), Mark(4, "</b>", "close"))
    assert raw_text(Passage("a&bc", marks)) == "<b><i>a&</i>bc</b>"
    assert raw_text(Passage("a&bc", marks), lambda text: text.replace("&", "&amp;")) == "<b><i>a&amp;</i>bc</b>"
