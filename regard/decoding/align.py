"""Word alignments from cross-attention: which source word a target word looks at.

A decoder layer has a row of attention for each token that it reads: the start token and then the target. A target
token can be aligned by the row in which it is *read*, or by the one before, in which it is *written*. When it is read
the model knows the token, so that is the default; Chen et al. 2020 (Accurate Word Alignment Induction from Neural
Machine Translation) find it much the better one, best in the third of six layers. When it is written, the layer before
the last is commonly found best (Garg et al. 2019). A shallow decoder is another matter: with two layers, a token that
is read already looks for what comes next, so rows are taken when they write. (Measured on names that stand in a
sentence and in its translation, with an early model of the box: 97 % right when written, 1 to 6 % when read.)

N layers  H heads  T target tokens  S source tokens
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor

When = Literal["read", "written"]
Link = tuple[int, int]
"""(place in the source, place in the target)"""

DEEP = 4
"""Layers of a decoder from which on a token is best aligned when it is read."""
NO_WORD = -1
"""The word of a token that belongs to none: the end token, a language tag."""


def usual(layers: int) -> tuple[When, int | None]:
    """When and where to look in a decoder of so many layers: what `soft` does by itself, but for a shallow one."""
    return ("read", None) if layers >= DEEP else ("written", -1)


def soft(weights_NHTS: Tensor, *, when: When = "read", layer: int | None = None) -> Tensor:
    """How much each target token looks at each source token: one layer's heads, averaged. -> (T - 1, S)

    The weights have a row for the start token too, so one more than there are target tokens. `layer` is the middle one
    (the third of six) or, when written, the one before the last, unless given; negative ones count from the last.
    """
    layers = len(weights_NHTS)
    if layer is None:
        layer = (layers - 1) // 2 if when == "read" else max(layers - 2, 0)
    average_TS = weights_NHTS[layer].float().mean(0)
    return average_TS[1:] if when == "read" else average_TS[:-1]


def of_words(soft_TS: Tensor, source_words: Sequence[int], target_words: Sequence[int]) -> Tensor:
    """From tokens to words, given each token's word or `NO_WORD`. -> (target words, source words)

    What a word's tokens are looked at adds up; how a word's tokens look is averaged.
    """
    return _membership(target_words, soft_TS, averaged=True) @ soft_TS @ _membership(source_words, soft_TS).T


def hard(soft_TS: Tensor) -> list[Link]:
    """Each target place with the source place that it looks at most, the first of equals; none if it looks nowhere."""
    most_T, places_T = soft_TS.max(1) if soft_TS.numel() else (soft_TS.new_zeros(0), soft_TS.new_zeros(0))
    pairs = enumerate(zip(most_T.tolist(), places_T.tolist(), strict=True))
    return sorted((int(source), target) for target, (most, source) in pairs if most > 0.0)


def moses(links: Iterable[Link]) -> str:
    """`0-0 1-2`: source-target, from 0, as Moses, fast_align and their successors write it."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def _membership(words: Sequence[int], like: Tensor, *, averaged: bool = False) -> Tensor:
    """1 where a token is a word's, or its share of the word. -> (words, tokens)"""
    words_T = torch.tensor(words, dtype=torch.long, device=like.device)
    belongs_WT = (torch.arange(max(words, default=NO_WORD) + 1, device=like.device)[:, None] == words_T).float()
    return belongs_WT / belongs_WT.sum(1, keepdim=True).clamp(min=1.0) if averaged else belongs_WT
