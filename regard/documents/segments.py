"""A passage -> segments that a model can read -> the passage again.

    "See http://x.org. I ate 2 apples."  ->  "See ①." and "I ate ① apples.", each with the text that its ① stands for

A segment is a sentence, or a part of a sentence that is too long for the model or has more protected spans than there
are placeholders. Between segments is only white space, which stays unchanged.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter, itemgetter

from regard.documents.formats.skeleton import paired
from regard.documents.glossary import Glossary, Term
from regard.documents.passage import Passage, Span
from regard.documents.protect import Protected, in_groups, protect
from regard.documents.protect import spans as spans_to_protect
from regard.documents.sentences import pieces_that_fit, sentences
from regard.text.placeholders import PLACEHOLDERS

MAX_PART = 30_000
"""Characters: a longer passage is translated in parts, or memory would fill with their intermediate results."""
PART_BORDER = 2000
"""Characters at the end of a part, among which the end of a sentence is searched for."""
TO_LAST_SPACE = re.compile(r".*\s", re.DOTALL)
MIN_ALL_CAPS_LETTERS = 6
"""A text in capitals with at least this many letters is lowered for the model, which was trained on few in capitals."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The part of a passage that is translated at a time."""

    start: int
    text: str
    protected: Protected
    """The text with placeholders. Those of glossary terms stand for the term's translation."""
    spans: tuple[Span, ...]
    """The protected spans of the text, one for each placeholder."""
    inflectable: tuple[Term, ...] = ()
    """Terms of the text that must be in the translation, in any inflected form."""

    @property
    def originals(self) -> tuple[str, ...]:
        """The source text behind each placeholder."""
        return tuple(self.text[start:end] for start, end in self.spans)

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
        return (
            len(letters) >= MIN_ALL_CAPS_LETTERS
            and " " in self.protected.text
            and all(one.isupper() for one in letters)
        )

    @property
    def has_words(self) -> bool:
        return any(one.isalpha() for one in self.protected.text)


class ProtectedSpans:
    """Spans of a text to keep untranslated, in order, each with the text that replaces it in the translation."""

    def __init__(self, spans: Sequence[tuple[int, int, str]]) -> None:
        self.spans = sorted(spans)
        self._starts = [start for start, _, _ in self.spans]  # no two overlap, so the ends are sorted, too

    def between(self, start: int, end: int) -> list[tuple[int, int, str]]:
        """The spans from `start` to `end`, counted from `start`. Neither may be inside a span."""
        some = self.spans[bisect_left(self._starts, start) : bisect_left(self._starts, end)]
        return [(left - start, right - start, replacement) for left, right, replacement in some]

    def overlaps(self, start: int, end: int) -> bool:
        """Whether a span has a character between `start` and `end`."""
        index = bisect_left(self._starts, end) - 1
        return index >= 0 and self.spans[index][1] > start


def parts(passage: Passage, language: str | None) -> Iterator[Passage]:
    """The passage in parts of limited length, each to the end of a sentence. A mark whose partner is in another part
    becomes single."""
    fixed = sorted(passage.fixed)
    at = 0
    while len(passage.text) - at > MAX_PART:
        end = _part_end(passage.text, fixed, at + MAX_PART, language)
        yield _part(passage, fixed, at, end)
        at = end
    yield _part(passage, fixed, at, len(passage.text)) if at else passage


def _part_end(text: str, fixed: Sequence[Span], most: int, language: str | None) -> int:
    """Before `most`, the end of a sentence, or else of a word."""
    first = most - PART_BORDER
    whole = text[first:most]
    protected = ProtectedSpans(
        [(start, end, "") for start, end in spans_to_protect(whole, _within(fixed, first, most))]
    )
    masked = _without_borders(whole, protected)
    *_, last = sentences(masked, language)
    if len(last) < len(whole):
        return most - len(last)
    words = TO_LAST_SPACE.match(masked)
    return first + words.end() if words else most


def _part(passage: Passage, fixed: Sequence[Span], start: int, end: int) -> Passage:
    is_last = end == len(passage.text)
    first = bisect_left(passage.marks, start, key=attrgetter("at"))
    last = len(passage.marks) if is_last else bisect_left(passage.marks, end, key=attrgetter("at"))
    marks = [replace(mark, at=mark.at - start) for mark in passage.marks[first:last]]
    return Passage(passage.text[start:end], paired(marks, [""] * len(marks)), _within(fixed, start, end))


def _within(spans: Sequence[Span], start: int, end: int) -> tuple[Span, ...]:
    """The spans from `start` to `end`, counted from `start`; those that reach beyond are cut."""
    first, last = bisect_right(spans, start, key=itemgetter(1)), bisect_left(spans, end, key=itemgetter(0))
    return tuple((max(left, start) - start, min(right, end) - start) for left, right in spans[first:last])


