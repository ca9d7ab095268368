"""Log-probabilities of a given text: teacher forcing.

B texts  L target length, with the end token  V vocabulary
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search_protocol import NO_TOKEN
from regard.decoding.settings import SearchSettings


def log_probs(logits_BLV: Tensor, targets_BL: Tensor) -> Tensor:
    """Of each target token, from the logits at its position; 0 where the target is `NO_TOKEN`. -> (B, L)"""
    log_probs_BLV = logits_BLV.float().log_softmax(-1)
    log_probs_BL = log_probs_BLV.gather(2, targets_BL.clamp(min=0)[..., None])[..., 0]
    return log_probs_BL.masked_fill(targets_BL == NO_TOKEN, 0.0)


def scored(
    logits_BLV: Tensor, targets: Sequence[Sequence[int]], settings: SearchSettings, *, end: Sequence[int] = ()
) -> list[Hypothesis]:
    """Each target as the hypothesis that a search would return.

    `logits[:, i]` predict token i of the target; a target that ended has its end token last.
    """
    padded = [[*target, *[NO_TOKEN] * (logits_BLV.shape[1] - len(target))] for target in targets]
    targets_BL = torch.tensor(padded, dtype=torch.long, device=logits_BLV.device).view(logits_BLV.shape[:2])
    hypotheses = []
    for target, scores in zip(targets, log_probs(logits_BLV, targets_BL).tolist(), strict=True):
        kept = scores[: len(target)]
        hypotheses.append(Hypothesis.of(target, kept, sum(kept), settings, end))
    return hypotheses
