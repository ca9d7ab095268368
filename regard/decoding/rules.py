"""What may be said next: small pure functions from logits to logits, applied in the order of a list.

A rule sees the logits of the next token and what was read and said before, with `NOTHING` for padding. It forbids
(minus infinity) or changes; it knows neither model nor text. The searches rank by what the rules leave, minus the
*model's own* normaliser, so a rule that only forbids leaves the scores of what it allows as they were.

B rows  L read and said so far  V vocabulary  N one n-gram  W windows of N
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.request import NOTHING, Prompts
from regard.decoding.settings import SearchSettings

Rule = Callable[[Tensor, Tensor], Tensor]
"""(logits (B, V), seen (B, L)) -> logits (B, V); neither argument is changed."""


def rules_for(settings: SearchSettings, opening: Prompts) -> list[Rule]:
    """What every search obeys, in order: penalties on the model's logits first, then what is forbidden."""
    s, said_after = settings, opening.read
    rules: list[tuple[bool, Rule]] = [
        (s.repetition_penalty != 1.0, repetition(s.repetition_penalty)),
        (s.frequency_penalty != 0.0, frequency(s.frequency_penalty, said_after)),
        (s.presence_penalty != 0.0, presence(s.presence_penalty, said_after)),
        (len(s.favour) > 0, favour(s.favour, said_after)),
        (s.no_repeat_ngram > 0, no_repeat_ngram(s.no_repeat_ngram)),
        (len(opening.never) > 0, forbid(opening.never)),
        (s.min_new > 0, min_new(s.min_new, opening.end, said_after)),
    ]
    return [rule for wanted, rule in rules if wanted]


def drawing_rules(settings: SearchSettings) -> list[Rule]:
    """What sampling draws from, in order, after all other rules."""
    s = settings
    rules: list[tuple[bool, Rule]] = [
        (s.temperature not in (0.0, 1.0), temperature(s.temperature)),
        (s.top_k > 0, top_k(s.top_k)),
        (s.top_p < 1.0, top_p(s.top_p)),
        (s.min_p > 0.0, min_p(s.min_p)),
    ]
    return [rule for wanted, rule in rules if wanted]


