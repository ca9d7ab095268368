"""Keys and values of sentences that are searched together, in one pass with other such groups.

A beam's hypotheses share most of their past, and change places at every step. Nothing is copied for that: every key
stays where it was written, next to those of the sentence's other rows, and a row knows which of them are its own past.
What a sentence looks at, its memory, is there once, and all its rows look at it.

    Lane    one group's sentences in one attention
    Group   one group: its lanes, and who looks at what
    Lanes   some groups side by side, as the cache of one pass through a decoder

R rows of all groups  S slots: a sentence each  W rows of a slot  P places: keys that were written  M memory length
H key/value heads  K head width
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.blocks.attend import attend
from regard.blocks.trace import Trace

CROWDED = 0.75
"""When fewer of the slots than this are still in use, they are moved together."""


class Lane:
    """Keys and values in slots; room for more of them doubles when it is used up."""

    def __init__(self, keys_SHPK: Tensor | None = None, values_SHPK: Tensor | None = None) -> None:
        self._keys, self._values = keys_SHPK, values_SHPK
        self._places = 0 if keys_SHPK is None else keys_SHPK.shape[2]

    def write(self, keys_SHWK: Tensor, values_SHWK: Tensor) -> None:
        start, end = self._places, self._places + keys_SHWK.shape[2]
        if self._keys is None or self._values is None or end > self._keys.shape[2]:
            self._keys, self._values = (
                _roomier(old, new, start, 2 * end)
                for old, new in ((self._keys, keys_SHWK), (self._values, values_SHWK))
            )
        self._keys[:, :, start:end] = keys_SHWK
        self._values[:, :, start:end] = values_SHWK
        self._places = end

    def look(self, q_SHWK: Tensor, may_attend: Tensor | None, bias: Tensor | None = None) -> Tensor:
        assert self._keys is not None
        assert self._values is not None
        keys, values = (x[:, :, : self._places] for x in (self._keys, self._values))
        return attend(q_SHWK, keys, values, may_attend, bias=bias)

    def keep(self, slots: Tensor) -> None:
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._keys[slots], self._values[slots]


def _roomier(old: Tensor | None, new: Tensor, used: int, room: int) -> Tensor:
    bigger = new.new_empty(*new.shape[:2], room, new.shape[3])
    if old is not None:
        bigger[:, :, :used] = old[:, :, :used]
    return bigger


class Group:
    """Sentences that began together, so all their rows are equally long."""

    def __init__(self, memory: Sequence[tuple[Tensor, Tensor]], may_attend_memory: Tensor | None) -> None:
        """`memory` has each block's keys and values of what was read, (S, H, M, K)."""
        self.own = [Lane() for _ in memory]
        self.memory = [Lane(*pair) for pair in memory]
        self.said = 0
        self.slots, self.width = len(memory[0][0]), 1
        self._may_attend_memory = may_attend_memory
        device = memory[0][0].device
        self._seats_R = torch.arange(self.slots, device=device)  # slot * width + row: where each row sits
        self._past_RP = torch.zeros(self.slots, 0, dtype=torch.bool, device=device)  # the places of a row's own past
        self._times: list[int] = []  # which token of its row each place holds
        self._may_attend: Tensor | None = None
        self._all_seated = True

    @property
    def rows(self) -> int:
        return len(self._seats_R)

    def reorder(self, rows_R: Tensor) -> None:
        """Row i goes on as row `rows[i]` did; rows of one sentence stay next to each other."""
        slots_R = self._seats_R[rows_R] // self.width
        used, slots_R, counts = torch.unique_consecutive(slots_R, return_inverse=True, return_counts=True)
        self._past_RP = self._past_RP[rows_R]
        width = max(self.width, int(counts.max()))
        if width == self.width and len(used) > CROWDED * self.slots:
            slots_R = used[slots_R]  # no need to move yet: some slots are empty
        elif len(used) < self.slots:
            self._keep(used)
        self.width = width
        first_R = torch.cat((counts.new_zeros(1), counts.cumsum(0)[:-1])).repeat_interleave(counts)
        self._seats_R = slots_R * width + torch.arange(len(rows_R), device=rows_R.device) - first_R
        self._all_seated = len(rows_R) == self.slots * width

    def _keep(self, slots: Tensor) -> None:
        self.slots = len(slots)
        for lane in (*self.own, *self.memory):
            lane.keep(slots)
        if self._may_attend_memory is not None:
            self._may_attend_memory = self._may_attend_memory[slots]

    def say(self) -> None:
        """Every row is about to write one more key, at a place for its seat."""
        seat_R = self._seats_R % self.width
        new_RW = seat_R[:, None] == torch.arange(self.width, device=seat_R.device)
        self._past_RP = torch.cat((self._past_RP, new_RW), dim=1)
        self._times += [self.said] * self.width
        self.said += 1
        past_SWP = self._seated(self._past_RP).view(self.slots, self.width, -1)
        self._may_attend = None if self.width == 1 else past_SWP[:, None]

    def look_back(
        self, block: int, q_RHK: Tensor, keys_RHK: Tensor, values_RHK: Tensor, bias_RHT: Tensor | None
    ) -> Tensor:
        """Self-attention of one new token a row; the bias is one for each token, the newest last. -> (R, H, K)"""
        self.own[block].write(self._in_slots(keys_RHK), self._in_slots(values_RHK))
        bias = None
        if bias_RHT is not None:
            bias = self._in_slots(bias_RHT[:, :, -self.said :][:, :, self._times])
        return self._as_rows(self.own[block].look(self._in_slots(q_RHK), self._may_attend, bias))

    def look_at_memory(self, block: int, q_RHK: Tensor) -> Tensor:
        return self._as_rows(self.memory[block].look(self._in_slots(q_RHK), self._may_attend_memory))

    def _seated(self, x_R: Tensor) -> Tensor:
        """Rows -> seats, with zeros where nobody sits."""
        if self._all_seated:
            return x_R
        seats = x_R.new_zeros(self.slots * self.width, *x_R.shape[1:])
        return seats.index_copy_(0, self._seats_R, x_R)

    def _in_slots(self, x_RHK: Tensor) -> Tensor:
        return self._seated(x_RHK).view(self.slots, self.width, *x_RHK.shape[1:]).transpose(1, 2)

    def _as_rows(self, x_SHWK: Tensor) -> Tensor:
        seats = x_SHWK.transpose(1, 2).flatten(0, 1)
        return seats if self._all_seated else seats[self._seats_R]


