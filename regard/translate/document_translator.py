"""Text as people have it -> sentences -> a translator -> text, with all that must survive and all that is known.

    passage -> segments -> placeholders -> [ translator ] -> guard -> what was kept, back in place -> passage
               text/       text/             tasks/          decoding/   translate/                    translate/

What the guard or the contract about placeholders finds wanting is searched for again, more forcefully each time; what
cannot be mended stays in the source's words, and says so.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.decoding.settings import SearchSettings
from regard.errors import InputError, UsageError
from regard.tasks.generation_settings import search_settings
from regard.tasks.translation import TranslationModel
from regard.text.checks import check_text
from regard.text.tokenizer import tag_piece
from regard.translate.confidence import Confidence
from regard.translate.glossary import Glossary
from regard.translate.language import FILE as LANGUAGES_FILE
from regard.translate.language import Languages
from regard.translate.markup import place
from regard.translate.passage import Link, Passage
from regard.translate.result import Sentence, TranslationResult
from regard.translate.retry import Candidate, PivotCandidate, search_candidates, unchanged
from regard.translate.segments import Segment, joined, segments, with_terms
from regard.weights.card import Card

BOX = Path(__file__).parent.parent / "box"
"""The model that comes with the package."""
LONGEST = 100
"""Tokens of a segment: few sentences have more, and models of sentences have seen few that do."""
PIVOT = "en"
SURE = 0.8
LANGUAGE = re.compile(r"[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8})*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class TranslationOptions:
    """How a text is to be translated."""

    to: str | None = None
    source: str | None = None
    """The language of the text; detected where the model knows how."""
    glossary: Glossary | None = None
    min_confidence: float = 0.0
    """Sentences below stay as they are."""
    alternatives: int = 0
    links: bool = False
    """Whether to say which word became which. Passages with markup need it anyway."""
    search: dict[str, Any] = field(default_factory=dict)
    """Settings of `regard.decoding.settings.SearchSettings` that differ from the model's own."""


