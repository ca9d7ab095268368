"""Which token may come next: small pure functions from logits to logits, applied in the order of a list.

A rule sees the logits of the next token and all tokens before it (prompt and generated), with `NO_TOKEN` for padding.
It excludes tokens (minus infinity) or changes their logits; it knows neither model nor text. Searches rank by the
logits after the rules minus the *model's own* log-sum-exp, so a rule that only excludes leaves other scores alone.

B rows  L prompt and generated tokens  V vocabulary  N one n-gram  W windows of N
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.search_protocol import NO_TOKEN, Prompts
from regard.decoding.settings import SearchSettings

Rule = Callable[[Tensor, Tensor], Tensor]
"""(logits (B, V), seen (B, L)) -> logits (B, V); neither argument is changed."""


def rules_for(settings: SearchSettings, prompts: Prompts) -> list[Rule]:
    """The rules of every search, in order: penalties on the model's logits first, then exclusions."""
    s, prompt = settings, prompts.length
    rules: list[tuple[bool, Rule]] = [
        (s.repetition_penalty != 1.0, repetition(s.repetition_penalty)),
        (s.frequency_penalty != 0.0, frequency(s.frequency_penalty, prompt)),
        (s.presence_penalty != 0.0, presence(s.presence_penalty, prompt)),
        (len(s.boost) > 0, boost(s.boost, prompt)),
        (s.no_repeat_ngram > 0, no_repeat_ngram(s.no_repeat_ngram)),
        (len(prompts.suppressed) > 0, suppress(prompts.suppressed)),
        (s.min_tokens > 0, min_tokens(s.min_tokens, prompts.end, prompt)),
    ]
    return [rule for wanted, rule in rules if wanted]


def sampling_rules(settings: SearchSettings) -> list[Rule]:
    """What shapes the distribution that sampling draws from, in order, after all other rules."""
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
    """CTRL's (Keskar et al. 2019): the logit of a token seen before is divided, or multiplied if negative."""

    def rule(logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
        seen_BV = count(seen_BL, logits_BV.shape[1]) > 0
        lowered_BV = torch.where(logits_BV > 0, logits_BV / penalty, logits_BV * penalty)
        return torch.where(seen_BV, lowered_BV, logits_BV)

    return rule


def frequency(penalty: float, after: int = 0) -> Rule:
    """OpenAI's: subtracts the penalty for each time a token was generated; the first `after` tokens are the prompt."""

    def rule(logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
        return logits_BV - penalty * count(seen_BL[:, after:], logits_BV.shape[1])

    return rule


def presence(penalty: float, after: int = 0) -> Rule:
    """OpenAI's: subtracts the penalty once from every token that was generated."""

    def rule(logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
        return logits_BV - penalty * (count(seen_BL[:, after:], logits_BV.shape[1]) > 0)

    return rule


START_BOOST, CONTINUE_BOOST = 3.0, 10.0
"""Added to the logits of a boosted phrase's first token and of the others: twenty times likelier, then certain."""


def boost(phrases: Sequence[Sequence[int]], after: int = 0) -> Rule:
    """Makes each phrase (a run of tokens) likelier until it occurs; the first `after` tokens are the prompt."""

    def rule(logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
        more_BV = torch.zeros_like(logits_BV)
        for row, generated in enumerate(seen_BL[:, after:].tolist()):
            for phrase in map(tuple, phrases):
                length = len(phrase)
                if any(tuple(generated[i : i + length]) == phrase for i in range(len(generated) - length + 1)):
                    continue
                begun = max(n for n in range(length) if n == 0 or tuple(generated[-n:]) == phrase[:n])
                more_BV[row, phrase[begun]] += CONTINUE_BOOST if begun else START_BOOST
        return logits_BV + more_BV

    return rule


# ---- exclusions ----


def no_repeat_ngram(n: int) -> Rule:
    """Excludes a token that would complete an n-gram that was seen before."""

    def rule(logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
        if seen_BL.shape[1] < n:
            return logits_BV
        windows_BWN = seen_BL.unfold(1, n, 1)
        tail_B1N = seen_BL[:, None, seen_BL.shape[1] - n + 1 :]
        again_BW = (windows_BWN[..., :-1] == tail_B1N).all(-1) & (windows_BWN != NO_TOKEN).all(-1)
        excluded_BW = windows_BWN[..., -1].masked_fill(~again_BW, NO_TOKEN)
        return logits_BV.masked_fill(count(excluded_BW, logits_BV.shape[1]) > 0, -torch.inf)

    return rule


@dataclass(frozen=True)
class Suppress:
    """Excludes these tokens; with `until`, only until that many were generated, the first `after` being the prompt."""

    tokens: tuple[int, ...]
    until: int | None = None
    after: int = 0

    def __call__(self, logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
        excluded = torch.tensor(self.at(seen_BL), dtype=torch.long, device=logits_BV.device)
        return logits_BV.index_fill(1, excluded, -torch.inf)

    def at(self, seen_BL: Tensor) -> tuple[int, ...]:
        """The tokens excluded after these."""
        return self.tokens if self.until is None or seen_BL.shape[1] - self.after < self.until else ()

    @property
    def is_short(self) -> bool:
        return len(self.tokens) <= 8


def suppress(tokens: Sequence[int]) -> Rule:
    """Excludes these tokens."""
    return Suppress(tuple(tokens))


def min_tokens(n: int, end: Sequence[int], after: int = 0) -> Rule:
    """No end token before n tokens were generated."""
    return Suppress(tuple(end), until=n, after=after)


# ---- sampling ----


def temperature(t: float) -> Rule:
    """Probabilities to the power of 1 / t."""
    return lambda logits_BV, seen_BL: logits_BV / t


def top_k(k: int) -> Rule:
    """Keeps the k likeliest tokens, and those exactly as likely as the last of them."""

    def rule(logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
        floor_B1 = logits_BV.topk(min(k, logits_BV.shape[1])).values[:, -1:]
        return logits_BV.masked_fill(logits_BV < floor_B1, -torch.inf)

    return rule


def top_p(p: float) -> Rule:
    """Keeps the fewest likeliest tokens whose probabilities sum to p or more (nucleus, Holtzman et al. 2020)."""

    def rule(logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
        probs_BV, order_BV = logits_BV.softmax(-1).sort(descending=True, stable=True)
        before_BV = probs_BV.cumsum(-1) - probs_BV
        excluded_BV = (before_BV >= p).index_fill(1, torch.zeros(1, dtype=torch.long, device=logits_BV.device), False)
        return logits_BV.masked_fill(torch.zeros_like(excluded_BV).scatter(1, order_BV, excluded_BV), -torch.inf)

    return rule


def min_p(p: float) -> Rule:
    """Keeps tokens of at least p times the likeliest one's probability."""

    def rule(logits_BV: Tensor, seen_BL: Tensor) -> Tensor:
        floor_B1 = logits_BV.amax(-1, keepdim=True) + math.log(p)
        return logits_BV.masked_fill(logits_BV < floor_B1, -torch.inf)

    return rule


def count(tokens_BL: Tensor, vocab: int) -> Tensor:
    """How often each token of the vocabulary occurs, `NO_TOKEN` left out. -> (B, V)"""
    indices_BL = tokens_BL.masked_fill(tokens_BL == NO_TOKEN, vocab)  # one column more, which is cut off again
    counts = torch.zeros(len(tokens_BL), vocab + 1, dtype=torch.long, device=tokens_BL.device)
    return counts.scatter_add_(1, indices_BL, torch.ones_like(indices_BL))[:, :vocab]
