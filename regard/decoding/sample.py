"""Sampling: each next token drawn from the probabilities, as sharp and as short-tailed as the settings want them.

Each text has a random generator of its own, on the CPU: what it draws depends on its seed alone, not on its
neighbours, nor on how long they are, nor on the device.

R rows  V vocabulary
"""

import hashlib
import secrets
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.request import Prompts, SearchLoop, Step, run_search
from regard.decoding.rules import Rule, apply, drawing_rules
from regard.decoding.settings import SearchSettings
from regard.decoding.token_loop import follow
from regard.decoding.topk import NextTokenScores


def sample(
    step: Step, opening: Prompts, settings: SearchSettings, *, rules: Sequence[Rule] | None = None
) -> list[list[Hypothesis]]:
    """`n_best` samples for each sentence, in the order in which they were drawn."""
    return run_search(sample_loop(opening, settings, rules=rules), step)


def sample_loop(opening: Prompts, settings: SearchSettings, *, rules: Sequence[Rule] | None = None) -> SearchLoop:
    assert settings.temperature > 0.0, "without a temperature there is nothing to draw"
    copies = settings.n_best
    seeds = opening.seeds
    if seeds is None:
        seeds = [seed_for(settings.seed) for _ in opening.first_BL]
    generators = [torch.Generator().manual_seed(seed_for(seed, [copy])) for seed in seeds for copy in range(copies)]
    drawing = drawing_rules(settings)

    def choose(weighed: NextTokenScores, writes: Sequence[int]) -> Tensor:
        points_R = torch.cat([torch.rand(1, generator=generators[text], dtype=torch.double) for text in writes])
        ruled_RV = weighed.ruled_logits()
        return draw(apply(drawing, ruled_RV, ruled_RV), points_R.to(ruled_RV.device))

    return follow(opening, settings, choose, rules=rules, copies=copies)


def draw(logits_RV: Tensor, points_R: Tensor) -> Tensor:
    """The token at which the summed probabilities pass a point in 0 … 1: never one without probability. -> (R)"""
    # in double: a vocabulary's worth of float32 additions would move the borders between tokens
    reached_RV = logits_RV.double().softmax(-1).nan_to_num(0.0).cumsum(-1)
    targets_R1 = points_R[:, None] * (1.0 - 1e-12) * reached_RV[:, -1:]  # below the last sum, come what may
    return torch.searchsorted(reached_RV, targets_R1, right=True)[:, 0].clamp(max=logits_RV.shape[1] - 1)


def seed_for(seed: int | None, ids: Sequence[int] = ()) -> int:
    """A text's own seed, from the one that was given and from what the text is: other texts draw other numbers."""
    if seed is None:
        return secrets.randbits(63)
    digest = hashlib.blake2b(repr((seed, *ids)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
