"""Columns between tabs: one is read, one is written, the others stay."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.documents.formats.skeleton import Template
from regard.documents.formats.tsv import parse
from regard.documents.passage import Passage
from regard.errors import InputError, UsageError

TABLE = '\ufeff1\tGood morning.\tx\r\n\r\n2\t "Yes" \t\n\t \t\n3\t\tz\n4\tBye'


def upper(document: Template) -> str:
    return document.render([Passage(passage.text.upper()) for passage in document.passages])


def test_into_a_new_last_column() -> None:
    document = parse(TABLE, column=2)
    assert [passage.text for passage in document.passages] == ["Good morning.", '"Yes"', "Bye"]
    assert upper(document) == (
        '\ufeff1\tGood morning.\tx\tGOOD MORNING.\r\n\r\n2\t "Yes" \t\t "YES" \n\t \t\n3\t\tz\t\n4\tBye\tBYE'
    )


def test_into_the_column_itself() -> None:
    assert upper(parse(TABLE, column=2, into=2)) == (
        '\ufeff1\tGOOD MORNING.\tx\r\n\r\n2\t "YES" \t\n\t \t\n3\t\tz\n4\tBYE'
    )


def test_into_another_column() -> None:
    assert upper(parse(TABLE, column=2, into=1)) == (
        '\ufeffGOOD MORNING.\tGood morning.\tx\r\n\r\n "YES" \t "Yes" \t\n\t \t\n3\t\tz\nBYE\tBye'
    )


def test_a_row_that_is_too_short_is_extended() -> None:
    assert upper(parse("a\nb\tc\td\te\n", into=4)) == "a\t\t\tA\nb\tc\td\tB\n"


def test_a_translation_stays_in_its_cell() -> None:
    assert parse("a\tb\n").render([Passage("c\td\ne")]) == "a\tb\tc d e\n"


def test_the_mark_at_the_start_is_no_text() -> None:
    assert upper(parse("\ufeffa\n", into=1)) == "\ufeffA\n"


def test_a_row_without_the_column() -> None:
    with pytest.raises(InputError, match=r"^line 3: has 1 column, but column 2 is to be translated; correct"):
        parse("a\tb\n\nc\n", column=2)


@pytest.mark.parametrize("asked", [{"column": 0}, {"into": 0}, {"column": -1, "into": 1}])
def test_columns_are_counted_from_1(asked: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="counted from 1"):
        parse("a", **asked)


@settings(deadline=None, max_examples=300)
@given(st.text() | st.text(alphabet="a \t\r\n\ufeff"))
def test_the_same_comes_out(text: str) -> None:
    document = parse(text, into=1)
    assert document.render(document.passages) == text
    beside = parse(text)
    assert beside.render(beside.passages).count("\n") == text.count("\n")


def test_long_rows_and_many() -> None:
    start = time.thread_time()
    for text in ("word " * 20_000, "a" + "\t" * 100_000, "a\tb\n" * 100_000, " \r" * 100_000):
        document = parse(text, into=1)
        assert document.render(document.passages) == text
    assert time.thread_time() - start < 10
