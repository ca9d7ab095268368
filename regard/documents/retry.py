"""Searches for a segment's translation until it is acceptable: no fault, and everything protected is in it.

    the search asked for -> a wider beam -> searches that forbid more and more repetition -> the source text itself

A segment asks for its searches one by one; those of many segments run side by side in one scheduler.
"""

import re
import unicodedata
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from regard.decoding.hypothesis import attempts as restrictive_settings
from regard.decoding.hypothesis import faults as token_faults
from regard.decoding.hypothesis import is_copy
from regard.decoding.settings import SearchSettings
from regard.documents.confidence import Confidence
from regard.documents.glossary import Term
from regard.documents.language_detector import Languages
from regard.documents.passage import Link, Span
from regard.documents.protect import restore, restored_spans
from regard.documents.result import Note, Sentence, Word
from regard.documents.segments import Segment, with_terms
from regard.tasks.translation import Translation, TranslationModel
from regard.text.word_ids import NO_WORD, word_numbers

RETRY_BEAM = 8
"""Hypotheses of the second search, among which one has everything that must be in it more often than not."""
MIN_INFLECTED_LENGTH, INFLECTED_ENDINGS = 4, "aeinos"
"""Letters from which on a term may lose its last one, out of these, to another ending."""
MIN_FORCED_CONFIDENCE = 0.5
"""With a forced term, a sentence must keep this share of its confidence without it."""
SEVERITY: tuple[Note, ...] = ("placeholders", "loop", "length", "wrong language", "term", "copy")
"""Faults, the worst first."""
FATAL = frozenset(SEVERITY[:4])
"""A translation with one of these is never returned."""


