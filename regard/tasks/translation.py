"""Translation: an encoder reads the source, a decoder writes the target while looking at what was read.

To translate, no torch is needed where there are compiled loops for the model; to look inside, there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import SearchSettings
from regard.errors import ModelError, UsageError
from regard.inference.native_model import NativeModel
from regard.inference.native_worker import TEXTS, NativeWorker, is_plain
from regard.inference.scheduler import ROWS, Worker, run
from regard.models.config import Seq2SeqConfig
from regard.tasks.base import Model, Translation, each
from regard.tasks.generation_settings import not_to_write, search_settings
from regard.text.tokenizer import tag_piece
from regard.weights.arrays import LazyModel
from regard.weights.shortlist import learn

if TYPE_CHECKING:
    from torch import Tensor

    from regard.blocks.trace import Trace
    from regard.models.seq2seq import Seq2Seq

LONGER, SPARE = 3, 32
"""A translation has at most so many times the tokens of its source, and so many more."""
LARGE = 256


class TranslationModel(Model):
    """An encoder reads the source, a decoder writes the target."""

    tasks = ("translate",)
    _where: Sequence[int] | None = None
    _passes: NativeModel | None = None

    if TYPE_CHECKING:

        @property
        def config(self) -> Seq2SeqConfig: ...
        @property
        def network(self) -> Seq2Seq: ...

    def learn_shortlist(self, pairs: Iterable[tuple[str, str]]) -> None:
        """From pairs of texts: compiled searches then weigh the words that may translate a text, and not all."""
        config = self.config
        rows = ((self.source_ids(source), self.tokenizer.encode_target(target)) for source, target in pairs)
        self.shortlist = learn(rows, config.source_vocab or config.vocab, config.vocab)

    @overload
    def translate(self, texts: str, **options: Any) -> str: ...
    @overload
    def translate(self, texts: list[str], **options: Any) -> list[str]: ...
    def translate(self, texts: str | list[str], **options: Any) -> str | list[str]:
        if isinstance(texts, str):
            return self.translate([texts], **options)[0]
        return [found[0].text for found in self.translations(texts, **options)]

    def translations(
        self, texts: Sequence[str], *, to: str | None = None, align: bool = False, **options: Any
    ) -> list[list[Translation]]:
        """The translations that were found for each text, best first, with all that is known about them.

        `to` is the language, for a model that has several. The options are those of
        `regard.decoding.settings.SearchSettings`: beam, n_best, length_penalty, temperature, …
        """
        return self.find(texts, search_settings(self.generation, options), to=to, align=align)

    def find(
        self, texts: Sequence[str], settings: SearchSettings, *, to: str | None = None, align: bool = False
    ) -> list[list[Translation]]:
        """As `translations`, with settings that are settled."""
        rows = each(texts, lambda one: self._source(self.source_ids(one, to)))  # text -> tokens
        found = self._search(rows, settings)  # tokens -> tokens
        return [
            [self._translation(row, one, align) for one in hypotheses]  # tokens -> text
            for row, hypotheses in zip(rows, found, strict=True)
        ]

    def write(self, rows: Sequence[Sequence[int]], **options: Any) -> list[list[int]]:
        return [found[0].tokens for found in self.hypotheses(rows, **options)]

    def hypotheses(self, rows: Sequence[Sequence[int]], **options: Any) -> list[list[Hypothesis]]:
        """What was found for each source, best first: tokens in, tokens out."""
        return self._search([self._source(row) for row in rows], search_settings(self.generation, options))

    def _search(self, sources: Sequence[Sequence[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
        compiled = self._compiled()
        lengths = [len(source) for source in sources]
        limits = [self._limit(source, settings) for source in sources]
        start, never = self._start(), not_to_write(self, self.config.vocab)
        if compiled is not None and is_plain(settings):

            def hire() -> Worker:
                return NativeWorker(
                    compiled,
                    sources,
                    limits,
                    settings,
                    start=start,
                    ends=self.generation.end,
                    never=never,
                    shortlist=self.shortlist,
                )

            return run(hire, lengths, settings.beam, rows=min(ROWS, TEXTS * settings.beam))
        from regard.inference.torch_backend import Texts, asked

        network = self.network
        texts = Texts(sources, limits, start, self.generation.end, never, self.generation.pad or 0)
        # for a small model the steps are short, and workers would wait for Python's lock
        large = self.config.width >= LARGE and self.device.type == "cpu"
        width = max(settings.beam, settings.n_best)
        return run(lambda: asked(network, compiled, texts, settings), lengths, width, workers=None if large else 1)

    def _limit(self, source: Sequence[int], settings: SearchSettings) -> int:
        """How many tokens a translation may have, the end token included."""
        room = min(self.config.context - 1, LONGER * len(source) + SPARE)
        return room if settings.max_new is None else min(room, settings.max_new)

    def __getstate__(self) -> dict[str, Any]:
        # a copy has its weights elsewhere, and not in a file
        return super().__getstate__() | {"_network": self.network, "_where": None, "_passes": None}

    def _compiled(self) -> NativeModel | None:
        """The network's passes, compiled where that can be; made again when the weights are not where they were."""
        with self._lock:
            if isinstance(self._network, LazyModel):
                if self._passes is None:
                    self._passes = NativeModel(self.config, self._network.arrays, fixed=True)
                    self._network.arrays.drop_pages()
                return self._passes
            from regard.inference.native_step import addresses, can_compile, compile_network

            where = addresses(self.network)
            if self._where != where:
                self._where = where
                self._passes = compile_network(self.network) if can_compile(self.network) else None
            return self._passes

    def _translation(self, source: Sequence[int], found: Hypothesis, align: bool) -> Translation:
        return Translation(
            text=self.tokenizer.decode(found.tokens),
            score=found.score,
            log_probability=found.log_probability,
            pieces=self.tokenizer.pieces_target(found.tokens),
            piece_log_probabilities=found.token_log_probabilities,
            ended=found.ended,
            alignment=self._align(source, found.tokens) if align else None,
            source_ids=source,
            ids=found.tokens,
        )

    def source_ids(self, text: str, to: str | None = None) -> list[int]:
        """What the model reads: the text, and before it the language asked for, of a model that has several."""
        return [*([] if to is None else [self._tag(to)]), *self._read(text)]

    def _tag(self, language: str) -> int:
        number = self.tokenizer.id_of(tag_piece(language))
        if number is None:
            raise UsageError(f"{self.source}: this model does not know '{language}' as a language to translate into")
        return number

    def _start(self) -> int:
        if self.generation.start is None:
            raise ModelError(f"{self.source}: does not say which token a translation starts with")
        return self.generation.start

    def _source(self, ids: Sequence[int]) -> Sequence[int]:
        config = self.config
        return self._fit(ids, config.source_vocab or config.vocab, config.context)

    # ---- a look inside ----

    def _align(self, source: Sequence[int], target: Sequence[int]) -> list[tuple[int, int]]:
        """Which word of the source each word of the target looks at, by the cross-attention of a second pass."""
        from regard.decoding.align import hard

        return hard(self._attention_of_words(source, target))

    def attention_of_words(self, found: Translation) -> Tensor:
        """How much each word of a translation looks at each word of its source (target words, source words)."""
        return self._attention_of_words(found.source_ids, found.ids)

    def _attention_of_words(self, source: Sequence[int], target: Sequence[int]) -> Tensor:
        from regard.tasks.introspect import attention_of_words

        return attention_of_words(self._trace(source, [self._start(), *target]), self.tokenizer, source, target)

    def logits(self, ids: Sequence[int], target: Sequence[int] | None = None) -> Tensor:
        """Logits of the token after each of `target` (L, V), which begins with the start token by itself."""
        from regard.tasks.introspect import logits

        written = [self._start()] if target is None else self._fit(target, self.config.vocab, self.config.context)
        return logits(self.network, self._source(ids), written)

    def trace(self, text: str | Translation, target: str | None = None, to: str | None = None) -> Trace:
        """The source through the encoder, and a translation (its own unless given) through the decoder.

        Of a translation that was made before, this is a second pass over its very tokens: making it was not slower
        for the possibility, and it does not change.
        """
        if isinstance(text, Translation):
            return self._trace(text.source_ids, [self._start(), *text.ids])
        source = self._source(self.source_ids(text, to))
        if target is None:
            written = self._search([source], search_settings(self.generation, {}))[0][0].tokens
        else:
            written = [token for token in self.tokenizer.encode_target(target) if token not in self.generation.end]
        return self._trace(source, [self._start(), *written])

    def _trace(self, source: Sequence[int], target: Sequence[int]) -> Trace:
        from regard.tasks.introspect import trace

        return trace(self.network, source, self._fit(target, self.config.vocab, self.config.context))
