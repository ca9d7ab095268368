"""Log-probabilities of a text that is given: the model reads it (teacher forcing), and is asked what it thinks of it.

B sentences  L target length, with the end token  V vocabulary
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.request import NOTHING
from regard.decoding.settings import SearchSettings


def log_probabilities(logits_BLV: Tensor, targets_BL: Tensor) -> Tensor:
    """Of each target token, from the logits at its place; 0 where the target is `NOTHING`. -> (B, L)"""
    own_BLV = logits_BLV.float().log_softmax(-1)
    own_BL = own_BLV.gather(2, targets_BL.clamp(min=0)[..., None])[..., 0]
    return own_BL.masked_fill(targets_BL == NOTHING, 0.0)


def scored(
    logits_BLV: Tensor, targets: Sequence[Sequence[int]], settings: SearchSettings, *, end: Sequence[int] = ()
) -> list[Hypothesis]:
    """Each target as the hypothesis that a search would have given, had it found it.

    `logits[:, i]` are those of the target's token i; a target that ended has its end token as the last one.
    """
    padded = [[*target, *[NOTHING] * (logits_BLV.shape[1] - len(target))] for target in targets]
    targets_BL = torch.tensor(padded, dtype=torch.long, device=logits_BLV.device).view(logits_BLV.shape[:2])
    hypotheses = []
    for target, own in zip(targets, log_probabilities(logits_BLV, targets_BL).tolist(), strict=True):
        own = own[: len(target)]
        hypotheses.append(Hypothesis.of(target, own, sum(own), settings, end))
    return hypotheses
