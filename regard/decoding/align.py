"""Word alignments from cross-attention: the source word that each target word attends to most.

A decoder layer has a row of attention for each token that it reads: the start token and then the target. A target
token can be aligned by the row in which it is *read*, or by the one before, in which it is *written*. When it is read
the model knows the token, so that is the default; Chen et al. 2020 (Accurate Word Alignment Induction from Neural
Machine Translation) find it much better, and best in the third of six layers. When it is written, the layer before the
last is usually best (Garg et al. 2019). A shallow decoder differs: with two layers, the row that reads a token already
attends to what comes next, so the row that writes it is used. (Measured on names that occur in a sentence and in its
translation, with an early model of the box: 97 % right when written, 1 to 6 % when read.)

N layers  H heads  T target tokens  S source tokens
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor

When = Literal["read", "written"]
Link = tuple[int, int]
"""(position in the source, position in the target)"""

MIN_DEEP_LAYERS = 4
"""From this many decoder layers on, a token is best aligned when it is read."""
NO_WORD = -1
"""The word of a token that belongs to none: the end token, a language tag."""


def usual(layers: int) -> tuple[When, int | None]:
    """The `when` and `layer` for a decoder with this many layers: the defaults of `soft`, except for a shallow one."""
    return ("read", None) if layers >= MIN_DEEP_LAYERS else ("written", -1)


def soft(weights_NHTS: Tensor, *, when: When = "read", layer: int | None = None) -> Tensor:
    """How much each target token attends to each source token: the mean of one layer's heads. -> (T - 1, S)

    The weights have one row more than there are target tokens, for the start token. Negative `layer`s count from the
    last. The default is the middle one (the third of six) or, when written, the one before the last.
    """
    layers = len(weights_NHTS)
    if layer is None:
        layer = (layers - 1) // 2 if when == "read" else max(layers - 2, 0)
    average_TS = weights_NHTS[layer].float().mean(0)
    return average_TS[1:] if when == "read" else average_TS[:-1]


def of_words(soft_TS: Tensor, source_words: Sequence[int], target_words: Sequence[int]) -> Tensor:
    """From tokens to words, given each token's word or `NO_WORD`. -> (target words, source words)

    Attention to the tokens of a source word is summed; attention from the tokens of a target word is averaged.
    """
    return _membership(target_words, soft_TS, averaged=True) @ soft_TS @ _membership(source_words, soft_TS).T


def hard(soft_TS: Tensor) -> list[Link]:
    """Each target position with the source position it attends to most, the first of equals; none without attention."""
    most_T, sources_T = soft_TS.max(1) if soft_TS.numel() else (soft_TS.new_zeros(0), soft_TS.new_zeros(0))
    pairs = enumerate(zip(most_T.tolist(), sources_T.tolist(), strict=True))
    return sorted((int(source), target) for target, (most, source) in pairs if most > 0.0)


def moses(links: Iterable[Link]) -> str:
    """`0-0 1-2`: source-target, from 0, as Moses, fast_align and their successors write it."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def _membership(words: Sequence[int], like: Tensor, *, averaged: bool = False) -> Tensor:
    """1 where a token belongs to a word, or its share of the word if averaged. -> (words, tokens)"""
    words_T = torch.tensor(words, dtype=torch.long, device=like.device)
    belongs_WT = (torch.arange(max(words, default=NO_WORD) + 1, device=like.device)[:, None] == words_T).float()
    return belongs_WT / belongs_WT.sum(1, keepdim=True).clamp(min=1.0) if averaged else belongs_WT