class Lanes:
    """What a decoder is given as its cache, for one pass over one new token of every row of some groups."""

    length = 1  # what is looked at was computed before

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = groups
        self.blocks = [_BlockLanes(groups, block) for block in range(len(groups[0].own))]
        for group in groups:
            group.say()


class _BlockLanes:
    def __init__(self, groups: Sequence[Group], block: int) -> None:
        self.own, self.memory = (_Attention(groups, block, own=own) for own in (True, False))


class _Attention:
    """One block's attention, self or cross, of all groups."""

    length = 1

    def __init__(self, groups: Sequence[Group], block: int, *, own: bool) -> None:
        self.groups, self.block, self.own = groups, block, own

    def attend(
        self,
        q_RH1K: Tensor,
        new: tuple[Tensor, Tensor] | None,
        may_attend: Tensor | None = None,
        *,
        bias: Tensor | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        assert may_attend is None, "lanes know who may look at what"
        assert trace is None, "lanes show nothing"
        sizes = [group.rows for group in self.groups]
        queries = torch.split(q_RH1K[:, :, 0], sizes)
        if new is None:
            parts = [group.look_at_memory(self.block, q) for group, q in zip(self.groups, queries, strict=True)]
        else:
            keys, values = (torch.split(x_RH1K[:, :, 0], sizes) for x_RH1K in new)
            parts = []
            for number, group in enumerate(self.groups):
                rows = slice(sum(sizes[:number]), sum(sizes[: number + 1]))
                own = None if bias is None else bias[rows, :, 0]
                parts.append(group.look_back(self.block, queries[number], keys[number], values[number], own))
        return torch.cat(parts)[:, :, None]
