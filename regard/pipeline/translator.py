"""Translation: an encoder reads the source, a decoder writes the target while looking at what was read."""

from collections.abc import Iterable, Sequence
from typing import Any, overload

import torch
from torch import Tensor

from regard.blocks.lanes import Group
from regard.blocks.trace import Trace
from regard.decoding import align as alignment
from regard.decoding.engine import Asked, Worker, run
from regard.decoding.interface import Hypothesis, Opening
from regard.decoding.sample import seed_for
from regard.decoding.settings import Search
from regard.errors import ModelError, UsageError
from regard.models.compiled import Compiled, addresses, can_compile
from regard.models.seq2seq import Seq2Seq
from regard.pipeline.compiled import CompiledWorker, is_plain
from regard.pipeline.loaded import Model, Translation, each
from regard.pipeline.searching import not_to_write, search_settings
from regard.text.tokenizer import tag_piece
from regard.text.words import word_numbers
from regard.weights.shortlist import learn

LONGER, SPARE = 3, 32
"""A translation has at most so many times the tokens of its source, and so many more."""
LARGE = 256


class Translator(Model):
    """An encoder reads the source, a decoder writes the target."""

    network: Seq2Seq
    tasks = ("translate",)
    _where: Sequence[int] = ()
    _passes: Compiled | None = None

    def learn_shortlist(self, pairs: Iterable[tuple[str, str]]) -> None:
        """From pairs of texts: compiled searches then weigh the words that may translate a text, and not all."""
        config = self.network.config
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
        `regard.decoding.settings.Search`: beam, n_best, length_penalty, temperature, …
        """
        return self.find(texts, search_settings(self.generation, options), to=to, align=align)

    def find(
        self, texts: Sequence[str], settings: Search, *, to: str | None = None, align: bool = False
    ) -> list[list[Translation]]:
        """As `translations`, with settings that are settled."""
        rows = each(texts, lambda one: self._source(self.source_ids(one, to)))  # text -> tokens
        found = self._search(rows, settings)  # tokens -> tokens
        return [
            [self._translation(row, one, align) for one in hypotheses]  # tokens -> text
            for row, hypotheses in zip(rows, found, strict=True)
        ]

    def write(self, rows: Sequence[Sequence[int]], **options: Any) -> list[list[int]]:
        settings = search_settings(self.generation, options)
        return [found[0].tokens for found in self._search([self._source(row) for row in rows], settings)]

    @torch.inference_mode()
    def _search(self, sources: Sequence[Sequence[int]], settings: Search) -> list[list[Hypothesis]]:
        compiled = self._compiled()
        lengths = [len(source) for source in sources]
        if compiled is not None and is_plain(settings):
            limits = [self._limit(source, settings) for source in sources]

            def hire() -> Worker:
                return CompiledWorker(
                    compiled,
                    sources,
                    limits,
                    settings,
                    start=self._start(),
                    ends=self.generation.end,
                    never=not_to_write(self, self.network.config.vocab),
                    shortlist=self.shortlist,
                )

            return run(hire, lengths, settings.beam)
        width = max(settings.beam, settings.n_best)
        # for a small model the steps are short, and workers would wait for Python's lock
        large = self.network.config.width >= LARGE and self.device.type == "cpu"
        return run(lambda: self._asked(compiled, sources, settings), lengths, width, workers=None if large else 1)

    def _asked(self, compiled: Compiled | None, sources: Sequence[Sequence[int]], settings: Search) -> "Asked[Group]":
        """A worker for every kind of search, on any device."""
        network = self.network

        def begin(numbers: Sequence[int]) -> tuple[Group, Opening]:
            rows = [sources[number] for number in numbers]
            # tokens -> states -> keys and values
            group = compiled.read(rows) if compiled else network.group(network.encode(*self._pad(rows)))
            opening = Opening(
                first_BL=torch.full((len(rows), 1), self._start(), device=self.device),
                room=[self._limit(row, settings) for row in rows],
                end=self.generation.end,
                never=not_to_write(self, network.config.vocab),
                seeds=[seed_for(settings.seed, row) for row in rows],  # each text has its own luck, in any company
            )
            return group, opening

        def answer(groups: Sequence[Group], new: Sequence[Tensor]) -> Sequence[Tensor]:
            ids_R = torch.cat(list(new))[:, 0]
            logits_RV = (compiled or network).next_logits(ids_R, groups)  # tokens -> states -> logits
            return torch.split(logits_RV, [len(new_R1) for new_R1 in new])

        return Asked(begin, answer, settings)  # logits -> tokens

    def _limit(self, source: Sequence[int], settings: Search) -> int:
        """How many tokens a translation may have, the end token included."""
        room = min(self.network.config.context - 1, LONGER * len(source) + SPARE)
        return room if settings.max_new is None else min(room, settings.max_new)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_where": (), "_passes": None}  # a copy has its weights elsewhere

    def _compiled(self) -> Compiled | None:
        """The network's passes, compiled where that can be; made again when the weights are not where they were."""
        where = addresses(self.network)
        if self._where != where:
            self._where = where
            self._passes = Compiled(self.network) if can_compile(self.network) else None
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

    def _align(self, source: Sequence[int], target: Sequence[int]) -> list[tuple[int, int]]:
        """Which word of the source each word of the target looks at, by the cross-attention of a second pass."""
        return alignment.hard(self._attention_of_words(source, target))

    def attention_of_words(self, found: Translation) -> Tensor:
        """How much each word of a translation looks at each word of its source (target words, source words)."""
        return self._attention_of_words(found.source_ids, found.ids)

    def _attention_of_words(self, source: Sequence[int], target: Sequence[int]) -> Tensor:
        seen = self._trace(source, [self._start(), *target])
        layers = range(self.network.config.decoder_layers)
        weights_NHTS = torch.stack([seen[f"decoder.blocks.{i}.cross.weights"][0] for i in layers])
        tokenizer = self.tokenizer
        special = {tokenizer.pad, tokenizer.start, tokenizer.end, *(i for i in source[:1] if self._is_tag(i))}
        source_words = word_numbers(tokenizer.pieces(source), source, special)
        target_words = word_numbers(tokenizer.pieces_target(target), target, special)
        when, layer = alignment.usual(len(layers))
        return alignment.of_words(alignment.soft(weights_NHTS, when=when, layer=layer), source_words, target_words)

    def source_ids(self, text: str, to: str | None = None) -> list[int]:
        """What the model reads: the text, and before it the language asked for, of a model that has several."""
        return [*([] if to is None else [self._tag(to)]), *self._read(text)]

    def _is_tag(self, token: int) -> bool:
        (piece,) = self.tokenizer.pieces([token])
        return piece.startswith(">>") and piece.endswith("<<")

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
        config = self.network.config
        return self._fit(ids, config.source_vocab or config.vocab, config.context)

    @torch.inference_mode()
    def logits(self, ids: Sequence[int], target: Sequence[int] | None = None) -> Tensor:
        """Logits of the token after each of `target` (L, V), which begins with the start token by itself."""
        config = self.network.config
        written = [self._start()] if target is None else self._fit(target, config.vocab, config.context)
        source_1S, target_1L = (torch.tensor([row], device=self.device) for row in (self._source(ids), written))
        logits_1LV: Tensor = self.network(source_1S, target_1L)
        return logits_1LV[0]

    @torch.inference_mode()
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

    @torch.inference_mode()
    def _trace(self, source: Sequence[int], target: Sequence[int]) -> Trace:
        seen = Trace()
        self._fit(target, self.network.config.vocab, self.network.config.context)
        source_1S, target_1L = (torch.tensor([row], device=self.device) for row in (source, target))
        seen.note("source_ids", source_1S)
        seen.note("target_ids", target_1L)
        self.network(source_1S, target_1L, trace=seen)
        return seen
