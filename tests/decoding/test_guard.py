"""The guard's eyes: what is a loop, what is too long, what is the source again."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.hypothesis import LOOP_REPEATS, attempts, faults, is_copy, repeats
from regard.decoding.settings import SearchSettings


@pytest.mark.parametrize(
    ("tokens", "times"),
    [
        ([], 1),
        ([1], 1),
        ([1, 2, 3], 1),
        ([1, 1], 2),
        ([5, 1, 2, 1, 2, 1, 2, 9], 3),
        ([1, 2, 3] * 5, 5),
        ([1, 2, 1, 3, 1, 2, 1, 3], 2),
        ([1, 2, 3, 4, 1, 2, 3], 1),  # the second round is not whole
    ],
)
def test_rounds(tokens: list[int], times: int) -> None:
    assert repeats(tokens) == times


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.integers(1, 9))
def test_a_cycle_is_counted_whatever_it_is_made_of(cycle: list[int], times: int) -> None:
    assert repeats(cycle * times) >= times


def test_a_loop_is_a_fault_unless_the_source_has_it() -> None:
    loop = [1, 2] * 6
    assert faults(list(range(100, 110)), loop, True) == {"loop"}
    assert not faults([7, 8] * 6, loop, True)
    assert not faults(list(range(100, 106)), [1, 2] * (LOOP_REPEATS - 1), True)


def test_lengths() -> None:
    source = list(range(20))
    assert not faults(source, list(range(100, 130)), True)
    assert faults(source, list(range(100, 200)), True) == {"length"}
    assert faults(source, [100, 101], True) == {"length"}
    assert faults(source, list(range(100, 130)), False) == {"length"}, "cut off by the limit"
    assert not faults([1, 2], [3], True), "a word may become a word"


def test_copies() -> None:
    source = ["the", "quick", "brown", "fox", "jumps"]
    assert is_copy(source, source)
    assert is_copy(source, ["the", "quick", "brown", "fox", "jumped", "again"]) is False
    assert not is_copy(["Angela", "Merkel"], ["Angela", "Merkel"]), "a name is copied"
    assert not is_copy(source, ["der", "schnelle", "braune", "Fuchs", "springt"])


def test_every_attempt_forbids_more() -> None:
    found = attempts(SearchSettings(beam=5, n_best=3))
    assert [one.no_repeat_ngram for one in found] == [4, 3, 2]
    assert [one.beam for one in found] == [5, 1, 1]


def test_a_megabyte_takes_no_time() -> None:
    started = time.thread_time()
    repeats([1, 2, 3, 5] * 10_000)
    assert time.thread_time() - started < 2