def apply(rules: Sequence[Rule], logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
    for rule in rules:
        logits_BV = rule(logits_BV, seen_BL)
    return logits_BV


# ---- penalties ----


def repetition(penalty: float) -> Rule:
    """CTRL's (Keskar et al. 2019): a token that was read or said has its logit divided, or multiplied if negative."""

    def rule(logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
        seen_BV = count(seen_BL, logits_BV.shape[1]) > 0
        lowered_BV = torch.where(logits_BV > 0, logits_BV / penalty, logits_BV * penalty)
        return torch.where(seen_BV, lowered_BV, logits_BV)

    return rule


def frequency(penalty: float, after: int = 0) -> Rule:
    """OpenAI's: so much less for each time that a token was said. What was read, the first `after`, is not counted."""

    def rule(logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
        return logits_BV - penalty * count(seen_BL[:, after:], logits_BV.shape[1])

    return rule


def presence(penalty: float, after: int = 0) -> Rule:
    """OpenAI's: so much less for a token that was said, however often."""

    def rule(logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
        return logits_BV - penalty * (count(seen_BL[:, after:], logits_BV.shape[1]) > 0)

    return rule


BEGIN, GO_ON = 3.0, 10.0
"""Added to the logit of a favoured run's first token and of its others: twenty times likelier, then as good as sure."""


def favour(runs: Sequence[Sequence[int]], after: int = 0) -> Rule:
    """Each run of tokens is made likelier until it was said; what was read, the first `after`, is not counted."""

    def rule(logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
        more_BV = torch.zeros_like(logits_BV)
        for row, said in enumerate(seen_BL[:, after:].tolist()):
            for run in runs:
                wanted, length = tuple(run), len(run)
                if any(tuple(said[i : i + length]) == wanted for i in range(len(said) - length + 1)):
                    continue
                begun = max(n for n in range(length) if n == 0 or tuple(said[-n:]) == wanted[:n])
                more_BV[row, wanted[begun]] += GO_ON if begun else BEGIN
        return logits_BV + more_BV

    return rule


# ---- what is forbidden ----


def no_repeat_ngram(n: int) -> Rule:
    """No token that would complete a run of n tokens that was read or said before."""

    def rule(logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
        if seen_BL.shape[1] < n:
            return logits_BV
        windows_BWN = seen_BL.unfold(1, n, 1)
        tail_B1N = seen_BL[:, None, seen_BL.shape[1] - n + 1 :]
        again_BW = (windows_BWN[..., :-1] == tail_B1N).all(-1) & (windows_BWN != NOTHING).all(-1)
        banned_BW = windows_BWN[..., -1].masked_fill(~again_BW, NOTHING)
        return logits_BV.masked_fill(count(banned_BW, logits_BV.shape[1]) > 0, -torch.inf)

    return rule


@dataclass(frozen=True)
class Forbid:
    """None of these tokens; with `until`, only until so many were said, not counting the first `after`."""

    tokens: tuple[int, ...]
    until: int | None = None
    after: int = 0

    def __call__(self, logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
        banned = torch.tensor(self.at(seen_BL), dtype=torch.long, device=logits_BV.device)
        return logits_BV.index_fill(1, banned, -torch.inf)

    def at(self, seen_BL: Tensor) -> tuple[int, ...]:
        """What is forbidden after these."""
        return self.tokens if self.until is None or seen_BL.shape[1] - self.after < self.until else ()

    @property
    def few(self) -> bool:
        return len(self.tokens) <= 8


def forbid(tokens: Sequence[int]) -> Rule:
    """None of these tokens."""
    return Forbid(tuple(tokens))


def min_new(n: int, end: Sequence[int], after: int = 0) -> Rule:
    """No end before n tokens were said."""
    return Forbid(tuple(end), until=n, after=after)


# ---- what is drawn from ----


def temperature(t: float) -> Rule:
    """Probabilities to the power of 1 / t."""
    return lambda logits_BV, seen_BL: logits_BV / t


def top_k(k: int) -> Rule:
    """The k likeliest tokens, and those that are just as likely as the last of them."""

    def rule(logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
        floor_B1 = logits_BV.topk(min(k, logits_BV.shape[1])).values[:, -1:]
        return logits_BV.masked_fill(logits_BV < floor_B1, -torch.inf)

    return rule


def top_p(p: float) -> Rule:
    """The fewest likeliest tokens that have at least p of the probability together (nucleus, Holtzman et al. 2020)."""

    def rule(logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
        chances_BV, order_BV = logits_BV.softmax(-1).sort(descending=True, stable=True)
        before_BV = chances_BV.cumsum(-1) - chances_BV
        spare_BV = (before_BV >= p).index_fill(1, torch.zeros(1, dtype=torch.long, device=logits_BV.device), False)
        return logits_BV.masked_fill(torch.zeros_like(spare_BV).scatter(1, order_BV, spare_BV), -torch.inf)

    return rule


def min_p(p: float) -> Rule:
    """The tokens that have at least p times the likeliest one's probability."""

    def rule(logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
        floor_B1 = logits_BV.amax(-1, keepdim=True) + math.log(p)
        return logits_BV.masked_fill(logits_BV < floor_B1, -torch.inf)

    return rule


def count(tokens_BL: Tensor, vocab: int) -> Tensor:
    """How often each token of the vocabulary is there, `NOTHING` left out. -> (B, V)"""
    places_BL = tokens_BL.masked_fill(tokens_BL == NOTHING, vocab)  # one column more, which is cut off again
    counts = torch.zeros(len(tokens_BL), vocab + 1, dtype=torch.long, device=tokens_BL.device)
    return counts.scatter_add_(1, places_BL, torch.ones_like(places_BL))[:, :vocab]
