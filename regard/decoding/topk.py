"""Logits of the next token -> its best continuations and their log-probabilities, in few passes over the vocabulary.

R rows  V vocabulary  C the best  N chunks of the vocabulary
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decoding.hypothesis import BROKEN_LOGITS
from regard.decoding.rules import Rule, Suppress, apply
from regard.decoding.search_protocol import NO_TOKEN, TopK
from regard.errors import ModelError

MAX_KERNEL_COUNT = 64
"""A top-k kernel keeps its results sorted as it goes, which pays for this many at most."""
CHUNK = 64
"""Tokens per chunk: the best C tokens are in the C chunks with the largest maxima."""


class NextTokenScores:
    """What the model and the rules make of every next token. Log-probabilities are computed where they are needed.

    Where `forced` holds a token, every other token is excluded, and its score is the model's own.
    """

    def __init__(
        self,
        logits_RV: Tensor,
        seen_RL: Tensor,
        rules: Sequence[Rule],
        forced_R: Tensor | None,
        *,
        count: int,
        topk: TopK | None = None,
    ) -> None:
        """`count` is how many of the best will be asked for."""
        self._logits_RV = logits_RV = logits_RV.float().contiguous()
        # A few suppressed tokens are skipped among the best: cheaper than a copy of the logits without them.
        short = [rule for rule in rules if isinstance(rule, Suppress) and rule.is_short]
        self._suppressed = sorted({token for rule in short for token in rule.at(seen_RL)})
        others = [rule for rule in rules if rule not in short]
        self._best: tuple[Tensor, Tensor] | None = None
        count = min(count + len(self._suppressed), logits_RV.shape[1])
        # the log-sum-exp of a row is max + rest
        if topk is not None:
            plain = not others and forced_R is None and count <= MAX_KERNEL_COUNT
            max_R, rest_R, *best = topk(logits_RV, count if plain else 1)
            self._max_R1, self._rest_R1 = max_R[:, None], rest_R[:, None]
            self._best = (best[0], best[1]) if plain else None
        else:
            self._max_R1 = logits_RV.amax(-1, keepdim=True)
            self._rest_R1 = (logits_RV - self._max_R1).exp_().sum(-1, keepdim=True).log_()
        if not self._rest_R1.isfinite().all():
            raise ModelError(BROKEN_LOGITS)
        self._ruled_RV = apply(others, logits_RV, seen_RL)
        if forced_R is not None:
            tokens_V = torch.arange(logits_RV.shape[1], device=logits_RV.device)
            only_RV = logits_RV.masked_fill(tokens_V != forced_R[:, None], -torch.inf)
            self._ruled_RV = torch.where(forced_R[:, None] == NO_TOKEN, self.ruled_logits(), only_RV)
            self._suppressed = []

    @property
    def rows(self) -> int:
        return len(self._logits_RV)

    def ruled_logits(self) -> Tensor:
        """All logits after the rules. -> (R, V)"""
        if not self._suppressed:
            return self._ruled_RV
        suppressed = torch.tensor(self._suppressed, device=self._ruled_RV.device)
        return self._ruled_RV.index_fill(1, suppressed, -torch.inf)

    def best(self, count: int) -> tuple[Tensor, Tensor]:
        """Each row's best tokens after the rules: their log-probabilities and their ids. -> 2 x (R, C)"""
        wider = count + len(self._suppressed)
        logits_RC, tokens_RC = best_of_many(self._ruled_RV, wider) if self._best is None else self._best
        if self._suppressed:
            logits_RC, order_RC = best(self._without_suppressed(logits_RC, tokens_RC), count)
            tokens_RC = tokens_RC.gather(1, order_RC)
        return logits_RC - self._max_R1 - self._rest_R1, tokens_RC

    def log_probs(self, rows: Tensor, tokens: Tensor) -> Tensor:
        """The model's log-probabilities of these tokens of these rows, before any rule."""
        return self._logits_RV[rows, tokens] - self._max_R1[rows, 0] - self._rest_R1[rows, 0]

    def ruled_log_probs(self, rows: Tensor, tokens: Tensor) -> Tensor:
        """The same after the rules."""
        ruled = self._ruled_RV[rows, tokens] - self._max_R1[rows, 0] - self._rest_R1[rows, 0]
        return self._without_suppressed(ruled, tokens)

    def _without_suppressed(self, values: Tensor, tokens: Tensor) -> Tensor:
        if not self._suppressed:
            return values
        return values.masked_fill(torch.isin(tokens, torch.tensor(self._suppressed, device=tokens.device)), -torch.inf)


def best(values_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row, largest first, and their indices; of equals the first. (`topk` takes any.)"""
    count = min(count, values_RV.shape[1])
    floor_R1 = values_RV.topk(count).values[:, -1:]
    taken_RV = values_RV >= floor_R1
    if taken_RV.sum() > len(values_RV) * count:
        at_floor_RV = values_RV == floor_R1
        left_R1 = count - (taken_RV & ~at_floor_RV).sum(1, keepdim=True)
        taken_RV &= ~at_floor_RV | (at_floor_RV.cumsum(1) <= left_R1)
    indices_RC = taken_RV.nonzero()[:, 1].view(len(values_RV), count)
    values_RC, order_RC = values_RV.gather(1, indices_RC).sort(dim=1, descending=True, stable=True)
    return values_RC, indices_RC.gather(1, order_RC)


def best_of_many(values_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`best` for long rows: one pass for the maximum of each chunk, then only the chunks that can matter."""
    rows, vocab = values_RV.shape
    if vocab < 4 * CHUNK * count:
        return best(values_RV, count)
    whole = vocab // CHUNK * CHUNK
    maxima_RN = values_RV[:, :whole].view(rows, -1, CHUNK).amax(-1)
    # in order, so that the first of equals stays the first
    chunks_RC = best(maxima_RN, count)[1].sort(dim=1).values
    tokens_V = torch.arange(vocab, device=values_RV.device)
    inside = (chunks_RC[:, :, None] * CHUNK + tokens_V[:CHUNK]).flatten(1)
    indices = torch.cat((inside, tokens_V[whole:].expand(rows, -1)), dim=1)
    values_RC, order_RC = best(values_RV.gather(1, indices), count)
    return values_RC, indices.gather(1, order_RC)