@dataclass
class Candidate:
    """A segment and the best translation of it so far."""

    segment: Segment
    tag: str | None
    """The target language, if the model has a tag for it."""
    align: bool
    max_alternatives: int
    calibration: Confidence
    find_words: bool = True
    detector: Languages | None = None
    """Given where the language of the translation must be checked."""
    best: Translation | None = None
    faults: tuple[Note, ...] = ()
    """Of the best so far, the worst first."""
    earlier_faults: dict[Note, None] = field(default_factory=dict)
    """Of the first hypothesis of each search."""
    alternatives: tuple[str, ...] = ()
    words: tuple[Word, ...] = ()
    links: tuple[Link, ...] = ()

    @property
    def confidence(self) -> float:
        """The confidence in the best so far."""
        if self.best is None:
            return 0.0
        # all source tokens, the language tag and the end included: the calibration was fitted on this count
        return self.calibration.of_sentence(self.best.log_probs, len(self.best.source_ids))

    @property
    def done(self) -> bool:
        return self.best is not None and not self.faults

    @property
    def failed(self) -> bool:
        """Whether nothing was found that may be returned."""
        return self.best is None or not FATAL.isdisjoint(self.faults)

    def update(self, hypotheses: Sequence[Translation]) -> None:
        """Take the first hypothesis without a fault, or else the least bad one so far."""
        judged = [(self._faults_of(one), one) for one in hypotheses]
        faults, best = min(judged, key=lambda pair: _badness(pair[0]))
        self.earlier_faults |= dict.fromkeys(judged[0][0])
        if self.best is None or _badness(faults) < _badness(self.faults):
            self.best, self.faults = best, faults
            good = [one for faults, one in judged if one is not best and not faults]
            texts = dict.fromkeys(self._restored(one) or "" for one in good[: self.max_alternatives])
            self.alternatives = tuple(text for text in texts if text)

    def _faults_of(self, hypothesis: Translation) -> tuple[Note, ...]:
        faults: set[Note] = {*token_faults(self._text_ids(hypothesis), hypothesis.ids, hypothesis.ended)}
        text = self._restored(hypothesis)
        if text is None:
            faults.add("placeholders")
        elif not all(_has_term(text, term) for term in self.segment.inflectable):
            faults.add("term")
        if is_copy(_words(self.segment.readable), _words(hypothesis.text)):
            faults.add("copy")
        if not any(map(str.isalnum, hypothesis.text)):  # a placeholder counts as a word
            faults.add("length")
        if self.detector and self.tag and self.detector.is_other_than(self.tag, hypothesis.text):
            faults.add("wrong language")
        return _by_severity(faults)

    def _text_ids(self, hypothesis: Translation) -> Sequence[int]:
        """The source tokens of the text alone: without the language tag before it and the end after it."""
        first = 0 if self.tag is None else 1
        return hypothesis.source_ids[first:-1]

    def _restored(self, hypothesis: Translation) -> str | None:
        """The translation with the protected spans put back; None if its placeholders are not those of the source."""
        return restore(self.segment.protected, self._in_case(hypothesis.text))

    def _in_case(self, text: str) -> str:
        """In capitals if the source is."""
        return (text.upper() if self.segment.is_all_caps else text).strip()

    def as_segment(self) -> Segment:
        """The translation as a segment for another one: its placeholders stand for the same as before."""
        assert self.best is not None
        written, before = self._in_case(self.best.text), self.segment.protected
        text = restore(before, written)
        assert text is not None
        return Segment(self.segment.start, text, replace(before, text=written), restored_spans(before, written))

    # ---- words and alignment ----

    def describe(self, model: TranslationModel) -> None:
        """Find the words of the translation, their confidences and, where asked for, their alignment."""
        if self.failed or not (self.find_words or self.align):
            return
        assert self.best is not None
        ids, log_probs = self.best.ids, self.best.log_probs
        numbers = word_numbers(self.best.pieces, ids, ())
        count = max(numbers, default=NO_WORD) + 1
        groups = [[i for i, number in enumerate(numbers) if number == word] for word in range(count)]
        texts = [self._restored_word(model.tokenizer.decode([ids[i] for i in group])) for group in groups]
        self.words = tuple(
            Word(text, self.calibration.of_word([log_probs[i] for i in group], log_probs))
            for text, group in zip(texts, groups, strict=True)
            if text
        )
        if self.align and self.best.alignment is not None:
            self.links = tuple(self._links(self.best, texts, model))

    def _links(self, best: Translation, target_words: Sequence[str], model: TranslationModel) -> list[Link]:
        """Alignment links between spans of the segment and of its translation."""
        assert best.alignment is not None
        tokenizer, ids = model.tokenizer, self._text_ids(best)
        numbers = word_numbers(tokenizer.pieces(ids), ids, ())
        count = max(numbers, default=NO_WORD) + 1
        source_words = [
            tokenizer.decode([token for token, number in zip(ids, numbers, strict=True) if number == word]).strip()
            for word in range(count)
        ]
        originals = dict(zip(self.segment.protected.marks, self.segment.originals, strict=True))
        source = _spans_of(
            ["".join(originals.get(one, one) for one in word) for word in source_words], self.segment.text
        )
        target = _spans_of(target_words, self._restored(best) or "")
        # what a placeholder stands for is aligned exactly; attention decides about the rest
        restored = restored_spans(self.segment.protected, self._in_case(best.text))
        exact = list(zip(self.segment.spans, restored, strict=True))
        return exact + [
            (left, right)
            for i, j in best.alignment
            if i < len(source) and j < len(target) and (left := source[i]) and (right := target[j])
            if not any(overlap(left, a) or overlap(right, b) for a, b in exact)
        ]

    def _restored_word(self, word: str) -> str:
        kept = dict(zip(self.segment.protected.marks, self.segment.protected.kept, strict=True))
        return "".join(kept.get(one, one) for one in self._in_case(word))

    # ---- the outcome ----

    def sentence(self, segment: Segment, min_confidence: float) -> Sentence:
        """The outcome for a segment: the candidate's own, or another one with the same text."""
        earlier = _by_severity(self.earlier_faults)
        if self.failed:
            return unchanged(segment.text, 0.0, (*earlier, "kept"), align=self.align)
        assert self.best is not None
        repaired: tuple[Note, ...] = (*earlier, "tried again") if earlier else ()
        notes = self.faults or repaired
        if self.confidence < min_confidence:
            return unchanged(segment.text, self.confidence, (*notes, "abstained"), align=self.align)
        text = self._restored(self.best)
        assert text is not None
        return Sentence(segment.text, text, self.confidence, self.words, self.links, self.alternatives, notes)


@dataclass
class PivotCandidate:
    """A segment that is translated through a third language: the second candidate translates what the first found."""

    first: Candidate
    second: Candidate | None
    """None if the first failed."""

    def sentence(self, segment: Segment, min_confidence: float) -> Sentence:
        """The outcome, with the product of both confidences. If either failed, the source stays, not the pivot text."""
        first = self.first.sentence(segment, 0.0)
        if self.second is None:
            return replace(first, notes=("pivot", *first.notes))
        second = self.second.sentence(self.second.segment, 0.0)
        notes: tuple[Note, ...] = tuple(dict.fromkeys(("pivot", *first.notes, *second.notes)))
        confidence = self.first.confidence * self.second.confidence
        if self.second.failed:
            return unchanged(segment.text, 0.0, notes, align=self.first.align)
        if confidence < min_confidence:
            return unchanged(segment.text, confidence, (*notes, "abstained"), align=self.first.align)
        links = tuple(
            (source, target) for source, pivot in first.links for again, target in second.links if overlap(pivot, again)
        )
        return replace(second, source=segment.text, confidence=confidence, links=links, notes=notes)


