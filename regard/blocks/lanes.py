"""Keys and values of sentences that are searched together, in one pass with other such groups.

A beam's hypotheses share most of their past, and change places at every step. Nothing is copied for that: every key
stays where it was written, next to those of the sentence's other rows, and a row knows which of them are its own past.
What a sentence looks at, its memory, is there once, and all its rows look at it.

    Lane    one group's sentences in one attention
    Seats   which row is in which slot
    Group   one group: its lanes, and who looks at what
    Lanes   some groups side by side, as the cache of one pass through a decoder

R rows of all groups  S slots: a sentence each  W rows of a slot  P places: keys that were written  M memory length
H key/value heads  K head width
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.blocks import masks
from regard.blocks.attend import attend
from regard.blocks.trace import Trace
from regard.native import kernels

CROWDED = 0.75
"""When fewer of the slots than this are still in use, they are moved together."""


class Lane:
    """Keys and values in slots; room for more of them doubles when it is used up."""

    def __init__(self, keys_SHPK: Tensor | None = None, values_SHPK: Tensor | None = None) -> None:
        # cloned: `contiguous` leaves a tensor with a dimension of 1 as it is, whatever its strides
        whole = torch.contiguous_format
        self._keys = None if keys_SHPK is None else keys_SHPK.clone(memory_format=whole)
        self._values = None if values_SHPK is None else values_SHPK.clone(memory_format=whole)
        self._places = 0 if keys_SHPK is None else keys_SHPK.shape[2]

    @property
    def both(self) -> tuple[Tensor, Tensor]:
        assert self._keys is not None
        assert self._values is not None
        return self._keys[:, :, : self._places], self._values[:, :, : self._places]

    def write(self, seats: "Seats", keys_RHK: Tensor, values_RHK: Tensor) -> None:
        """A key and a value of each row, at its seat's place."""
        start, end = self._places, self._places + seats.width
        if self._keys is None or self._values is None or end > self._keys.shape[2]:
            self._keys, self._values = (
                _roomier(old, new, seats.slots, start, 2 * end)
                for old, new in ((self._keys, keys_RHK), (self._values, values_RHK))
            )
        places_R = start + seats.rows_R % seats.width
        self._keys[seats.slots_R, :, places_R] = keys_RHK
        self._values[seats.slots_R, :, places_R] = values_RHK
        self._places = end

    def keep(self, slots: Tensor) -> None:
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._keys[slots], self._values[slots]


def _roomier(old: Tensor | None, new_RHK: Tensor, slots: int, used: int, room: int) -> Tensor:
    # zeros: where nobody sits nothing is written, and what is looked past must be a number all the same
    bigger = new_RHK.new_zeros(slots, new_RHK.shape[1], room, new_RHK.shape[2])
    if old is not None:
        bigger[:, :, :used] = old[:, :, :used]
    return bigger


class Seats:
    """Where rows sit: each in a slot, the slot of its sentence, which has `width` seats."""

    def __init__(self, rows_R: Tensor, slots: int, width: int) -> None:
        self.rows_R, self.slots, self.width = rows_R, slots, width
        self.slots_R = rows_R // width
        self.small_slots_R = self.slots_R.int()
        self.full = len(rows_R) == slots * width

    def in_slots(self, x_RHK: Tensor) -> Tensor:
        """-> (S, H, W, K), with zeros where nobody sits."""
        if not self.full:
            seats = x_RHK.new_zeros(self.slots * self.width, *x_RHK.shape[1:])
            x_RHK = seats.index_copy_(0, self.rows_R, x_RHK)
        return x_RHK.view(self.slots, self.width, *x_RHK.shape[1:]).transpose(1, 2)

    def as_rows(self, x_SHWK: Tensor) -> Tensor:
        seats = x_SHWK.transpose(1, 2).flatten(0, 1)
        return seats if self.full else seats[self.rows_R]


