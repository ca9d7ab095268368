"""What a model writes for a source by itself, and what it is worth: what it adds to BLEU. For training/minimum_risk.py.

BLEU is a figure of a whole text: of the n-grams of all its sentences, and of its length as a whole. The BLEU of a
sentence by itself is another figure, which smooths away n-grams that are missing and asks every sentence, not their
sum, for enough words. So a batch is taken as a text (Watanabe et al. 2007), as the best translations make it, and a
translation is worth what the BLEU of that text becomes if it stands there instead.

B sources  N statistics of a sentence, which are added up for a text
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU, BLEUScore

from regard.tasks import TranslationModel
from regard.training.minimum_risk import Said

SPARE = 20
"""Tokens that a translation may have more than the longest target of its batch: not all models know when to stop."""

Statistics = NDArray[np.float64]


class SampleRewards:
    """Sources and targets in tokens -> the best few translations that a beam search finds for each source."""

    def __init__(self, translator: TranslationModel, count: int) -> None:
        self.translator, self.count = translator, count
        self.metric = BLEU(effective_order=True)

    def __call__(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[Said]]:
        self.translator.network.eval()
        longest = max(map(len, targets)) + SPARE
        found = self.translator.hypotheses(
            sources, beam=self.count, n_best=self.count, length_penalty=1.0, max_new=longest
        )
        decode = self.translator.tokenizer.decode
        scores = []
        for hypotheses, target in zip(found, targets, strict=True):
            wanted = [decode(target)]
            scores.append([self.metric.sentence_score(decode(one.tokens), wanted) for one in hypotheses])
        return [
            [(one.said, worth) for one, worth in zip(hypotheses, own, strict=True)]
            for hypotheses, own in zip(found, worths(scores), strict=True)
        ]


def worths(scores: Sequence[Sequence[BLEUScore]]) -> list[list[float]]:
    """Of translations of a text's sentences, each sentence's in the order in which they would be taken.

    A sentence's share in the BLEU of the text is small. It is made as large as if the whole text were such a sentence.
    """
    rows = [np.array([_statistics(one) for one in own]) for own in scores]
    text_N = np.sum([own[0] for own in rows], axis=0)
    now = float(_bleu(text_N))
    # the last number is the target's length
    return [(now + (_bleu(text_N - own[0] + own) - now) * text_N[-1] / max(own[0, -1], 1.0)).tolist() for own in rows]


def _statistics(score: BLEUScore) -> list[float]:
    return [*score.counts, *score.totals, score.sys_len, score.ref_len]


def _bleu(statistics: Statistics) -> Statistics:
    """In 0 … 1. One is added to all numbers of n-grams: nothing for a batch, but a few short sentences have none."""
    right, all_, length, wanted = np.split(statistics, (4, 8, 9), axis=-1)
    brevity = np.minimum(0.0, 1.0 - wanted / np.maximum(length, 1.0))[..., 0]
    found: Statistics = np.exp(np.log((right + 1) / (all_ + 1)).mean(-1) + brevity)
    return found
