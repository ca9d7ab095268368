"""What a document translator returns: a text, and for each sentence its confidence and what happened to it."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from typing import Any, Literal

from regard.documents.passage import Link, Passage

Note = Literal[
    "loop",
    "length",
    "copy",
    "placeholders",
    "term",
    "wrong language",
    "tried again",
    "kept",
    "abstained",
    "same language",
    "pivot",
]
"""What happened to a sentence.

loop, length, copy   a fault that the guard found (decoding/hypothesis.py)
placeholders, term   a protected span or a glossary term was lost
wrong language       the source was not in the language named, and the translation not in the one asked for
tried again          the first translation had the faults listed before; this one comes from another search
kept                 the source text stays, because no acceptable translation was found
abstained            the source text stays, because the confidence was below `min_confidence`
same language        the source text stays, because it is in the target language already
pivot                translated through English
"""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a translation."""

    text: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, or the part of one that is translated at a time."""

    source: str
    text: str
    confidence: float
    """From 0 to 1: how likely the translation is close to a human one, if the model is calibrated."""
    words: tuple[Word, ...] = ()
    links: tuple[Link, ...] = ()
    """Alignment links, where asked for: a span of the source and the span of the translation that it became."""
    alternatives: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def keeps_source(self) -> bool:
        """Whether no translation was good enough."""
        return "kept" in self.notes or "abstained" in self.notes


@dataclass(frozen=True, slots=True, repr=False)
class TranslationResult:
    """A translated passage. `str(result)` is its text."""

    passage: Passage
    """The text, with the markup in its new positions."""
    sentences: tuple[Sentence, ...]
    language: str | None
    """The source language, as given or detected."""
    to: str | None
    starts: tuple[tuple[int, int], ...] = ()
    """Where each sentence begins in the source and in the text; empty where no links were asked for."""

    def __repr__(self) -> str:
        notes = f", notes={self.notes}" if self.notes else ""
        languages = f"{self.language or '?'}-{self.to or '?'}"
        return f"TranslationResult({self.text!r}, {languages}, confidence={self.confidence:.2f}{notes})"

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        return self.passage.text

    @property
    def confidence(self) -> float:
        """The mean over the sentences, weighted by their lengths."""
        total = sum(len(one.source) for one in self.sentences)
        return sum(len(one.source) * one.confidence for one in self.sentences) / total if total else 1.0

    @property
    def notes(self) -> tuple[Note, ...]:
        """The notes of all sentences, each once."""
        return tuple(dict.fromkeys(note for one in self.sentences for note in one.notes))

    @property
    def links(self) -> tuple[Link, ...]:
        """The alignment links of all sentences, in characters of the whole passage."""
        return tuple(links_of(self.sentences, self.starts))

    def word_alignment(self, source: str) -> set[tuple[int, int]]:
        """(source word, target word) pairs, counting the words that white space separates in `source` and the text."""
        source_starts, target_starts = (_word_starts(text) for text in (source, self.text))
        return {
            (bisect_right(source_starts, start) - 1, bisect_right(target_starts, target_start) - 1)
            for (start, _), (target_start, _) in self.links
        }


def joined(parts: Sequence[TranslationResult], lengths: Sequence[int]) -> TranslationResult:
    """The result of a passage from those of its parts, whose source texts have these lengths."""
    sources = list(accumulate(lengths[:-1], initial=0))
    targets = list(accumulate((len(part.text) for part in parts[:-1]), initial=0))
    marks = (
        replace(mark, at=mark.at + there)
        for part, there in zip(parts, targets, strict=True)
        for mark in part.passage.marks
    )
    starts = (
        (a + here, b + there) for part, here, there in zip(parts, sources, targets, strict=True) for a, b in part.starts
    )
    return TranslationResult(
        Passage("".join(part.text for part in parts), tuple(marks)),
        tuple(sentence for part in parts for sentence in part.sentences),
        parts[0].language,
        parts[0].to,
        tuple(starts),
    )


def links_of(sentences: Sequence[Sentence], starts: Sequence[tuple[int, int]]) -> Iterator[Link]:
    """The alignment links of sentences that begin here, in the source and in the translation."""
    for sentence, (here, there) in zip(sentences, starts, strict=bool(starts)):
        for (a, b), (c, d) in sentence.links:
            yield (a + here, b + here), (c + there, d + there)


def _word_starts(text: str) -> list[int]:
    return [found.start() for found in re.finditer(r"\S+", text)]


def line_as_dict(source: str, text: str, to: str | None, results: Sequence[TranslationResult]) -> dict[str, Any]:
    """Everything known about a translated line, of one passage or, with markup, several: JSON-ready."""
    length = sum(len(result.text) for result in results)
    confidence = sum(len(result.text) * result.confidence for result in results) / length if length else 1.0
    return {
        "source": source,
        "text": text,
        "confidence": round(confidence, 4),
        "from": results[0].language if results else None,
        "to": to,
        "notes": list(dict.fromkeys(note for result in results for note in result.notes)),
        "sentences": [asdict(sentence) for result in results for sentence in result.sentences],
    }
