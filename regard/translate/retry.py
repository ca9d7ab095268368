"""A segment, searched for until it is as it must be: the guard has nothing to say, and what was kept is all there.

    the search that was asked for -> a wider beam -> searches that forbid more and more -> the source as it is

Each step is taken by those segments only that need it, all of them together.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from regard.decoding.guard import attempts as forceful
from regard.decoding.guard import faults, is_copy
from regard.decoding.settings import SearchSettings
from regard.tasks.base import Translation
from regard.tasks.translation import TranslationModel
from regard.text.words import NO_WORD, word_numbers
from regard.translate.confidence import Confidence
from regard.translate.glossary import Term
from regard.translate.passage import Link, Span
from regard.translate.protect import restore, restored_places
from regard.translate.result import Note, Sentence, Word
from regard.translate.segments import Segment, with_terms

WIDE = 8
"""The beam in which a translation is looked for that has all that must be in it."""
SHORT, WEAK = 3, "aeinos"
"""Of a term that is longer, a last letter out of these may give way to another ending."""
PRICE = 0.5
"""With a term in its own form, a sentence must be so much as sure as without."""
WORST: tuple[Note, ...] = ("placeholders", "loop", "length", "term", "copy")
"""What is worse comes first. The first three must not come out."""


@dataclass
class Candidate:
    """One segment on its way."""

    segment: Segment
    tag: str | None
    with_links: bool
    alternatives: int
    confidence: Confidence
    best: Translation | None = None
    wrong: tuple[Note, ...] = ()
    """What is wrong with the best so far."""
    seen: dict[Note, None] = field(default_factory=dict)
    """What was wrong with others."""
    others: tuple[str, ...] = ()
    words: tuple[Word, ...] = ()
    links: tuple[Link, ...] = ()

    @property
    def sure(self) -> float:
        """How far the best so far can be trusted."""
        if self.best is None:
            return 0.0
        source = self.best.source_ids[self.tag is not None :]
        return self.confidence.of_sentence(self.best.piece_log_probabilities, len(source))

    @property
    def done(self) -> bool:
        return self.best is not None and not self.wrong

    def consider(self, found: Sequence[Translation], translator: TranslationModel) -> None:
        """Take the first that is as it must be, or the least bad of all so far."""
        with_rewards = [(self._judge(one, translator), one) for one in found]
        wrong, best = min(with_rewards, key=lambda pair: _badness(pair[0]))
        self.seen |= dict.fromkeys(with_rewards[0][0])
        if self.best is None or _badness(wrong) < _badness(self.wrong):
            self.best, self.wrong = best, wrong
            good = [one for notes, one in with_rewards if one is not best and not notes]
            texts = dict.fromkeys(self._text(one) or "" for one in good[: self.alternatives])
            self.others = tuple(text for text in texts if text)

    def _judge(self, found: Translation, translator: TranslationModel) -> tuple[Note, ...]:
        source = found.source_ids[self.tag is not None : -1]
        wrong: list[Note] = list(faults(source, found.ids, found.ended))
        text = self._text(found)
        if text is None:
            wrong.append("placeholders")
        elif not all(_has(text, term) for term in self.segment.inflectable):
            wrong.append("term")
        if is_copy(_letters(self.segment.readable), _letters(found.text)):
            wrong.append("copy")
        if not any(map(str.isalnum, found.text)):  # a placeholder counts as a word
            wrong.append("length")
        return tuple(wrong)

    def _text(self, found: Translation) -> str | None:
        """The translation with what was kept, None where that is not as it was."""
        return restore(self.segment.protected, self._written(found))

    def _written(self, found: Translation | None = None) -> str:
        """The translation (the best, unless given) with its placeholders, as loud as the source."""
        found = found or self.best
        assert found is not None
        return (found.text.upper() if self.segment.is_all_caps else found.text).strip()

    @property
    def failed(self) -> bool:
        """Whether nothing was found that may come out."""
        return self.best is None or bool(set(self.wrong) & set(WORST[:3]))

    def carried(self) -> Segment:
        """What was found, as a segment to be translated further: its placeholders stand for the same as before."""
        written, before = self._written(), self.segment.protected
        text = restore(before, written)
        assert text is not None
        return Segment(self.segment.start, text, replace(before, text=written), restored_places(before, written))

    def describe(self, translator: TranslationModel) -> None:
        """Words, how sure they are, and which became which, of the one that was found."""
        if self.failed:
            return
        assert self.best is not None
        ids, logs = self.best.ids, self.best.piece_log_probabilities
        numbers = word_numbers(self.best.pieces, ids, ())
        count = max(numbers, default=NO_WORD) + 1
        groups = [[i for i, number in enumerate(numbers) if number == word] for word in range(count)]
        texts = [self._in_full(translator.tokenizer.decode([ids[i] for i in group])) for group in groups]
        self.words = tuple(
            Word(text, self.confidence.of_word([logs[i] for i in group], logs))
            for text, group in zip(texts, groups, strict=True)
            if text
        )
        if self.with_links and self.best.alignment is not None:
            self.links = tuple(self._links(texts, translator))

    def _links(self, texts: Sequence[str], translator: TranslationModel) -> list[Link]:
        assert self.best is not None
        assert self.best.alignment is not None
        tokenizer = translator.tokenizer
        ids = self.best.source_ids[self.tag is not None : -1]
        numbers = word_numbers(tokenizer.pieces(ids), ids, ())
        count = max(numbers, default=NO_WORD) + 1
        read = [
            tokenizer.decode([token for token, number in zip(ids, numbers, strict=True) if number == word]).strip()
            for word in range(count)
        ]
        behind = dict(zip(self.segment.protected.marks, self.segment.originals, strict=True))
        here = _places(["".join(behind.get(one, one) for one in word) for word in read], self.segment.text)
        there = _places(texts, self._text(self.best) or "")
        # what stands behind a placeholder is known exactly; attention has a say about the rest
        exact = list(zip(self.segment.places, restored_places(self.segment.protected, self._written()), strict=True))
        return exact + [
            (left, right)
            for i, j in self.best.alignment
            if i < len(here) and j < len(there) and (left := here[i]) and (right := there[j])
            if not any(overlap(left, a) or overlap(right, b) for a, b in exact)
        ]

    def _in_full(self, word: str) -> str:
        behind = dict(zip(self.segment.protected.marks, self.segment.protected.kept, strict=True))
        word = word.strip().upper() if self.segment.is_all_caps else word.strip()
        return "".join(behind.get(one, one) for one in word)

    def sentence(self, segment: Segment, min_confidence: float) -> Sentence:
        """What comes of it; the segment is the one asked about, which may be one of many with the same words."""
        if self.failed:
            return unchanged(segment.text, 0.0, (*self.seen, "kept"))
        assert self.best is not None
        mended: tuple[Note, ...] = (*self.seen, "tried again") if self.seen else ()
        notes = self.wrong or mended
        if self.sure < min_confidence:
            return unchanged(segment.text, self.sure, (*notes, "abstained"))
        text = self._text(self.best)
        assert text is not None
        return Sentence(segment.text, text, self.sure, self.words, self.links, self.others, notes)


@dataclass
class PivotCandidate:
    """A segment that goes by way of another language: what came of the first half is searched for in the second."""

    first: Candidate
    second: Candidate | None
    """None where the first led nowhere."""

    def sentence(self, segment: Segment, min_confidence: float) -> Sentence:
        """As sure as both halves are. Where either led nowhere, the source stands as it was, not what is between."""
        half = self.first.sentence(segment, 0.0)
        if self.second is None:
            return replace(half, notes=("pivot", *half.notes))
        found = self.second.sentence(self.second.segment, 0.0)
        notes: tuple[Note, ...] = tuple(dict.fromkeys(("pivot", *half.notes, *found.notes)))
        sure = self.first.sure * self.second.sure
        if self.second.failed:
            return unchanged(segment.text, 0.0, notes)
        if sure < min_confidence:
            return unchanged(segment.text, sure, (*notes, "abstained"))
        links = tuple(
            (here, there) for here, half_way in half.links for again, there in found.links if overlap(half_way, again)
        )
        return replace(found, source=segment.text, confidence=sure, links=links, notes=notes)


def unchanged(text: str, confidence: float, notes: tuple[Note, ...] = ()) -> Sentence:
    """A text that stays as it is, word by word."""
    words = [found.span() for found in re.finditer(r"\S+", text)]
    return Sentence(text, text, confidence, links=tuple(zip(words, words, strict=True)), notes=notes)


def overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def search_candidates(translator: TranslationModel, todo: Sequence[Candidate], settings: SearchSettings) -> None:
    """Search for every segment, and again for those that need it."""
    wanted = max((one.alternatives for one in todo), default=0) + 1
    first = replace(settings, n_best=min(wanted, WIDE), beam=max(settings.beam, min(wanted, WIDE)))
    wide = replace(settings, beam=max(settings.beam, WIDE), n_best=WIDE)
    for step in (first, wide, *forceful(settings)):
        for with_links in (False, True):
            open_ones = [one for one in todo if not one.done and one.with_links == with_links]
            _search(translator, open_ones, step, with_links)
    _insist(translator, [one for one in todo if "term" in one.wrong], settings)
    for one in todo:
        one.describe(translator)


def _search(
    translator: TranslationModel, todo: Sequence[Candidate], settings: SearchSettings, with_links: bool
) -> None:
    if not todo:
        return
    found = translator.find([one.segment.readable for one in todo], settings, to=todo[0].tag, align=with_links)
    for one, hypotheses in zip(todo, found, strict=True):
        one.consider(hypotheses, translator)


def _insist(translator: TranslationModel, todo: Sequence[Candidate], settings: SearchSettings) -> None:
    """A term that is missing is made likelier; one that the model writes only at a price is put in as it is."""
    wide = replace(settings, beam=max(settings.beam, WIDE), n_best=WIDE)
    for one in todo:
        before = replace(one)
        runs = tuple(tuple(translator.tokenizer.encode_target(term.target))[:-1] for term in one.segment.inflectable)
        _search(translator, [one], replace(wide, favour=runs), one.with_links)
        if one.sure < PRICE * before.sure:
            one.best, one.wrong = before.best, before.wrong
    missing = [one for one in todo if "term" in one.wrong]
    for one in missing:
        one.segment = with_terms(one.segment)
        one.best, one.wrong = None, ()
    if missing:
        search_candidates(translator, missing, settings)


def _has(text: str, term: Term) -> bool:
    """Whether a term is in a text, bent or not: an ending may be added, and take the place of a weak last letter."""
    whole = term.target
    stem = whole[:-1] if len(whole) > SHORT and whole[-1] in WEAK else whole
    return _folded(stem) in _folded(text)


def _folded(text: str) -> str:
    """Without case and accents: Haus and Häuser have the same stem."""
    return "".join(one for one in unicodedata.normalize("NFD", text.casefold()) if not unicodedata.combining(one))


def _badness(wrong: Sequence[Note]) -> tuple[bool, ...]:
    return tuple(note in wrong for note in WORST)


def _letters(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _places(words: Sequence[str], text: str) -> list[Span | None]:
    """Where words stand in a text, one after the other; None for one that is not found."""
    found: list[Span | None] = []
    at, lowered = 0, text.lower()
    for word in words:
        start = lowered.find(word.lower(), at) if word else -1
        found.append(None if start < 0 else (start, start + len(word)))
        at = at if start < 0 else start + len(word)
    return found
