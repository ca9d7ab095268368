"""What encoders and language models share: one text, one stack."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.blocks.trace import Trace
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.tasks.base import Model, by_probability


class TextModel(Model):
    network: Encoder | Decoder

    @torch.inference_mode()
    def logits(self, ids: Sequence[int], target: object = None) -> Tensor:
        """At each position (L, V), or of the labels (N)."""
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
        trace = Trace()
        ids_1L = torch.tensor([self._ids(self._read(text))], device=self.device)
        trace.note("ids", ids_1L)
        self.network(ids_1L, trace=trace)
        return trace

    def _ids(self, ids: Sequence[int]) -> Sequence[int]:
        return self._fit(ids, self.network.config.vocab, self.network.config.context)
