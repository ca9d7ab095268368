"""Translation: an encoder reads the source, a decoder writes the target with cross-attention to what was read.

    text -> tokens -> [ encoder ] -> [ decoder ] -> logits -> search -> tokens -> text

Where the native backend runs the model, translating imports no torch; introspection does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Unpack, overload

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import SearchOptions, SearchSettings, search_settings
from regard.errors import ModelError, UsageError
from regard.inference.requests import Handle, Request
from regard.models.config import Seq2SeqConfig
from regard.tasks.base import Generating, check_texts, each
from regard.text.tokenizer import tag_piece
from regard.weights.shortlist import learn

if TYPE_CHECKING:
    from torch import Tensor

    from regard.blocks.trace import Trace
    from regard.models.seq2seq import Seq2Seq

MAX_LENGTH_RATIO, EXTRA_TOKENS = 3, 32
"""A translation has at most this many times the tokens of its source, and this many more."""
TAG = re.compile(tag_piece(r"(\S+)"))


@dataclass(frozen=True)
class Translation:
    """One translation of a text, and what the search knows about it."""

    text: str
    score: float
    """What the search ranks by; larger is better."""
    log_prob: float
    """Of the whole text and its end token, by the model."""
    pieces: list[str]
    log_probs: list[float]
    """Of each piece; the last is the end token's where the text ended."""
    ended: bool
    """False where the length limit cut it off."""
    alignment: list[tuple[int, int]] | None = None
    """(source word, target word), words being separated by white space; on request."""
    source_ids: Sequence[int] = field(default=(), repr=False)
    ids: Sequence[int] = field(default=(), repr=False)
    """Source and translation in tokens, as the model read and wrote them; `trace` shows how."""


