"""What comes back from an interpreter: a text, and for each sentence of it how sure it is and what happened."""

from dataclasses import dataclass, field
from typing import Literal

from regard.translate.passage import Link, Passage

Note = Literal[
    "loop", "length", "copy", "placeholders", "term", "tried again", "kept", "abstained", "same language", "pivot"
]
"""loop, length, copy: what the guard saw (decoding/guard.py). placeholders, term: what must survive did not.
tried again: another search was made for it, and this is its outcome. kept: the source stands as it was, because nothing
better was found; abstained: because it was not sure enough; same language: because there is nothing to translate.
pivot: translated by way of English."""


@dataclass(frozen=True)
class Word:
    """A word of a translation."""

    text: str
    confidence: float


@dataclass(frozen=True)
class Sentence:
    """A sentence, or as much of one as is translated at a time."""

    source: str
    text: str
    confidence: float
    """From 0 to 1: how likely it is to be close to what a translator would write, where the model is calibrated."""
    words: tuple[Word, ...] = ()
    links: tuple[Link, ...] = ()
    """Which characters of the source became which of the translation, word by word; where it was asked for."""
    alternatives: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class TranslationResult:
    """A passage in another language."""

    passage: Passage = field(repr=False)
    """The text, and the markup in its new places."""
    sentences: tuple[Sentence, ...]
    language: str | None
    """Of the source, as it was given or detected."""
    to: str | None
    links: tuple[Link, ...] = ()
    """As the sentences have them, in characters of the whole passage."""

    @property
    def text(self) -> str:
        return self.passage.text

    @property
    def confidence(self) -> float:
        """The mean over the sentences, by their lengths."""
        total = sum(len(one.source) for one in self.sentences)
        return sum(len(one.source) * one.confidence for one in self.sentences) / total if total else 1.0

    @property
    def notes(self) -> tuple[Note, ...]:
        return tuple(dict.fromkeys(note for one in self.sentences for note in one.notes))
