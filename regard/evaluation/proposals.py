"""What a model writes for a source by itself, and what it is worth: the BLEU of that sentence. For training/risk.py."""

from collections.abc import Sequence

from sacrebleu.metrics.bleu import BLEU

from regard.pipeline import Translator
from regard.training.risk import Said

SPARE = 20
"""Tokens that a translation may have more than the longest target of its batch: not all models know when to stop."""


class Proposals:
    """Sources and targets in tokens -> the best few translations that a beam search finds for each source."""

    def __init__(self, translator: Translator, count: int) -> None:
        self.translator, self.count = translator, count
        # of a short sentence that has no four words in a row, only what it has counts
        self.metric = BLEU(effective_order=True)

    def __call__(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[Said]]:
        self.translator.network.eval()
        longest = max(map(len, targets)) + SPARE
        found = self.translator.hypotheses(
            sources, beam=self.count, n_best=self.count, length_penalty=1.0, max_new=longest
        )
        decode = self.translator.tokenizer.decode
        judged: list[list[Said]] = []
        for hypotheses, target in zip(found, targets, strict=True):
            wanted = [decode(target)]
            worths = [self.metric.sentence_score(decode(one.tokens), wanted).score / 100 for one in hypotheses]
            judged.append([(one.said, worth) for one, worth in zip(hypotheses, worths, strict=True)])
        return judged