class TranslationModel(Generating):
    """An encoder reads the source, a decoder writes the target."""

    tasks = ("translate",)

    if TYPE_CHECKING:

        @property
        def config(self) -> Seq2SeqConfig: ...
        @property
        def network(self) -> Seq2Seq: ...

    @overload
    def translate(self, texts: str, *, to: str | None = None, **search: Unpack[SearchOptions]) -> str: ...
    @overload
    def translate(self, texts: list[str], *, to: str | None = None, **search: Unpack[SearchOptions]) -> list[str]: ...
    def translate(
        self, texts: str | list[str], *, to: str | None = None, **search: Unpack[SearchOptions]
    ) -> str | list[str]:
        """Translate a sentence, or each of a list, in one search per sentence.

        For documents, glossaries and confidences use `regard.load_translator`.

        Args:
            texts: A sentence or a list of sentences.
            to: The target language, for a model with several: "de".
            **search: How to search: beam, n_best, length_penalty, length_form, patience, temperature, top_k, top_p,
                min_p, repetition_penalty, frequency_penalty, presence_penalty, no_repeat_ngram, min_tokens,
                max_tokens, boost, seed. Unset ones are the model's own; `help(regard.SearchSettings)` explains each.
        """
        if isinstance(texts, str):
            return self.translate([texts], to=to, **search)[0]
        return [found[0].text for found in self.translations(texts, to=to, **search)]

    def translations(
        self, texts: Sequence[str], *, to: str | None = None, align: bool = False, **search: Unpack[SearchOptions]
    ) -> list[list[Translation]]:
        """The translations of each text, with their scores.

        Args:
            texts: A list of sentences.
            to: The target language, for a model with several: "de".
            align: Whether each translation has `alignment`: which source word each of its words comes from.
            **search: How to search, as for `translate`.

        Returns:
            For each text, in order, a list of `n_best` `Translation`s, best first. Each has `text`, `score`,
            `log_prob`, `pieces`, `log_probs`, `ended` and `alignment`.

        Example:
            >>> regard.load("box").translations(["I am here."], to="de", n_best=2)[0][0].text
            'Ich bin hier.'
        """
        return self.find(texts, search_settings(self.generation, search), to=to, align=align)

    def find(
        self, texts: Sequence[str], settings: SearchSettings, *, to: str | None = None, align: bool = False
    ) -> list[list[Translation]]:
        """Like `translations`, with complete settings."""
        check_texts(texts)
        rows = each(texts, lambda one: self._encode(one, to))  # text -> tokens
        found = self._search(rows, settings)  # tokens -> tokens
        return [
            [self._translation(row, one, align) for one in hypotheses]  # tokens -> text
            for row, hypotheses in zip(rows, found, strict=True)
        ]

    def sentence_request(self, text: str, settings: SearchSettings, *, to: str | None = None) -> Request:
        """A request to the scheduler for one sentence; `translations_of` has its outcome."""
        return self.request(self._encode(text, to), settings)

    def translations_of(self, handle: Handle, *, align: bool = False) -> list[Translation]:
        """The translations of a sentence that was submitted, best first."""
        return [self._translation(handle.request.ids, one, align) for one in handle.result()]

    def write(self, rows: Sequence[Sequence[int]], **search: Unpack[SearchOptions]) -> list[list[int]]:
        return [found[0].tokens for found in self.hypotheses(rows, **search)]

    def hypotheses(self, rows: Sequence[Sequence[int]], **search: Unpack[SearchOptions]) -> list[list[Hypothesis]]:
        """The hypotheses for each source, best first: tokens in, tokens out."""
        return self._search([self._source(row) for row in rows], search_settings(self.generation, search))

    def learn_shortlist(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Learn from pairs of texts which tokens may translate which: native searches then score only those."""
        rows = ((self.source_ids(source), self.tokenizer.encode_target(target)) for source, target in pairs)
        self.shortlist = learn(rows, *self._vocabularies())

    def _vocabularies(self) -> tuple[int, int]:
        return self.config.source_vocab or self.config.vocab, self.config.vocab

    def _max_tokens(self, ids: Sequence[int]) -> int:
        return min(self.config.context - 1, MAX_LENGTH_RATIO * len(ids) + EXTRA_TOKENS)

    def _translation(self, source: Sequence[int], found: Hypothesis, align: bool) -> Translation:
        return Translation(
            text=self.tokenizer.decode(found.tokens),
            score=found.score,
            log_prob=found.log_prob,
            pieces=self.tokenizer.pieces_target(found.tokens),
            log_probs=found.log_probs,
            ended=found.ended,
            alignment=self._align(source, found.tokens) if align else None,
            source_ids=source,
            ids=found.tokens,
        )

    def source_ids(self, text: str, to: str | None = None) -> list[int]:
        """What the model reads: the text, after the tag of the target language where the model has several."""
        return [*([] if to is None else [self._tag(to)]), *self._read(text)]

    @cached_property
    def target_languages(self) -> tuple[str, ...]:
        """The languages to choose from with `to`; empty for a model with one."""
        return languages_of(self.tokenizer.pieces(range(self.tokenizer.vocab)))

    def require_target_language(self, to: str | None) -> None:
        """Without its tag, a model of several target languages mixes them."""
        if to is None and len(self.target_languages) > 1:
            raise UsageError(f"no target language: this model translates into {', '.join(self.target_languages)}")

    def _encode(self, text: str, to: str | None) -> Sequence[int]:
        """The text as the model reads it, checked."""
        if not languages_of(text.split(maxsplit=1)[:1]):  # OPUS-MT's way to name the target
            self.require_target_language(to)
        return self._source(self.source_ids(text, to))

    def _tag(self, language: str) -> int:
        number = self.tokenizer.id_of(tag_piece(language))
        if number is None:
            known = f"choose {', '.join(self.target_languages)}" if self.target_languages else "it has only one target"
            raise UsageError(f"{self.source}: this model does not translate into '{language}'; {known}")
        return number

    def _start(self) -> int:
        if self.generation.start is None:
            raise ModelError(f"{self.source}: no start token: generation_config.json must name one")
        return self.generation.start

    def _source(self, ids: Sequence[int]) -> Sequence[int]:
        self._start()
        return self._fit(ids, self._vocabularies()[0], self.config.context)

    # ---- introspection ----

    def _align(self, source: Sequence[int], target: Sequence[int]) -> list[tuple[int, int]]:
        """Which source word each target word attends to, by the cross-attention of a second pass."""
        from regard.decoding.align import hard

        return hard(self._attention_of_words(source, target))

    def attention_of_words(self, found: Translation) -> Tensor:
        """Cross-attention between words: (target words, source words)."""
        return self._attention_of_words(found.source_ids, found.ids)

    def _attention_of_words(self, source: Sequence[int], target: Sequence[int]) -> Tensor:
        from regard.tasks.introspect import attention_of_words

        return attention_of_words(self._trace(source, [self._start(), *target]), self.tokenizer, source, target)

    def logits(self, ids: Sequence[int], target: Sequence[int] | None = None) -> Tensor:
        """Logits of the token after each of `target` (L, V); the start token alone unless given."""
        from regard.tasks.introspect import logits

        written = [self._start()] if target is None else self._fit(target, self.config.vocab, self.config.context)
        return logits(self.network, self._source(ids), written)

    def trace(self, text: str | Translation, target: str | None = None, to: str | None = None) -> Trace:
        """The source through the encoder and a translation (the model's own unless given) through the decoder.

        Given a `Translation`, this is a second pass over its tokens: tracing costs nothing until it is asked for.
        """
        if isinstance(text, Translation):
            return self._trace(text.source_ids, [self._start(), *text.ids])
        source = self._encode(text, to)
        if target is None:
            written = self._search([source], search_settings(self.generation, {}))[0][0].tokens
        else:
            written = [token for token in self.tokenizer.encode_target(target) if token not in self.generation.end]
        return self._trace(source, [self._start(), *written])

    def _trace(self, source: Sequence[int], target: Sequence[int]) -> Trace:
        from regard.tasks.introspect import trace

        return trace(self.network, source, self._fit(target, self.config.vocab, self.config.context))


def languages_of(pieces: Iterable[str]) -> tuple[str, ...]:
    """The target languages whose tags are among these pieces, sorted."""
    return tuple(sorted(tag[1] for piece in pieces if (tag := TAG.fullmatch(piece))))
