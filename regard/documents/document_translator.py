"""Translates texts of any length and form with a model that translates sentences.

    passage -> segments -> placeholders -> [ model ] -> guard -> placeholders restored -> passage
               segments    protect         tasks/       retry    protect                  markup

A translation that the guard rejects, or that lost a placeholder, is searched for again, with a more restrictive search
each time (retry.py). Where nothing acceptable is found, the source text stays, and the notes say so.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Unpack, overload

from regard.decoding.settings import SearchSettings, TextSearchOptions, search_settings
from regard.documents.confidence import Confidence
from regard.documents.glossary import Glossary
from regard.documents.language_detector import CERTAINTY, Languages
from regard.documents.language_detector import FILE as LANGUAGES_FILE
from regard.documents.markup import place_marks
from regard.documents.options import TranslationOptions
from regard.documents.passage import Passage
from regard.documents.result import Sentence, TranslationResult, links_of
from regard.documents.retry import Candidate, PivotCandidate, Searching, search_candidate, unchanged
from regard.documents.segments import Segment, join_segments, segments, with_terms
from regard.documents.stream import translate_all
from regard.errors import InputError, UsageError
from regard.tasks.base import Model
from regard.tasks.translation import TranslationModel
from regard.text.tokenizer import check_text, tag_piece
from regard.weights.model_directory import Card

MAX_SEGMENT_TOKENS = 100
"""Few sentences are longer, and models of sentences were trained on few that are."""
PIVOT = "en"
"""The language between two others that the model does not translate into each other directly."""
LANGUAGE = re.compile(r"[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8})*", re.ASCII)
TAG = re.compile(tag_piece(LANGUAGE.pattern), re.ASCII)


class DocumentTranslator:
    """Translates texts of any length and form: splits them, protects what must survive, checks what comes out.

        box = regard.load_translator()
        result = box.translate("I am here. Where are you?", to="de")
        result.text, result.confidence, result.sentences[0].words

    `model` is the sentence model below it, `card` what the model's directory says about it.
    """

    def __init__(self, model: Model) -> None:
        if not isinstance(model, TranslationModel):
            model.translate([])  # raises: names what this model can do instead
        assert isinstance(model, TranslationModel)
        self.model = model
        directory = model.source
        self.card = Card.load(directory)
        self.confidence = Confidence.load(directory)
        path = directory / LANGUAGES_FILE
        self.detector = Languages.load(path) if path.is_file() else None

    def __repr__(self) -> str:
        about = f"{self.card.name}: {', '.join(self.card.pairs)}" if self.card else str(self.model.source)
        return f"<DocumentTranslator {about}>"

    def translate(
        self,
        text: str,
        *,
        to: str | None = None,
        source: str | None = None,
        glossary: Glossary | None = None,
        min_confidence: float = 0.0,
        alternatives: int = 0,
        align: bool = False,
        **search: Unpack[TextSearchOptions],
    ) -> TranslationResult:
        """Translate one text, of any number of sentences and lines.

        to              target language, such as "de"; not needed by a model that has only one
        source          source language; detected if omitted
        glossary        terms and their translations: Glossary.read(path), or Glossary([Term("cat", "Katze")])
        min_confidence  keep the source text of sentences whose confidence is below this, from 0 to 1
        alternatives    return up to this many other translations of each sentence
        align           return which word became which, as spans of characters
        **search        beam, length_penalty, patience, no_repeat_ngram, max_tokens, temperature, top_k, top_p, seed …
                        as in `regard.decoding.settings.SearchSettings`; the model's own settings are the default

        >>> box.translate("Where is the station?", to="de", beam=8, alternatives=2).sentences[0].alternatives
        """
        options = TranslationOptions(
            to=to,
            source=source,
            glossary=glossary,
            min_confidence=min_confidence,
            alternatives=alternatives,
            align=align,
            search=search,
        )
        if not isinstance(text, str):
            raise UsageError(f"text must be a str, not {type(text).__name__}; translate several texts one by one")
        return self.translate_passages([Passage(text)], options)[0]

    def translate_passages(
        self, passages: Sequence[Passage], options: TranslationOptions, *, language: str | None = None
    ) -> list[TranslationResult]:
        """Translate each passage; the sentences of all passages are searched together.

        `language` is the source language where the caller detected it, say from a whole file. Unlike `options.source`
        it is not checked against each sentence.
        """
        return list(self.stream(passages, options, language=language))

    def stream(
        self, passages: Sequence[Passage], options: TranslationOptions, *, language: str | None = None
    ) -> Iterator[TranslationResult]:
        """The result of each passage, in order, as soon as it is ready."""
        for index, passage in enumerate(passages):
            _check_text(passage.text, index)
        return translate_all(self, passages, options, language)

    def source_language(self, text: str, options: TranslationOptions) -> str | None:
        """The language of a text: as the options say, or else as detected."""
        if options.source is not None:
            known = self.card.languages if self.card else ()
            if known and options.source not in known:
                raise UsageError(
                    f"this model does not know the language '{options.source}'; it knows {', '.join(known)}"
                )
            return options.source
        if self.detector is None:
            return None
        (first, probability), *others = self.detector.detect(text)
        # a text to be translated into German is hardly German, unless that is certain
        return others[0][0] if first == options.to and probability < CERTAINTY and others else first

    def check(self, options: TranslationOptions) -> SearchSettings:
        """Raise a UsageError if the model cannot do this; call it before reading any text."""
        for name in (options.to, options.source):
            if name is not None and not LANGUAGE.fullmatch(name):
                raise UsageError(f"'{name}' is not the name of a language, such as en, de or pt-BR")
        if self.card and options.to not in self.card.languages:
            problem = (
                "which language to translate into?" if options.to is None else f"this model has no '{options.to}':"
            )
            raise UsageError(f"{problem} 'to' may be {', '.join(self.card.languages)}")
        if self.card is None and options.to is not None and not self._has_tag(options.to):
            advice = "choose another" if self.has_languages else "it has only one target language: omit 'to'"
            raise UsageError(f"{self.model.source}: this model cannot translate into '{options.to}'; {advice}")
        return search_settings(self.model.generation, options.search)

    @property
    def has_languages(self) -> bool:
        """Whether a target language can be chosen."""
        tokenizer = self.model.tokenizer
        return self.card is not None or any(map(TAG.fullmatch, tokenizer.pieces(range(tokenizer.vocab))))

    def _has_tag(self, language: str) -> bool:
        return self.model.tokenizer.id_of(tag_piece(language)) is not None

    # ---- what a stream asks for (stream.py) ----

    def route(
        self, passage: Passage, language: str | None, options: TranslationOptions
    ) -> tuple[TranslationResult | None, str | None]:
        """A result where there is nothing to translate, or else the language to translate through, if any."""
        if self.card is None or language is None or options.to is None or f"{language}-{options.to}" in self.card.pairs:
            return None, None
        if language == options.to:
            return _same_language(passage, language, options.align), None
        if not {f"{language}-{PIVOT}", f"{PIVOT}-{options.to}"} <= set(self.card.pairs):
            raise UsageError(f"this model does not translate from {language} into {options.to}")
        return None, PIVOT

    def segments(
        self, passage: Passage, language: str | None, options: TranslationOptions, pivot: str | None
    ) -> list[Segment]:
        found = segments(passage, language, options.glossary, self._fits)
        # a term in the target language cannot be inflected half-way
        return [with_terms(segment) for segment in found] if pivot else found

    def searching(
        self,
        segment: Segment,
        align: bool,
        options: TranslationOptions,
        pivot: str | None,
        settings: SearchSettings,
    ) -> Searching[Candidate | PivotCandidate]:
        """The searches for a segment, directly or through the pivot language."""
        if pivot is None:
            candidate = self._candidate(segment, align, options)
            yield from search_candidate(self.model, candidate, settings)
            return candidate
        first = self._candidate(segment, align, replace(options, to=pivot, alternatives=0))
        yield from search_candidate(self.model, first, settings)
        if first.failed:
            return PivotCandidate(first, None)
        second = self._candidate(first.as_segment(), align, replace(options, source=None))
        yield from search_candidate(self.model, second, settings)
        return PivotCandidate(first, second)

    def _candidate(self, segment: Segment, align: bool, options: TranslationOptions) -> Candidate:
        tag = options.to if options.to is not None and self._has_tag(options.to) else None
        detector = self._detector_for(segment, options)
        return Candidate(segment, tag, align, options.alternatives, self.confidence, options.words, detector)

    def assemble(
        self,
        passage: Passage,
        parts: list[Segment],
        sentences: list[Sentence],
        language: str | None,
        options: TranslationOptions,
    ) -> TranslationResult:
        text, spans = join_segments(passage.text, parts, [sentence.text for sentence in sentences])
        starts = [(segment.start, start) for segment, (start, _) in zip(parts, spans, strict=True)]
        translated = Passage(text)
        if passage.marks or passage.fixed:
            translated = place_marks(passage, text, list(links_of(sentences, starts)))
        if not options.align:  # only the marks needed the links, which are many times as large as the text
            sentences = [replace(sentence, links=()) if sentence.links else sentence for sentence in sentences]
            starts = []
        return TranslationResult(translated, tuple(sentences), language, options.to, tuple(starts))

    def _detector_for(self, segment: Segment, options: TranslationOptions) -> Languages | None:
        """The detector, if the segment is not in the language that the caller named.

        A model asked to translate German into German may well write English; then the output must be checked, too.
        """
        if self.detector is None or not {options.source, options.to} <= set(self.detector.known):
            return None
        assert options.source is not None
        return self.detector if self.detector.is_other_than(options.source, segment.text) else None

    def _fits(self, text: str) -> bool:
        most = min(MAX_SEGMENT_TOKENS, self.model.config.context - 1)
        # a character has at most four bytes, a piece hardly twenty characters: only in between must tokens be counted
        return 4 * len(text) < most or (len(text) <= 20 * most and len(self.model.tokenizer.encode(text)) <= most)


def load_translator(directory: str | Path | None = None, *, device: str = "auto") -> DocumentTranslator:
    """Load the translator in the box, or any other model directory that translates."""
    from regard.tasks import load

    return DocumentTranslator(load("box" if directory is None else directory, device=device))


@overload
def translate(
    texts: str,
    *,
    to: str,
    source: str | None = None,
    glossary: Glossary | None = None,
    min_confidence: float = 0.0,
    **search: Unpack[TextSearchOptions],
) -> str: ...
@overload
def translate(
    texts: list[str],
    *,
    to: str,
    source: str | None = None,
    glossary: Glossary | None = None,
    min_confidence: float = 0.0,
    **search: Unpack[TextSearchOptions],
) -> list[str]: ...
def translate(
    texts: str | list[str],
    *,
    to: str,
    source: str | None = None,
    glossary: Glossary | None = None,
    min_confidence: float = 0.0,
    **search: Unpack[TextSearchOptions],
) -> str | list[str]:
    """Translate with the translator in the box: a text gives a text, a list of texts a list.

    >>> regard.translate("I ate an apple.", to="de")
    'Ich habe einen Apfel gegessen.'

    The options are those of `DocumentTranslator.translate`. For confidences, alternatives and alignments, use
    `load_translator()`. The box is loaded at the first call and kept.
    """
    several = [texts] if isinstance(texts, str) else texts
    if not isinstance(several, list) or not all(isinstance(text, str) for text in several):
        raise UsageError(f"texts must be a str or a list of str, not {_kind(texts)}")
    options = TranslationOptions(to=to, source=source, glossary=glossary, min_confidence=min_confidence, search=search)
    results = _box().translate_passages([Passage(text) for text in several], options)
    return results[0].text if isinstance(texts, str) else [result.text for result in results]


@cache
def _box() -> DocumentTranslator:
    return load_translator()


def _kind(value: object) -> str:
    if isinstance(value, list):
        return f"a list with {next(type(one).__name__ for one in value if not isinstance(one, str))}"
    return type(value).__name__


def _check_text(text: str, index: int) -> None:
    try:
        check_text(text)
    except InputError as error:
        error.index = index
        raise


def _same_language(passage: Passage, language: str, align: bool) -> TranslationResult:
    sentence = unchanged(passage.text, 1.0, ("same language",), align=align)
    return TranslationResult(passage, (sentence,), language, language, ((0, 0),) if align else ())
