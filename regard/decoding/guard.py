"""What can go wrong while a text is written, told from the tokens alone.

    loop      the same tokens over and over        … the man the man the man the man …
    length    far longer or shorter than its source can be, or cut off by the limit
    copy      the source again, where another language was asked for

Nothing of it is a matter of taste: a source that repeats itself may be translated by a text that does, a name may be
copied. `attempts` are the ways to search again, each more forceful than the one before.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from regard.decoding.settings import SearchSettings

Fault = Literal["loop", "length", "copy"]

LONGEST_CYCLE = 16
ROUNDS = 4
"""The same cycle so many times on end is a loop, if the source has none of its own. Three are rhetoric."""
LONGER, SPARE = 2.5, 12
"""A translation rarely has twice the tokens of its source: at most so many times, and a few more."""
SHORTER, LEAST = 0.25, 12
"""Less than so much of a source of at least so many tokens is not all of it."""
LEAST_WORDS, SAME = 4, 0.8
"""So many words, of which such a share stands in the translation as it is, were not translated."""


def faults(source: Sequence[int], written: Sequence[int], ended: bool) -> set[Fault]:
    """What is wrong with the tokens that were written for a source; no end token on either side."""
    found: set[Fault] = set()
    if rounds(written) >= max(ROUNDS, rounds(source) + 2):
        found.add("loop")
    too_short = len(source) >= LEAST and len(written) < SHORTER * len(source)
    if not ended or too_short or len(written) > LONGER * len(source) + SPARE:
        found.add("length")
    return found


def rounds(tokens: Sequence[int]) -> int:
    """How often a cycle of tokens is gone round on end, at most. 1 where nothing is repeated at once."""
    most = 1
    for cycle in range(1, min(LONGEST_CYCLE, len(tokens) // 2) + 1):
        run = 0  # tokens on end that are what they were one cycle before
        for here, before in zip(tokens[cycle:], tokens, strict=False):
            run = run + 1 if here == before else 0
            most = max(most, 1 + run // cycle)
    return most


def is_copy(source: Sequence[str], written: Sequence[str]) -> bool:
    """Whether the words of a source stand in its translation, most of them and in order."""
    if len(source) < LEAST_WORDS:
        return False
    again, place = 0, 0
    for word in source:
        try:
            place = written.index(word, place) + 1
        except ValueError:
            continue
        again += 1
    return again >= SAME * max(len(source), len(written))


def attempts(settings: SearchSettings) -> list[SearchSettings]:
    """Other ways to search, when the first led nowhere; each forbids more."""
    greedy = replace(settings, beam=1, n_best=1)
    return [
        replace(settings, no_repeat_ngram=4),
        replace(greedy, no_repeat_ngram=3, repetition_penalty=1.1),
        replace(greedy, no_repeat_ngram=2, repetition_penalty=1.3),
    ]
