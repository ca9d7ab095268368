"""Sampling: each next token is drawn from the probabilities, shaped by temperature, top-k, top-p and min-p.

Each text has a random generator of its own, on the CPU: what it draws depends on its seed alone, not on its
neighbours, their length, or the device.

R rows  V vocabulary
"""

import hashlib
import secrets
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.rules import Rule, apply, sampling_rules
from regard.decoding.search_protocol import Prompts, SearchLoop, Step, run_search
from regard.decoding.settings import SearchSettings
from regard.decoding.token_loop import token_loop
from regard.decoding.topk import NextTokenScores


def sample(
    step: Step, prompts: Prompts, settings: SearchSettings, *, rules: Sequence[Rule] | None = None
) -> list[list[Hypothesis]]:
    """`n_best` samples of each text, in the order in which they were drawn."""
    return run_search(sample_loop(prompts, settings, rules=rules), step)


def sample_loop(prompts: Prompts, settings: SearchSettings, *, rules: Sequence[Rule] | None = None) -> SearchLoop:
    assert settings.temperature > 0.0, "sampling needs a temperature"
    copies = settings.n_best
    seeds = prompts.seeds
    if seeds is None:
        seeds = [seed_for(settings.seed) for _ in prompts.ids_BL]
    generators = [torch.Generator().manual_seed(seed_for(seed, [copy])) for seed in seeds for copy in range(copies)]
    shaping = sampling_rules(settings)

    def choose(scores: NextTokenScores, writes: Sequence[int]) -> Tensor:
        points_R = torch.cat([torch.rand(1, generator=generators[draft], dtype=torch.double) for draft in writes])
        ruled_RV = scores.ruled_logits()
        return draw(apply(shaping, ruled_RV, ruled_RV), points_R.to(ruled_RV.device))

    return token_loop(prompts, settings, choose, rules=rules, copies=copies)


def draw(logits_RV: Tensor, points_R: Tensor) -> Tensor:
    """The token at which the cumulative probability passes a point in 0 … 1; never one of probability 0. -> (R)"""
    # in double: float32 sums over a vocabulary would move the borders between tokens
    cumulative_RV = logits_RV.double().softmax(-1).nan_to_num(0.0).cumsum(-1)
    targets_R1 = points_R[:, None] * (1.0 - 1e-12) * cumulative_RV[:, -1:]  # always below the last sum
    return torch.searchsorted(cumulative_RV, targets_R1, right=True)[:, 0].clamp(max=logits_RV.shape[1] - 1)


def seed_for(seed: int | None, ids: Sequence[int] = ()) -> int:
    """A text's own seed, from the given seed and the text's tokens: other texts draw other numbers."""
    if seed is None:
        return secrets.randbits(63)
    digest = hashlib.blake2b(repr((seed, *ids)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
