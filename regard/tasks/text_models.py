"""One text, one stack: an encoder reads it whole, a decoder goes on where it stops."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.blocks.trace import Trace
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.request import Prompts
from regard.decoding.sample import seed_for
from regard.decoding.search import search
from regard.decoding.settings import SearchSettings
from regard.errors import InputError, UsageError
from regard.inference.decode_step import WritingStep
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.tasks.base import Model, TokenProbability, by_probability, each, in_batches, not_empty
from regard.tasks.generation_settings import not_to_write, search_settings


class TextModel(Model):
    """What encoders and decoders share: one text, one stack."""

    network: Encoder | Decoder

    @torch.inference_mode()
    def logits(self, ids: Sequence[int], target: object = None) -> Tensor:
        """At each place (L, V), or of the labels (N)."""
        logits: Tensor = self.network(torch.tensor([self._ids(ids)], device=self.device))
        return logits[0]

    @torch.inference_mode()
    def classify(self, item: str) -> dict[str, float]:
        labels = self.network.config.labels
        if not labels:
            self._cannot("classify")
        ids = self._ids(self._read(item))  # text -> tokens
        return by_probability(labels, self.logits(ids))  # tokens -> logits -> probabilities

    @torch.inference_mode()
    def trace(self, text: str, target: str | None = None) -> Trace:
        seen = Trace()
        ids_1L = torch.tensor([self._ids(self._read(text))], device=self.device)
        seen.note("ids", ids_1L)
        self.network(ids_1L, trace=seen)
        return seen

    def _ids(self, ids: Sequence[int]) -> Sequence[int]:
        return self._fit(ids, self.network.config.vocab, self.network.config.context)


class EncoderModel(TextModel):
    """An encoder: it reads a text whole, for its meaning, its gaps or its class."""

    network: Encoder

    @property
    def tasks(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("embed",) + {"none": (), "masked_lm": ("fill",), "classifier": ("classify",)}[self.network.config.head]

    @torch.inference_mode()
    def embed(self, texts: str | Sequence[str]) -> Tensor:
        if isinstance(texts, str):
            return self.embed([texts])[0]
        rows = each(texts, self._to_embed)  # text -> tokens
        vectors_ND = torch.empty(len(rows), self.config.width, device=self.device)
        for batch in in_batches(rows):
            vectors_ND[batch] = self.network.embed(
                *self._pad([rows[i] for i in batch])
            ).float()  # tokens -> states -> vectors
        return vectors_ND

    def _to_embed(self, one: str) -> Sequence[int]:
        not_empty(one)
        return self._ids(self.tokenizer.encode_truncated(one, self.network.config.context))

    @torch.inference_mode()
    def fill(self, text: str, *, top: int = 5) -> list[list[TokenProbability]]:
        if self.network.config.head != "masked_lm":
            self._cannot("fill")
        if top < 1:
            raise UsageError(f"top must be at least 1, not {top}")
        ids = self._ids(self._read(text))  # text -> tokens
        gaps = [place for place, token in enumerate(ids) if token == self.tokenizer.mask]
        if not gaps:
            known = self.tokenizer.mask
            mask = "" if known is None else f" ({self.tokenizer.pieces([known])[0]})"
            raise InputError(f"the text has no mask{mask} to fill")
        pieces = self.tokenizer.vocab  # the model's may be larger: vocabularies are often rounded up
        chances = self.logits(ids)[gaps].softmax(-1)[:, :pieces].topk(min(top, pieces))  # tokens -> logits
        return [
            [TokenProbability(*pair) for pair in zip(self.tokenizer.pieces(tokens), values, strict=True)]
            for tokens, values in zip(chances.indices.tolist(), chances.values.tolist(), strict=True)
        ]


class LanguageModel(TextModel):
    """A decoder: it goes on where a text stops."""

    network: Decoder

    @property
    def tasks(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("generate",) if self.network.config.head == "lm" else ("classify",)

    def generate(self, prompt: str = "", **options: Any) -> str:
        if self.network.config.head != "lm":
            self._cannot("generate")
        settings = search_settings(self.generation, options)
        ids = self.tokenizer.encode(prompt)  # text -> tokens
        if not ids:
            if self.generation.start is None:
                raise InputError("the prompt is empty, and this model has no token to begin with")
            ids = [self.generation.start]
        said = self._search([self._ids(ids)], settings)[0][0].tokens  # tokens -> states -> logits -> tokens
        whole, given = self.tokenizer.decode([*ids, *said]), self.tokenizer.decode(ids)
        return whole.removeprefix(given)  # tokens -> text

    def write(self, rows: Sequence[Sequence[int]], **options: Any) -> list[list[int]]:
        settings = search_settings(self.generation, options)
        return [found[0].tokens for found in self._search([self._ids(row) for row in rows], settings)]

    @torch.inference_mode()
    def _search(self, prompts: Sequence[Sequence[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
        ids_BL, present_BL = self._pad(prompts, left=True)  # on the left: every row goes on at its right end
        opening = Prompts(
            first_BL=ids_BL,
            present_BL=present_BL,
            room=[self.network.config.context - len(prompt) for prompt in prompts],
            end=self.generation.end,
            never=not_to_write(self, self.network.config.vocab),
            seeds=[seed_for(settings.seed, row) for row in prompts],
        )
        return search(WritingStep(self.network, present_BL), opening, settings)