def unchanged(text: str, confidence: float, notes: tuple[Note, ...] = (), *, align: bool) -> Sentence:
    """A text that stays, aligned word by word with itself."""
    words = [found.span() for found in re.finditer(r"\S+", text)] if align else []
    return Sentence(text, text, confidence, links=tuple(zip(words, words, strict=True)), notes=notes)


def without_words(segment: Segment, align: bool) -> Sentence:
    """The sentence of a segment without words: numbers, addresses and the like need no translation."""
    kept = dict(zip(segment.protected.marks, segment.protected.kept, strict=True))
    text = "".join(kept.get(one, one) for one in segment.protected.text)
    return unchanged(text, 1.0, align=align) if text == segment.text else Sentence(segment.text, text, 1.0)


def overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


# ---- searching ----


class Search(NamedTuple):
    """A search that a segment asks for."""

    text: str
    tag: str | None
    align: bool
    settings: SearchSettings


Outcome = TypeVar("Outcome")
Searching = Generator[Search, Sequence[Translation], Outcome]
"""Yields searches, receives their translations, returns the outcome. Many run side by side (stream.py)."""


def search_candidate(model: TranslationModel, one: Candidate, settings: SearchSettings) -> Searching[None]:
    """Search for a segment, and again with other settings while its translation has a fault."""
    steps = [
        _widened(settings, min(one.max_alternatives + 1, RETRY_BEAM)),
        _widened(settings, RETRY_BEAM),
        *restrictive_settings(settings),
    ]
    for step in steps:
        if not one.done:
            yield from _search(one, step)
    if "term" in one.faults:
        yield from _force_terms(model, one, settings)
    else:
        one.describe(model)


def _widened(settings: SearchSettings, count: int) -> SearchSettings:
    """The settings with this many hypotheses: samples if they sample, or else the best of a beam as wide."""
    beam = settings.beam if settings.temperature else max(settings.beam, count)
    return replace(settings, n_best=count, beam=beam)


def _search(one: Candidate, settings: SearchSettings) -> Searching[None]:
    one.update((yield Search(one.segment.readable, one.tag, one.align, settings)))


def _force_terms(model: TranslationModel, one: Candidate, settings: SearchSettings) -> Searching[None]:
    """Make a missing term likelier; put it behind a placeholder if the model is reluctant to write it even so."""
    before = replace(one)
    terms = tuple(tuple(model.tokenizer.encode_target(term.target))[:-1] for term in one.segment.inflectable)
    yield from _search(one, replace(_widened(settings, RETRY_BEAM), boost=terms))
    if one.confidence < MIN_FORCED_CONFIDENCE * before.confidence:
        one.best, one.faults = before.best, before.faults
    if "term" in one.faults:
        one.segment = with_terms(one.segment)
        one.best, one.faults = None, ()
        yield from search_candidate(model, one, settings)
    else:
        one.describe(model)


# ---- judging ----


def _has_term(text: str, term: Term) -> bool:
    """Whether a text has a term in any form: with an ending added, or in place of a last letter that often changes."""
    target = term.target
    inflected = len(target) >= MIN_INFLECTED_LENGTH and target[-1] in INFLECTED_ENDINGS
    return _folded(target[:-1] if inflected else target) in _folded(text)


def _folded(text: str) -> str:
    """Without case and accents: Haus and Häuser have the same stem."""
    return "".join(one for one in unicodedata.normalize("NFD", text.casefold()) if not unicodedata.combining(one))


def _by_severity(faults: Collection[Note]) -> tuple[Note, ...]:
    return tuple(fault for fault in SEVERITY if fault in faults)


def _badness(faults: Collection[Note]) -> tuple[bool, ...]:
    return tuple(fault in faults for fault in SEVERITY)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _spans_of(words: Sequence[str], text: str) -> list[Span | None]:
    """Where each word is in a text, one after the other; None for a word that is not found."""
    spans: list[Span | None] = []
    at, lowered = 0, text.lower()
    for word in words:
        start = lowered.find(word.lower(), at) if word else -1
        spans.append(None if start < 0 else (start, start + len(word)))
        at = at if start < 0 else start + len(word)
    return spans