def segments(
    passage: Passage, language: str | None, glossary: Glossary | None, fits: Callable[[str], bool]
) -> list[Segment]:
    """The segments of a passage, in order. They hold all of its text but white space."""
    text = passage.text
    verbatim = ProtectedSpans([(start, end, text[start:end]) for start, end in spans_to_protect(text, passage.fixed)])
    matches = glossary.find(text) if glossary else []
    terms = [(start, end, term) for start, end, term in matches if not verbatim.overlaps(start, end)]
    fixed = [(start, end, _target_in_case(term, text[start:end])) for start, end, term in terms if not term.inflect]
    inflectable = sorted((start, term) for start, _, term in terms if term.inflect)
    protected = ProtectedSpans([*verbatim.spans, *fixed])
    result: list[Segment] = []
    at = 0
    for sentence in sentences(_without_borders(text, protected), language):
        for part in _pieces(text[at : at + len(sentence)], protected.between(at, at + len(sentence)), fits):
            inside = [(start, end) for start, end, _ in protected.between(at, at + len(part))]
            for group, _ in in_groups(part, inside, len(PLACEHOLDERS)):
                end = at + len(group)
                first, last = (bisect_left(inflectable, edge, key=itemgetter(0)) for edge in (at, end))
                found = tuple(term for _, term in inflectable[first:last])
                result += _segment(group, at, protected.between(at, end), found)
                at = end
    return result


def _pieces(text: str, protected: Sequence[tuple[int, int, str]], fits: Callable[[str], bool]) -> Iterator[str]:
    """Pieces that a model can read. For it a protected span is one character, however long, and so is never cut."""
    shrunk, done = [], 0
    for start, end, _ in protected:
        shrunk += [text[done:start], PLACEHOLDERS[0]]
        done = end
    longer = iter([end - start - 1 for start, end, _ in protected])
    at = 0
    for piece in pieces_that_fit("".join((*shrunk, text[done:])), fits):
        end = at + len(piece) + sum(islice(longer, piece.count(PLACEHOLDERS[0])))
        yield text[at:end]
        at = end


def _segment(
    text: str, at: int, protected: Sequence[tuple[int, int, str]], inflectable: tuple[Term, ...]
) -> list[Segment]:
    """The segment without the white space around it; none if there is nothing else."""
    first, last = len(text) - len(text.lstrip()), len(text.rstrip())
    if protected:  # these may be white space themselves: some control characters are
        first, last = min(first, protected[0][0]), max(last, protected[-1][1])
    bare = text[first:last]
    if not bare:
        return []
    spans = tuple((start - first, end - first) for start, end, _ in protected)
    kept = tuple(replacement for _, _, replacement in protected)
    return [Segment(at + first, bare, replace(protect(bare, spans), kept=kept), spans, inflectable)]


def with_terms(segment: Segment) -> Segment:
    """The segment with its inflectable terms behind placeholders as well, as long as there are placeholders left."""
    if not segment.inflectable:
        return segment
    protected = list(zip(segment.spans, segment.protected.kept, strict=True))
    for term in segment.inflectable:
        found = re.search(rf"\b{re.escape(term.source)}\b", segment.text, re.IGNORECASE)
        free = found and all(end <= found.start() or found.end() <= start for (start, end), _ in protected)
        if found and free and len(protected) < len(PLACEHOLDERS):
            protected.append((found.span(), term.target))
    protected.sort()
    spans = tuple(span for span, _ in protected)
    kept = tuple(replacement for _, replacement in protected)
    return replace(segment, protected=replace(protect(segment.text, spans), kept=kept), spans=spans, inflectable=())


def _without_borders(text: str, protected: ProtectedSpans) -> str:
    """The text with its protected spans masked, so that no sentence seems to end in one, but any may begin with one."""
    parts, at = [], 0
    for start, end, _ in protected.spans:
        inner = text[start:end]
        first = "0" if inner[0].isdecimal() else "X"  # no sentence ends in "Fig. 3.2" or "on Jan. 5-7"
        parts += [text[at:start], inner if inner.isdecimal() else first + "x" * (len(inner) - 1)]
        at = end
    return "".join((*parts, text[at:]))


def _target_in_case(term: Term, found: str) -> str:
    """The term's translation; with a capital first letter if a lower-case term was found with one."""
    if found[:1].isupper() and term.source[:1].islower() and term.target[:1].islower():
        return term.target[:1].upper() + term.target[1:]
    return term.target


def join_segments(text: str, pieces: Sequence[Segment], translations: Sequence[str]) -> tuple[str, list[Span]]:
    """The passage's text with its segments translated, and the span of each translation in it."""
    parts: list[str] = []
    spans: list[Span] = []
    at = length = 0
    for segment, translation in zip(pieces, translations, strict=True):
        between = text[at : segment.start]
        parts += [between, translation]
        spans.append((length + len(between), length + len(between) + len(translation)))
        length = spans[-1][1]
        at = segment.end
    return "".join((*parts, text[at:])), spans
