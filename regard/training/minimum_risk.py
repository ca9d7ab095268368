"""Minimum risk (Shen et al. 2016, Edunov et al. 2018): to learn from what one writes, not only from what one should.

For each source a search finds the best few translations of the model as it stands, and each is compared with the
target. With q the model's probabilities of them, made to add up to 1, and worth their BLEU,

    risk = sum over them of q (1 - worth)

falls when probability moves from the worse to the better ones. The search ranks by the mean over tokens, and so does q;
it is multiplied by their usual length, which makes it a log-probability again.

B sources  K translations of each  L longest of them  R all their tokens
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import overload

import numpy as np
import torch
from torch import Tensor

from regard.data.batching import Batch, collate
from regard.data.ragged import Ragged

Said = tuple[Sequence[int], float]
"""A translation in tokens, its end included, and what it is worth: 1 is as good as the target, 0 is nothing."""
Propose = Callable[[list[list[int]], list[list[int]]], Sequence[Sequence[Said]]]
"""Sources and targets in tokens -> what the model writes for each source."""


@dataclass(frozen=True, kw_only=True)
class RewardedBatch(Batch):
    """A batch with what the model wrote for each of its sources."""

    said_BKL: Tensor
    said_labels_BKL: Tensor
    said_present_BKL: Tensor
    """Nowhere for a translation that is missing, where fewer were found."""
    worth_BK: Tensor


def with_rewards(batch: Batch, propose: Propose, *, start: int, pad: int) -> RewardedBatch:
    sources, targets = (
        [row[there].tolist() for row, there in zip(*side, strict=True)]
        for side in ((batch.source_BS, batch.source_present_BS), (batch.labels_BL, batch.target_present_BL))
    )
    found = propose(sources, targets)
    width = max(map(len, found))
    missing: Said = ([], 0.0)
    every = [one for row in found for one in [*row, *[missing] * (width - len(row))]]
    flat = np.array([token for said, _ in every for token in said], dtype=np.int64)
    rows = Ragged(flat, np.array([len(said) for said, _ in every]))
    said = collate(rows, rows, np.arange(len(every)), start=start, pad=pad)
    return RewardedBatch(
        **{field.name: getattr(batch, field.name) for field in fields(Batch)},
        said_BKL=said.target_BL.view(len(found), width, -1),
        said_labels_BKL=said.labels_BL.view(len(found), width, -1),
        said_present_BKL=said.target_present_BL.view(len(found), width, -1),
        worth_BK=torch.tensor([worth for _, worth in every]).view(len(found), width),
    )


class RewardedBatches(Sequence[RewardedBatch]):
    """The batches of an epoch, each judged when it is asked for: what is judged are the weights of that moment."""

    def __init__(self, batches: Sequence[Batch], propose: Propose, *, start: int, pad: int) -> None:
        self._judged = partial(with_rewards, propose=propose, start=start, pad=pad)
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    @overload
    def __getitem__(self, number: int) -> RewardedBatch: ...
    @overload
    def __getitem__(self, number: slice) -> list[RewardedBatch]: ...
    def __getitem__(self, number: int | slice) -> RewardedBatch | list[RewardedBatch]:
        if isinstance(number, slice):
            return [self._judged(batch) for batch in self._batches[number]]
        return self._judged(self._batches[number])


def risk(own_BKL: Tensor, present_BKL: Tensor, worth_BK: Tensor) -> Tensor:
    """Of each source, from the log-probabilities of the tokens of what was written for it. -> (B,)"""
    lengths_BK = present_BKL.sum(2)
    there_BK = lengths_BK > 0
    usual_B1 = lengths_BK.sum(1, keepdim=True) / there_BK.sum(1, keepdim=True).clamp(min=1)
    scores_BK = own_BKL.sum(2) / lengths_BK.clamp(min=1) * usual_B1
    q_BK = scores_BK.masked_fill(~there_BK, torch.finfo(scores_BK.dtype).min).softmax(1)
    return (q_BK * (1 - worth_BK)).sum(1)
