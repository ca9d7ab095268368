"""Rewards for minimum risk training (training/minimum_risk.py): what a translation adds to the BLEU of its batch.

BLEU is a metric of a whole text: it counts the n-grams of all sentences, and the length of the text as a whole. The
BLEU of one sentence is a different metric, which smooths missing n-grams away and requires every sentence, not their
sum, to be long enough. So the batch is treated as one text (Watanabe et al. 2007) that consists of the best
translations. The reward of a translation is the BLEU of that text with this translation in its place.

B sources  N statistics of a sentence, which are summed for a text
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU, BLEUScore

from regard.tasks import TranslationModel
from regard.training.loop import Batches
from regard.training.minimum_risk import RewardedBatches, Sample
from regard.training.prepare import Prepared

EXTRA_TOKENS = 20
"""Tokens a translation may have beyond the longest target of its batch: not all models know when to stop."""

Statistics = NDArray[np.float64]


def training_batches(prepared: Prepared) -> Batches:
    """The batches of each epoch; for minimum risk training, with translations of the model and their rewards."""
    train = prepared.recipe.train
    if not train.mrt_weight:
        return prepared.epochs
    model = TranslationModel(prepared.model, prepared.generation, prepared.tokenizer, prepared.run)
    sample = RewardedSamples(model, train.mrt_samples)
    start, pad = prepared.epochs.start, prepared.epochs.pad
    return lambda epoch: RewardedBatches(prepared.epochs(epoch), sample, start=start, pad=pad)


class RewardedSamples:
    """Sources and targets as tokens -> the best few translations that a beam search finds for each source."""

    def __init__(self, model: TranslationModel, count: int) -> None:
        self.model, self.count = model, count
        self.metric = BLEU(effective_order=True)

    def __call__(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[Sample]]:
        self.model.network.eval()
        max_tokens = max(map(len, targets)) + EXTRA_TOKENS
        found = self.model.hypotheses(
            sources, beam=self.count, n_best=self.count, length_penalty=1.0, max_tokens=max_tokens
        )
        decode = self.model.tokenizer.decode
        scores = []
        for hypotheses, target in zip(found, targets, strict=True):
            reference = [decode(target)]
            scores.append([self.metric.sentence_score(decode(one.tokens), reference) for one in hypotheses])
        return [
            [(one.generated, reward) for one, reward in zip(hypotheses, row, strict=True)]
            for hypotheses, row in zip(found, rewards(scores), strict=True)
        ]


def rewards(scores: Sequence[Sequence[BLEUScore]]) -> list[list[float]]:
    """The rewards of the translations of each sentence of a text. The first of each sentence makes up the text.

    One sentence changes the BLEU of the text little. The change is scaled up as if the whole text were such a sentence.
    """
    rows = [np.array([_statistics(one) for one in sentence]) for sentence in scores]
    text_N = np.sum([row[0] for row in rows], axis=0)
    now = float(_bleu(text_N))
    # the last statistic is the length of the target
    return [(now + (_bleu(text_N - row[0] + row) - now) * text_N[-1] / max(row[0, -1], 1.0)).tolist() for row in rows]


def _statistics(score: BLEUScore) -> list[float]:
    return [*score.counts, *score.totals, score.sys_len, score.ref_len]


def _bleu(statistics: Statistics) -> Statistics:
    """BLEU in 0 … 1. One is added to all n-gram counts: negligible for a batch, needed for a few short sentences."""
    correct, total, length, target_length = np.split(statistics, (4, 8, 9), axis=-1)
    brevity = np.minimum(0.0, 1.0 - target_length / np.maximum(length, 1.0))[..., 0]
    bleu: Statistics = np.exp(np.log((correct + 1) / (total + 1)).mean(-1) + brevity)
    return bleu
