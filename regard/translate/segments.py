"""A passage -> segments that a model can read -> the passage again.

    "See http://x.org. I ate 2 apples."  ->  "See ①." and "I ate ① apples.", each with what stands behind its ①

A segment is a sentence, or a part of one that is too long for the model or has too much to carry over. What is between
segments, white space that is, stays as it is.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter

from regard.text.placeholders import PLACEHOLDERS
from regard.translate.glossary import Glossary, Term
from regard.translate.passage import Passage, Span
from regard.translate.protect import Protected, in_groups, protect, spans
from regard.translate.sentences import pieces_that_fit, sentences

ALL_CAPS_LETTERS = 6
"""A text with so many letters, all of them capitals, is read in small ones: models have seen few others."""


@dataclass(frozen=True)
class Segment:
    """A part of a passage that is translated at a time."""

    start: int
    text: str
    protected: Protected
    """The text with placeholders; for terms, what they stand for is in the target's words already."""
    places: tuple[Span, ...]
    """Where what they stand for is in the text."""
    inflectable: tuple[Term, ...] = ()
    """Terms that are in the text and must be in the translation, in whatever form."""

    @property
    def originals(self) -> tuple[str, ...]:
        """What the placeholders stand for in the source."""
        return tuple(self.text[start:end] for start, end in self.places)

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def readable(self) -> str:
        """What the model reads."""
        text = " ".join(self.protected.text.split())
        return text.capitalize() if self.is_all_caps else text

    @property
    def is_all_caps(self) -> bool:
        letters = [one for one in self.protected.text if one.isalpha()]
        return len(letters) >= ALL_CAPS_LETTERS and " " in self.protected.text and all(one.isupper() for one in letters)

    @property
    def has_words(self) -> bool:
        return any(one.isalpha() for one in self.protected.text)


class Kept:
    """Stretches of a text that are not translated, in order, each with the words that come out for it."""

    def __init__(self, stretches: Sequence[tuple[int, int, str]]) -> None:
        self.stretches = sorted(stretches)
        self._starts = [start for start, _, _ in self.stretches]  # as sorted as the ends: none overlap

    def between(self, start: int, end: int) -> list[tuple[int, int, str]]:
        """Those between two places, counted from the first; nothing is cut inside of one."""
        some = self.stretches[bisect_left(self._starts, start) : bisect_left(self._starts, end)]
        return [(left - start, right - start, words) for left, right, words in some]

    def touches(self, start: int, end: int) -> bool:
        """Whether one of them has anything of this stretch."""
        index = bisect_left(self._starts, end) - 1
        return index >= 0 and self.stretches[index][1] > start


def segments(
    passage: Passage, language: str | None, glossary: Glossary | None, fits: Callable[[str], bool]
) -> list[Segment]:
    """The segments of a passage, in order; all but white space is in one of them."""
    text = passage.text
    own = Kept([(start, end, text[start:end]) for start, end in spans(text, passage.fixed)])
    found = glossary.find(text) if glossary else []
    terms = [(start, end, term) for start, end, term in found if not own.touches(start, end)]
    fixed = [(start, end, _as_it_stands(term, text[start:end])) for start, end, term in terms if not term.inflect]
    inflectable = sorted((start, term) for start, _, term in terms if term.inflect)
    kept = Kept([*own.stretches, *fixed])
    result: list[Segment] = []
    at = 0
    for sentence in sentences(_without_borders(text, kept), language):
        for part in _pieces(text[at : at + len(sentence)], kept.between(at, at + len(sentence)), fits):
            places = [(start, end) for start, end, _ in kept.between(at, at + len(part))]
            for group, _ in in_groups(part, places, len(PLACEHOLDERS)):
                end = at + len(group)
                first, last = (bisect_left(inflectable, place, key=itemgetter(0)) for place in (at, end))
                result += _segment(group, at, kept.between(at, end), tuple(term for _, term in inflectable[first:last]))
                at = end
    return result


def _pieces(text: str, kept: Sequence[tuple[int, int, str]], fits: Callable[[str], bool]) -> Iterator[str]:
    """What a model can read at a time. What is kept is one character for it, however long, and so is never cut."""
    shrunk, done = [], 0
    for start, end, _ in kept:
        shrunk += [text[done:start], PLACEHOLDERS[0]]
        done = end
    longer = iter([end - start - 1 for start, end, _ in kept])
    at = 0
    for piece in pieces_that_fit("".join((*shrunk, text[done:])), fits):
        end = at + len(piece) + sum(islice(longer, piece.count(PLACEHOLDERS[0])))
        yield text[at:end]
        at = end


def _segment(text: str, at: int, kept: Sequence[tuple[int, int, str]], inflectable: tuple[Term, ...]) -> list[Segment]:
    """A segment without the white space around it; none where there is nothing else."""
    first, last = len(text) - len(text.lstrip()), len(text.rstrip())
    if kept:  # which may be white space itself: some control characters are
        first, last = min(first, kept[0][0]), max(last, kept[-1][1])
    bare = text[first:last]
    if not bare:
        return []
    places = tuple((start - first, end - first) for start, end, _ in kept)
    protected = replace(protect(bare, places), kept=tuple(words for _, _, words in kept))
    return [Segment(at + first, bare, protected, places, inflectable)]


def with_terms(segment: Segment) -> Segment:
    """The segment with its bent terms behind placeholders as well, as far as there are any left."""
    if not segment.inflectable:
        return segment
    kept = list(zip(segment.places, segment.protected.kept, strict=True))
    for term in segment.inflectable:
        found = re.search(rf"\b{re.escape(term.source)}\b", segment.text, re.IGNORECASE)
        free = found and all(end <= found.start() or found.end() <= start for (start, end), _ in kept)
        if found and free and len(kept) < len(PLACEHOLDERS):
            kept.append((found.span(), term.target))
    kept.sort()
    places = tuple(place for place, _ in kept)
    protected = replace(protect(segment.text, places), kept=tuple(words for _, words in kept))
    return replace(segment, protected=protected, places=places, inflectable=())


def _without_borders(text: str, kept: Kept) -> str:
    """The text such that no sentence seems to end inside of what is kept, but any may begin with it."""
    parts, at = [], 0
    for start, end, _ in kept.stretches:
        inner = text[start:end]
        first = "0" if inner[0].isdecimal() else "X"  # no sentence ends in "Fig. 3.2" or "on Jan. 5-7"
        parts += [text[at:start], inner if inner.isdecimal() else first + "x" * (len(inner) - 1)]
        at = end
    return "".join((*parts, text[at:]))


def _as_it_stands(term: Term, found: str) -> str:
    """The term's target; with a capital where a small term begins a sentence with one."""
    if found[:1].isupper() and term.source[:1].islower() and term.target[:1].islower():
        return term.target[:1].upper() + term.target[1:]
    return term.target


def joined(text: str, pieces: Sequence[Segment], translated: Sequence[str]) -> tuple[str, list[Span]]:
    """The passage's text with translations for its segments, and where each of them stands in it."""
    parts: list[str] = []
    places: list[Span] = []
    at = length = 0
    for segment, words in zip(pieces, translated, strict=True):
        between = text[at : segment.start]
        parts += [between, words]
        places.append((length + len(between), length + len(between) + len(words)))
        length = places[-1][1]
        at = segment.end
    return "".join((*parts, text[at:])), places
