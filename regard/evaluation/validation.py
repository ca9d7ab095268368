"""Validation during training: loss and BLEU on the validation pairs, with a few translations to look at.

The training loop is handed a `Validation` and calls it: training/ does not import evaluation/.
"""

import time
from collections.abc import Iterator, Sequence

import torch

from regard.data.batching import Batch, collate
from regard.data.corpus import Ragged
from regard.data.token_cache import tag_ids
from regard.evaluation.metrics import bleu
from regard.tasks import TranslationModel
from regard.training.metrics_log import Record
from regard.training.prepare import Prepared

ROWS_PER_BATCH = 64
SAMPLES = 3
"""Translations recorded with each validation."""
EXTRA_TOKENS = 20
"""Tokens a translation may have beyond the longest reference: an untrained model does not know when to stop."""


class Validation:
    """Evaluates the model of a run in its current state."""

    def __init__(self, prepared: Prepared, device: torch.device) -> None:
        self.prepared, self.device = prepared, device

    def __call__(self) -> Record:
        pairs = self.prepared.valid
        if not pairs:
            return {"score": 0.0}
        started = time.perf_counter()
        loss = self.loss()
        outputs = self.translate()
        figure = bleu(outputs, [pair.target for pair in pairs])
        return {
            "score": -loss if self.prepared.recipe.train.stop_on == "loss" else figure.value,
            "loss": loss,
            "bleu": figure.value,
            "signature": figure.signature,
            "seconds": time.perf_counter() - started,
            "samples": [
                {"source": pair.source, "target": pair.target, "output": output}
                for pair, output in list(zip(pairs, outputs, strict=True))[:SAMPLES]
            ],
        }

    @torch.inference_mode()
    def loss(self) -> float:
        """Mean negative log-likelihood per token of the targets, without label smoothing."""
        total, tokens = 0.0, 0
        for batch in self.batches():
            _, log_likelihood = self.prepared.loss(batch.to(self.device))
            total, tokens = total - float(log_likelihood), tokens + batch.tokens
        return total / max(tokens, 1)

    def batches(self) -> Iterator[Batch]:
        tokenizer, generation = self.prepared.tokenizer, self.prepared.generation
        assert generation.start is not None
        assert generation.pad is not None
        rows = [
            ([*tag_ids(pair.tag, tokenizer), *tokenizer.encode(pair.source)], tokenizer.encode_target(pair.target))
            for pair in self.prepared.valid
        ]
        rows.sort(key=lambda row: len(row[0]))
        for first in range(0, len(rows), ROWS_PER_BATCH):
            part = rows[first : first + ROWS_PER_BATCH]
            source, target = (_ragged([row[side] for row in part]) for side in (0, 1))
            numbers = torch.arange(first, first + len(part)).numpy()
            yield collate(source, target, numbers, start=generation.start, pad=generation.pad)

    def translate(self) -> list[str]:
        """Greedy translations, each into the language of its pair if the model has several."""
        prepared = self.prepared
        model = TranslationModel(prepared.model, prepared.generation, prepared.tokenizer, prepared.run)
        outputs = [""] * len(prepared.valid)
        longest = max(len(prepared.tokenizer.encode_target(pair.target)) for pair in prepared.valid)
        for tag in {pair.tag for pair in prepared.valid}:
            rows = [i for i, pair in enumerate(prepared.valid) if pair.tag == tag]
            sources = [prepared.valid[i].source for i in rows]
            for i, output in zip(
                rows, model.translate(sources, beam=1, to=tag, max_tokens=longest + EXTRA_TOKENS), strict=True
            ):
                outputs[i] = output
        return outputs


def _ragged(rows: Sequence[Sequence[int]]) -> Ragged:
    flat = torch.tensor([token for row in rows for token in row]).numpy()
    return Ragged(flat, torch.tensor([len(row) for row in rows]).numpy())
