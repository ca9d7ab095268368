"""Passages come apart into what a model can read, and nothing of them is lost."""

import gc
import time

from hypothesis import given
from hypothesis import strategies as st

from regard.documents.glossary import Glossary, Term
from regard.documents.passage import Passage
from regard.documents.protect import restore
from regard.documents.segments import Segment, join_segments, segments
from regard.text.placeholders import PLACEHOLDERS


def cut(
    text: str, glossary: Glossary | None = None, most: int = 60, fixed: tuple[tuple[int, int], ...] = ()
) -> list[Segment]:
    return segments(Passage(text, fixed=fixed), "en", glossary, lambda part: len(part) <= most)


def test_sentences_and_what_stands_behind_their_placeholders() -> None:
    first, second = cut("See http://x.org/a.b?c. I ate 2 apples.")
    assert first.readable == "See ①."
    assert first.protected.kept == ("http://x.org/a.b?c",)
    assert second.readable == "I ate ① apples."
    assert second.text == "I ate 2 apples."


def test_what_is_fixed_is_one_thing_whatever_is_in_it() -> None:
    text = "Run rm -rf. Go now."
    (segment,) = cut(text, fixed=((4, 14),))
    assert segment.protected.kept == ("rm -rf. Go",)
    assert segment.readable == "Run ① now."


def test_terms_are_in_the_targets_words() -> None:
    glossary = Glossary([Term("bank", "Ufer"), Term("Tom", "Tom"), Term("house", "Haus", inflect=True)])
    (segment,) = cut("Bank and bank and Tom and house.", glossary)
    assert segment.protected.kept == ("Ufer", "Ufer", "Tom")
    assert segment.originals == ("Bank", "bank", "Tom")
    assert [term.source for term in segment.inflectable] == ["house"]


def test_more_to_carry_over_than_there_are_placeholders() -> None:
    text = "We have " + " and ".join(str(i) for i in range(100, 130)) + " of them."
    parts = cut(text, most=10_000)
    assert all(len(part.protected.kept) <= len(PLACEHOLDERS) for part in parts)
    assert join_segments(text, parts, [part.text for part in parts])[0] == text


def test_what_is_kept_is_never_cut_and_takes_no_room() -> None:
    code = "`" + ", ".join(f"w{i} z" for i in range(40)) + "`"
    (segment,) = cut(f"The man said {code} is what I want.")
    assert segment.protected.kept == (code,)
    parts = cut(f"The man said that {code} is what I want, and that nobody else will ever get it from him.")
    assert [part.protected.kept for part in parts] == [(code,), ()]
    (segment,) = cut("Das alte Haus steht.", Glossary([Term("alte Haus", "x " * 50)]))
    assert segment.protected.kept == ("x " * 50,)


def test_an_abbreviation_before_a_number_ends_no_sentence() -> None:
    for text in ("See Fig. 3.2 for details.", "On Jan. 5-7 we left.", "See pp. 10–20 there."):
        assert len(cut(text)) == 1
    assert len(cut("It costs 5 km. Then we left.")) == 2


def test_capitals_are_read_in_small_letters() -> None:
    (segment,) = cut("WHERE IS THE STATION?")
    assert segment.readable == "Where is the station?"
    assert segment.is_all_caps
    assert cut("NASA")[0].readable == "NASA"


@given(st.text(alphabet="ab .!?\n{}%s1😀①<>@/é\t\x0b\x1c\x85", max_size=200))
def test_nothing_is_lost(text: str) -> None:
    parts = cut(text, Glossary([Term("a", "b"), Term("b a", "x")]), most=20)
    again, places = join_segments(text, parts, [part.text for part in parts])
    assert again == text
    assert [text[start:end] for start, end in places] == [part.text for part in parts]
    for part in parts:
        assert part.text
        assert restore(part.protected, part.protected.text) is not None


def test_a_long_line_full_of_everything_takes_no_time() -> None:
    text = "Tom paid 5 € to {name} at http://x.org/y. " * 2500
    started = time.process_time()
    assert len(cut(text, Glossary([Term("Tom", "Thomas")]))) == 2500
    assert time.process_time() - started < 3


def test_time_grows_with_the_text_and_not_faster() -> None:
    glossary = Glossary([Term("5", "five", inflect=True), Term("a", "b", inflect=True)])

    def seconds(count: int) -> float:
        gc.disable()  # a collection of all that a long test run holds takes as long as what is measured
        try:
            started = time.process_time()
            cut("5 a " * count, glossary)
            return time.process_time() - started
        finally:
            gc.enable()

    assert seconds(40_000) < 10 * max(seconds(10_000), 0.05)