class Group:
    """Sentences that began together, so all their rows are equally long."""

    def __init__(self, memory: Sequence[tuple[Tensor, Tensor]], present_SM: Tensor) -> None:
        """`memory`: each block's keys and values of what was read, (S, H, M, K); `present`: True where it is real."""
        keys, _ = memory[0]
        self.own = [Lane() for _ in memory]
        self.memory = [Lane(*pair) for pair in memory]
        self.said = 0
        self._present_SM = present_SM
        self._lengths_S = _lengths(present_SM)
        self._seats = Seats(torch.arange(len(keys), device=keys.device), len(keys), 1)
        self._places_RT = torch.zeros(len(keys), 0, dtype=torch.int32, device=keys.device)  # where a row's past lies
        self._written = 0  # places
        self._times: list[int] = []  # which token of its row each place holds
        self._compiled = keys.device.type == "cpu" and keys.dtype == torch.float32 and keys.shape[3] % 8 == 0
        self._compiled = self._compiled and kernels.available()
        self._own_mask: Tensor | None = None

    @property
    def rows(self) -> int:
        return len(self._places_RT)

    def reorder(self, rows_R: Tensor) -> None:
        """Row i goes on as row `rows[i]` did; rows of one sentence stay next to each other."""
        before = self._seats
        used, slots_R, counts = torch.unique_consecutive(
            before.slots_R[rows_R], return_inverse=True, return_counts=True
        )
        self._places_RT = self._places_RT[rows_R]
        width, slots = max(before.width, int(counts.max())), before.slots
        if width == before.width and len(used) > CROWDED * slots:
            slots_R = used[slots_R]  # no need to move yet: some slots are empty
        elif len(used) < slots:
            slots = len(used)
            self._keep(used)
        first_R = torch.cat((counts.new_zeros(1), counts.cumsum(0)[:-1])).repeat_interleave(counts)
        self._seats = Seats(slots_R * width + torch.arange(len(rows_R), device=rows_R.device) - first_R, slots, width)

    def _keep(self, slots: Tensor) -> None:
        for lane in (*self.own, *self.memory):
            lane.keep(slots)
        self._present_SM = self._present_SM[slots]
        self._lengths_S = None if self._lengths_S is None else self._lengths_S[slots]

    def say(self) -> None:
        """Every row is about to write one more key, at the place of its seat."""
        seats = self._seats
        new_R1 = (self._written + seats.rows_R % seats.width)[:, None]
        self._places_RT = torch.cat((self._places_RT, new_R1.int()), dim=1)
        self._written += seats.width
        self._times += [self.said] * seats.width
        self.said += 1
        self._own_mask = None

    def _may_look_back(self) -> Tensor | None:
        if self._seats.width == 1:
            return None
        past_RP = torch.zeros(self.rows, self._written, dtype=torch.bool, device=self._places_RT.device)
        past_RP.scatter_(1, self._places_RT.long(), True)
        return self._seats.in_slots(past_RP[:, None])

    def look_back(
        self, block: int, q_RHK: Tensor, keys_RHK: Tensor, values_RHK: Tensor, bias_RHT: Tensor | None
    ) -> Tensor:
        """Self-attention of one new token a row; the bias is one for each token, the newest last. -> (R, H, K)"""
        lane, seats = self.own[block], self._seats
        lane.write(seats, keys_RHK, values_RHK)
        if self._compiled and bias_RHT is None:
            return kernels.look(q_RHK, *lane.both, seats.small_slots_R, self._places_RT, None)
        bias = None
        if bias_RHT is not None:
            bias = seats.in_slots(bias_RHT[:, :, -self.said :][:, :, self._times])
        if self._own_mask is None:
            self._own_mask = self._may_look_back()  # the same for all blocks
        return seats.as_rows(attend(seats.in_slots(q_RHK), *lane.both, self._own_mask, bias=bias))

    def look_at_memory(self, block: int, q_RHK: Tensor) -> Tensor:
        lane, seats = self.memory[block], self._seats
        if self._compiled and self._lengths_S is not None:
            lengths_R = self._lengths_S[seats.slots_R]
            return kernels.look(q_RHK, *lane.both, seats.small_slots_R, None, lengths_R)
        return seats.as_rows(attend(seats.in_slots(q_RHK), *lane.both, masks.padding(self._present_SM)))


def _lengths(present_SM: Tensor) -> Tensor | None:
    """How much of each memory is real, where it is the first of it."""
    lengths_S = present_SM.sum(1)
    first_SM = torch.arange(present_SM.shape[1], device=present_SM.device) < lengths_S[:, None]
    return lengths_S.int() if torch.equal(first_SM, present_SM) else None


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
