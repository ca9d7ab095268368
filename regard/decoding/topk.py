"""Logits of the next token -> the best of them and what they are worth, in few passes over the vocabulary.

R rows  V vocabulary  C the best  N chunks of the vocabulary
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decoding.hypothesis import BROKEN
from regard.decoding.request import NOTHING
from regard.decoding.rules import Forbid, Rule, apply
from regard.errors import ModelError
from regard.inference.native import kernels, tensors

FEW = 64
"""So many of the best are found by the compiled loop, which keeps them sorted as it goes."""
CHUNK = 64
"""Tokens whose greatest is looked for first: the best C tokens are in the C chunks that have the greatest ones."""


class NextTokenScores:
    """What the model and the rules make of every next token. A log-probability is computed where it is asked for.

    Where `forced` holds a token, nothing else is left, and it is left as the model sees it.
    """

    def __init__(
        self, logits_RV: Tensor, seen_RL: Tensor, rules: Sequence[Rule], forced_R: Tensor | None, *, wanted: int
    ) -> None:
        """`wanted` is how many of the best will be asked for."""
        self._own_RV = own_RV = logits_RV.float().contiguous()
        # A few forbidden tokens are passed over among the best: cheaper than a copy of the logits without them.
        bans = [rule for rule in rules if isinstance(rule, Forbid) and rule.few]
        self._banned = sorted({token for ban in bans for token in ban.at(seen_RL)})
        others = [rule for rule in rules if rule not in bans]
        self._best: tuple[Tensor, Tensor] | None = None
        # the normaliser of a row is most + rest
        asked = min(wanted + len(self._banned), own_RV.shape[1])
        if own_RV.device.type == "cpu" and kernels.available():
            plain = not others and forced_R is None and asked <= FEW
            most_R, rest_R, *found = tensors.topk(own_RV, asked if plain else 1)
            self._most_R1, self._rest_R1 = most_R[:, None], rest_R[:, None]
            self._best = (found[0], found[1]) if plain else None
        else:
            self._most_R1 = own_RV.amax(-1, keepdim=True)
            self._rest_R1 = (
                (own_RV - self._most_R1).exp_().sum(-1, keepdim=True).log_()
            )  # the normaliser is most + rest
        if not self._rest_R1.isfinite().all():
            raise ModelError(BROKEN)
        self._ruled_RV = apply(others, own_RV, seen_RL)
        if forced_R is not None:
            places_V = torch.arange(own_RV.shape[1], device=own_RV.device)
            only_RV = own_RV.masked_fill(places_V != forced_R[:, None], -torch.inf)
            self._ruled_RV = torch.where(forced_R[:, None] == NOTHING, self.ruled_logits(), only_RV)
            self._banned = []

    @property
    def rows(self) -> int:
        return len(self._own_RV)

    def ruled_logits(self) -> Tensor:
        """All that the rules left, as logits. -> (R, V)"""
        if not self._banned:
            return self._ruled_RV
        banned = torch.tensor(self._banned, device=self._ruled_RV.device)
        return self._ruled_RV.index_fill(1, banned, -torch.inf)

    def best(self, count: int) -> tuple[Tensor, Tensor]:
        """Each row's best tokens: their log-probabilities as the rules left them, and their numbers. -> 2 x (R, C)"""
        asked = count + len(self._banned)
        logits_RC, tokens_RC = best_of_many(self._ruled_RV, asked) if self._best is None else self._best
        if self._banned:
            logits_RC, order_RC = best(self._without_banned(logits_RC, tokens_RC), count)
            tokens_RC = tokens_RC.gather(1, order_RC)
        return logits_RC - self._most_R1 - self._rest_R1, tokens_RC

    def own(self, rows: Tensor, tokens: Tensor) -> Tensor:
        """The model's log-probabilities of these tokens of these rows, before any rule."""
        return self._own_RV[rows, tokens] - self._most_R1[rows, 0] - self._rest_R1[rows, 0]

    def ruled(self, rows: Tensor, tokens: Tensor) -> Tensor:
        """The same after the rules."""
        ruled = self._ruled_RV[rows, tokens] - self._most_R1[rows, 0] - self._rest_R1[rows, 0]
        return self._without_banned(ruled, tokens)

    def _without_banned(self, values: Tensor, tokens: Tensor) -> Tensor:
        if not self._banned:
            return values
        return values.masked_fill(torch.isin(tokens, torch.tensor(self._banned, device=tokens.device)), -torch.inf)


def best(values_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` greatest of each row, greatest first, and their places; of equals the first. (`topk` takes any.)"""
    count = min(count, values_RV.shape[1])
    floor_R1 = values_RV.topk(count).values[:, -1:]
    taken_RV = values_RV >= floor_R1
    if taken_RV.sum() > len(values_RV) * count:
        at_floor_RV = values_RV == floor_R1
        room_R1 = count - (taken_RV & ~at_floor_RV).sum(1, keepdim=True)
        taken_RV &= ~at_floor_RV | (at_floor_RV.cumsum(1) <= room_R1)
    places_RC = taken_RV.nonzero()[:, 1].view(len(values_RV), count)
    values_RC, order_RC = values_RV.gather(1, places_RC).sort(dim=1, descending=True, stable=True)
    return values_RC, places_RC.gather(1, order_RC)


def best_of_many(values_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`best`, for long rows: one pass for the greatest of each chunk, then only the chunks that can matter."""
    rows, vocab = values_RV.shape
    if vocab < 4 * CHUNK * count:
        return best(values_RV, count)
    whole = vocab // CHUNK * CHUNK
    greatest_RN = values_RV[:, :whole].view(rows, -1, CHUNK).amax(-1)
    # in order, so that the first of equals stays the first
    chunks_RC = best(greatest_RN, count)[1].sort(dim=1).values
    places_V = torch.arange(vocab, device=values_RV.device)
    inside = (chunks_RC[:, :, None] * CHUNK + places_V[:CHUNK]).flatten(1)
    places = torch.cat((inside, places_V[whole:].expand(rows, -1)), dim=1)
    values_RC, order_RC = best(values_RV.gather(1, places), count)
    return values_RC, places.gather(1, order_RC)
