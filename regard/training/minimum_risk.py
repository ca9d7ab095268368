"""Minimum risk training (Shen et al. 2016, Edunov et al. 2018): train on the model's own translations.

For each source, a beam search finds the best few translations of the current model, and each gets a reward: its BLEU
against the target. With q the model's probabilities of these translations, normalized to sum to 1,

    risk = sum over them of q (1 - reward)

falls when probability moves from the worse translations to the better ones. The search ranks by the mean over tokens,
and so does q; the mean is multiplied by the average length, which makes it a log-probability again.

B sources  K translations of each  L longest translation  R all their tokens
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import overload

import numpy as np
import torch
from torch import Tensor

from regard.data.batching import Batch, collate
from regard.data.corpus import Ragged
from regard.models.seq2seq import Memory, Seq2Seq
from regard.training.losses import TranslationLoss, projected_log_probs

Sample = tuple[Sequence[int], float]
"""A translation as tokens, its end included, and its reward: 1 is as good as the target, 0 is worthless."""
SampleTranslations = Callable[[list[list[int]], list[list[int]]], Sequence[Sequence[Sample]]]
"""Sources and targets as tokens -> the model's translations of each source, with their rewards."""


@dataclass(frozen=True, kw_only=True)
class RewardedBatch(Batch):
    """A batch with translations sampled from the model for each of its sources."""

    samples_BKL: Tensor
    sample_labels_BKL: Tensor
    sample_present_BKL: Tensor
    """All False for a missing translation, where the search found fewer."""
    reward_BK: Tensor


class MinimumRiskLoss(TranslationLoss):
    """(1 - weight) x cross-entropy + weight x risk. A batch without rewards has the cross-entropy alone."""

    def __init__(self, model: Seq2Seq, smoothing: float, weight: float) -> None:
        super().__init__(model, smoothing)
        self.weight = weight

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        memory = self.model.encode(batch.source_BS, batch.source_present_BS)
        loss, log_likelihood = self.cross_entropy(batch, memory)
        if isinstance(batch, RewardedBatch):
            loss = (1 - self.weight) * loss + self.weight * self.risk(batch, memory)
        return loss, log_likelihood

    def risk(self, batch: RewardedBatch, memory: Memory) -> Tensor:
        """The risk summed over sources, each weighted by the number of tokens of its target."""
        samples_RL, labels_RL, present_RL = (
            each.flatten(0, 1) for each in (batch.samples_BKL, batch.sample_labels_BKL, batch.sample_present_BKL)
        )
        states_RLD = self.model.states(samples_RL, memory, present_RL)
        states_RD, labels_R = states_RLD[present_RL].float(), labels_RL[present_RL]
        output = self.model.output
        with torch.autocast(states_RD.device.type, enabled=False):
            log_probs_R = projected_log_probs(states_RD, output.weight, output.bias, labels_R, bf16=self.bf16)
        log_probs_RL = log_probs_R.new_zeros(present_RL.shape).masked_scatter(present_RL, log_probs_R)
        risk_B = risk(log_probs_RL.view(batch.samples_BKL.shape), batch.sample_present_BKL, batch.reward_BK)
        return (risk_B * batch.target_present_BL.sum(1)).sum()


def risk(log_probs_BKL: Tensor, present_BKL: Tensor, reward_BK: Tensor) -> Tensor:
    """The risk of each source, from the log-probabilities of the tokens of its translations. -> (B,)"""
    lengths_BK = present_BKL.sum(2)
    found_BK = lengths_BK > 0
    mean_length_B1 = lengths_BK.sum(1, keepdim=True) / found_BK.sum(1, keepdim=True).clamp(min=1)
    scores_BK = log_probs_BKL.sum(2) / lengths_BK.clamp(min=1) * mean_length_B1
    q_BK = scores_BK.masked_fill(~found_BK, torch.finfo(scores_BK.dtype).min).softmax(1)
    return (q_BK * (1 - reward_BK)).sum(1)


def with_rewards(batch: Batch, sample: SampleTranslations, *, start: int, pad: int) -> RewardedBatch:
    """Sample translations for the sources of a batch and add them to it."""
    sources, targets = (
        [row[present].tolist() for row, present in zip(*side, strict=True)]
        for side in ((batch.source_BS, batch.source_present_BS), (batch.labels_BL, batch.target_present_BL))
    )
    found = sample(sources, targets)
    width = max(map(len, found))
    missing: Sample = ([], 0.0)
    samples = [one for row in found for one in [*row, *[missing] * (width - len(row))]]
    flat = np.array([token for tokens, _ in samples for token in tokens], dtype=np.int64)
    rows = Ragged(flat, np.array([len(tokens) for tokens, _ in samples]))
    collated = collate(rows, rows, np.arange(len(samples)), start=start, pad=pad)
    return RewardedBatch(
        **{field.name: getattr(batch, field.name) for field in fields(Batch)},
        samples_BKL=collated.target_BL.view(len(found), width, -1),
        sample_labels_BKL=collated.labels_BL.view(len(found), width, -1),
        sample_present_BKL=collated.target_present_BL.view(len(found), width, -1),
        reward_BK=torch.tensor([reward for _, reward in samples]).view(len(found), width),
    )


class RewardedBatches(Sequence[RewardedBatch]):
    """The batches of an epoch. Each samples its translations when it is taken, with the weights of that moment."""

    def __init__(self, batches: Sequence[Batch], sample: SampleTranslations, *, start: int, pad: int) -> None:
        self._with_rewards = partial(with_rewards, sample=sample, start=start, pad=pad)
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    @overload
    def __getitem__(self, number: int) -> RewardedBatch: ...
    @overload
    def __getitem__(self, number: slice) -> list[RewardedBatch]: ...
    def __getitem__(self, number: int | slice) -> RewardedBatch | list[RewardedBatch]:
        if isinstance(number, slice):
            return [self._with_rewards(batch) for batch in self._batches[number]]
        return self._with_rewards(self._batches[number])
