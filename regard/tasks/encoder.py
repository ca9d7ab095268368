"""Encoders (BERT, RoFormer, sentence embeddings): a text is read whole, for a vector, its masks or its class."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.errors import InputError, UsageError
from regard.models.encoder import Encoder
from regard.tasks.base import TokenProbability, check_texts, each, in_batches, not_empty
from regard.tasks.text_model import TextModel


class EncoderModel(TextModel):
    """An encoder over one text."""

    network: Encoder

    @property
    def tasks(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("embed",) + {"none": (), "masked_lm": ("fill",), "classifier": ("classify",)}[self.network.config.head]

    @torch.inference_mode()
    def embed(self, texts: str | Sequence[str]) -> Tensor:
        if isinstance(texts, str):
            return self.embed([texts])[0]
        check_texts(texts)
        rows = each(texts, self._to_embed)  # text -> tokens
        vectors_ND = torch.empty(len(rows), self.config.width, device=self.device)
        for batch in in_batches(rows):
            # tokens -> states -> vectors
            vectors_ND[batch] = self.network.embed(*self._pad([rows[i] for i in batch])).float()
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
        masks = [position for position, token in enumerate(ids) if token == self.tokenizer.mask]
        if not masks:
            known = self.tokenizer.mask
            mask = "" if known is None else f" ({self.tokenizer.pieces([known])[0]})"
            raise InputError(f"the text has no mask{mask} to fill")
        pieces = self.tokenizer.vocab  # the model's may be larger: vocabularies are often rounded up
        best = self.logits(ids)[masks].softmax(-1)[:, :pieces].topk(min(top, pieces))  # tokens -> logits
        return [
            [TokenProbability(*pair) for pair in zip(self.tokenizer.pieces(tokens), values, strict=True)]
            for tokens, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