class DocumentTranslator:
    """Translates texts of any length and form with a model of sentences."""

    def __init__(self, translator: TranslationModel) -> None:
        self.translator = translator
        directory = translator.source
        self.card = Card.load(directory)
        self.confidence = Confidence.load(directory)
        path = directory / LANGUAGES_FILE
        self.detector = Languages.load(path) if path.is_file() else None

    def translate(self, text: str, **wishes: Any) -> TranslationResult:
        """One text; the wishes are those of `TranslationOptions`."""
        return self.render([Passage(text)], TranslationOptions(**wishes))[0]

    def render(self, passages: Sequence[Passage], wishes: TranslationOptions) -> list[TranslationResult]:
        """Each passage in the language that is wished for; all of their sentences are searched together."""
        for number, passage in enumerate(passages):
            _check_text(passage.text, number)
        languages = [self.language_of(passage.text, wishes) for passage in passages]
        result: list[TranslationResult | None] = [None] * len(passages)
        for language in dict.fromkeys(languages):
            places = [i for i, one in enumerate(languages) if one == language]
            found = self._routed([passages[i] for i in places], language, wishes)
            for i, one in zip(places, found, strict=True):
                result[i] = one
        return [one for one in result if one is not None]

    def language_of(self, text: str, wishes: TranslationOptions) -> str | None:
        """The source's language: as it was said, or as it looks."""
        known = self.card.languages if self.card else ()
        if wishes.source is not None:
            if known and wishes.source not in known:
                raise UsageError(
                    f"this model does not know the language '{wishes.source}'; it knows {', '.join(known)}"
                )
            return wishes.source
        if self.detector is None:
            return None
        (first, chance), *others = self.detector.detect(text)
        # whoever asks for German has hardly written German, unless it is plain to see
        return others[0][0] if first == wishes.to and chance < SURE and others else first

    def check(self, wishes: TranslationOptions) -> SearchSettings:
        """Complain about what cannot be, before any text is read."""
        for name in (wishes.to, wishes.source):
            if name is not None and not LANGUAGE.fullmatch(name):
                raise UsageError(f"'{name}' is not the name of a language, such as en, de or pt-BR")
        if self.card and wishes.to not in self.card.languages:
            asked = "which language to translate into?" if wishes.to is None else f"this model has no '{wishes.to}':"
            raise UsageError(f"{asked} 'to' may be {', '.join(self.card.languages)}")
        return search_settings(self.translator.generation, wishes.search)

    # ---- one source language ----

    def _routed(
        self, passages: Sequence[Passage], language: str | None, wishes: TranslationOptions
    ) -> list[TranslationResult]:
        """Straight, or by way of English, or not at all."""
        self.check(wishes)
        if self.card is None or language is None or wishes.to is None or f"{language}-{wishes.to}" in self.card.pairs:
            return self._render(passages, language, wishes, None)
        if language == wishes.to:
            return [_same_language(passage, language) for passage in passages]
        if not {f"{language}-{PIVOT}", f"{PIVOT}-{wishes.to}"} <= set(self.card.pairs):
            raise UsageError(f"this model does not translate from {language} into {wishes.to}")
        return self._render(passages, language, wishes, PIVOT)

    def _render(
        self, passages: Sequence[Passage], language: str | None, wishes: TranslationOptions, pivot: str | None
    ) -> list[TranslationResult]:
        cut = [segments(passage, language, wishes.glossary, self._fits) for passage in passages]
        if pivot:  # a term in the target's words cannot be bent half-way
            cut = [[with_terms(segment) for segment in parts] for parts in cut]
        with_links = [wishes.links or bool(passage.marks) for passage in passages]
        jobs = [(segment, links) for parts, links in zip(cut, with_links, strict=True) for segment in parts]
        done = iter(self._sentences(jobs, wishes, pivot))
        return [
            self._assembled(passage, parts, [next(done) for _ in parts], language, wishes)
            for passage, parts in zip(passages, cut, strict=True)
        ]

    def _assembled(
        self,
        passage: Passage,
        parts: list[Segment],
        found: list[Sentence],
        language: str | None,
        wishes: TranslationOptions,
    ) -> TranslationResult:
        text, places = joined(passage.text, parts, [one.text for one in found])
        links = [
            _moved(link, segment.start, start)
            for segment, sentence, (start, _) in zip(parts, found, places, strict=True)
            for link in sentence.links
        ]
        return TranslationResult(place(passage, text, links), tuple(found), language, wishes.to, tuple(links))

    def _sentences(
        self, jobs: Sequence[tuple[Segment, bool]], wishes: TranslationOptions, pivot: str | None
    ) -> list[Sentence]:
        """What becomes of each segment. The same text is searched for once."""
        keys = [(segment.readable, segment.protected, segment.inflectable, links) for segment, links in jobs]
        todo = {key: job for key, job in zip(keys, jobs, strict=True) if job[0].has_words}
        found: Sequence[Candidate | PivotCandidate]
        if pivot is None:
            found = self._attempts(list(todo.values()), wishes)
        else:
            half_way = self._attempts(list(todo.values()), replace(wishes, to=pivot, alternatives=0))
            ready = [(one.carried(), one.with_links) for one in half_way if not one.failed]
            second = iter(self._attempts(ready, wishes))
            found = [PivotCandidate(one, None if one.failed else next(second)) for one in half_way]
        outcomes = dict(zip(todo, found, strict=True))
        return [
            outcomes[key].sentence(segment, wishes.min_confidence) if key in outcomes else _as_it_is(segment)
            for key, (segment, _) in zip(keys, jobs, strict=True)
        ]

    def _attempts(self, jobs: Sequence[tuple[Segment, bool]], wishes: TranslationOptions) -> list[Candidate]:
        tag = wishes.to if self._has_tag(wishes.to) else None
        attempts = [Candidate(segment, tag, links, wishes.alternatives, self.confidence) for segment, links in jobs]
        search_candidates(self.translator, attempts, search_settings(self.translator.generation, wishes.search))
        return attempts

    def _fits(self, text: str) -> bool:
        most = min(LONGEST, self.translator.config.context - 1)
        # a character has four bytes at most, a piece hardly twenty characters: only in between is there much to count
        return 4 * len(text) < most or (len(text) <= 20 * most and len(self.translator.tokenizer.encode(text)) <= most)

    def _has_tag(self, language: str | None) -> bool:
        return language is not None and self.translator.tokenizer.id_of(tag_piece(language)) is not None


def load_translator(directory: str | Path | None = None, *, device: str = "auto") -> DocumentTranslator:
    """The translator in the box, or any other model that translates."""
    from regard.tasks import load

    model = load(BOX if directory is None else directory, device=device)
    if not isinstance(model, TranslationModel):
        model.translate([])  # which says what it can do instead
    assert isinstance(model, TranslationModel)
    return DocumentTranslator(model)


def _check_text(text: str, number: int) -> None:
    try:
        check_text(text)
    except InputError as error:
        error.place = number
        raise


def _as_it_is(segment: Segment) -> Sentence:
    """Numbers, addresses and the like: nothing to translate, nothing to doubt."""
    text = "".join(_restored(segment))
    return unchanged(text, 1.0) if text == segment.text else Sentence(segment.text, text, 1.0)


def _restored(segment: Segment) -> list[str]:
    behind = dict(zip(segment.protected.marks, segment.protected.kept, strict=True))
    return [behind.get(one, one) for one in segment.protected.text]


def _same_language(passage: Passage, language: str) -> TranslationResult:
    sentence = unchanged(passage.text, 1.0, ("same language",))
    return TranslationResult(passage, (sentence,), language, language, sentence.links)


def _moved(link: Link, source: int, target: int) -> Link:
    (a, b), (c, d) = link
    return (a + source, b + source), (c + target, d + target)
