"""Keys and values of sentences that are searched together, in one pass with other such groups.

A beam's hypotheses share most of their past, and change places at every step. Nothing is copied for that: every key
stays where it was written, next to those of the sentence's other rows, and a row knows which of them are its own past.
What a sentence looks at, its memory, is there once, and all its rows look at it.

    Seats   which row is in which slot
    Group   one group: the keys and values of its sentences, and who looks at what
    Lanes   some groups side by side, as the cache of one pass through a decoder

R rows of all groups  S slots: a sentence each  W rows of a slot  P places: keys that were written  M memory length
N blocks  H key/value heads  K head width
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.blocks import masks
from regard.blocks.attend import attend
from regard.blocks.trace import Trace
from regard.inference.native.stack import NativeBeamCache

CROWDED = 0.75
"""When fewer of the slots than this are still in use, they are moved together."""


class RowMap:
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


class BeamCache:
    """Sentences that began together, so all their rows are equally long."""

    def __init__(self, memory_N2SHMK: Tensor, present_SM: Tensor) -> None:
        """`memory`: each block's keys and values of what was read; `present`: True where it is real."""
        slots = memory_N2SHMK.shape[2]
        self.said = 0
        self._memory = memory_N2SHMK
        self._own = memory_N2SHMK[:, :, :, :, :0]  # (N, 2, S, H, P, K), P with room for more
        self._present_SM = present_SM
        self._lengths_S = present_SM.sum(1).int()
        self._seats = RowMap(torch.arange(slots, device=present_SM.device), slots, 1)
        self._places_RT = self._seats.rows_R.new_zeros(slots, 0, dtype=torch.int32)  # where a row's past lies
        self._written = 0  # places
        self._times: list[int] = []  # which token of its row each place holds
        self._own_mask: Tensor | None = None

    @property
    def rows(self) -> int:
        return len(self._places_RT)

    @property
    def blocks(self) -> int:
        return len(self._memory)

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
            self._memory, self._own = self._memory[:, :, used], self._own[:, :, used]
            self._present_SM, self._lengths_S = self._present_SM[used], self._lengths_S[used]
        first_R = torch.cat((counts.new_zeros(1), counts.cumsum(0)[:-1])).repeat_interleave(counts)
        self._seats = RowMap(slots_R * width + torch.arange(len(rows_R), device=rows_R.device) - first_R, slots, width)

    def say(self) -> None:
        """Every row is about to write one more key, at the place of its seat."""
        seats = self._seats
        new_R1 = (self._written + seats.rows_R % seats.width)[:, None]
        self._places_RT = torch.cat((self._places_RT, new_R1.int()), dim=1)
        self._written += seats.width
        self._times += [self.said] * seats.width
        self.said += 1
        self._own_mask = None
        blocks, pair, slots, heads, room, width = self._own.shape
        if self._written > room:
            # zeros: where nobody sits nothing is written, and what is looked past must be a number all the same
            bigger = self._own.new_zeros(blocks, pair, slots, heads, max(2 * room, 8 * seats.width), width)
            bigger[:, :, :, :, :room] = self._own
            self._own = bigger

    def seated(self) -> NativeBeamCache:
        """The same for the compiled pass; good until the next `reorder` or `say`."""
        seats = self._seats
        return NativeBeamCache(
            self_kv=self._own.data_ptr(),
            memory_kv=self._memory.data_ptr(),
            seq_ids=seats.small_slots_R.data_ptr(),
            key_indices=self._places_RT.data_ptr(),
            memory_lengths=self._lengths_S.data_ptr(),
            rows=self.rows,
            length=self.said,
            sequences=seats.slots,
            self_capacity=self._own.shape[4],
            memory_sequences=seats.slots,
            memory_capacity=self._memory.shape[4],
        )

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
        seats = self._seats
        newest_R = self._places_RT[:, -1].long()
        for lane_SHPK, new_RHK in zip(self._own[block], (keys_RHK, values_RHK), strict=True):
            lane_SHPK[seats.slots_R, :, newest_R] = new_RHK
        keys, values = self._own[block, :, :, :, : self._written]
        bias = None
        if bias_RHT is not None:
            bias = seats.in_slots(bias_RHT[:, :, -self.said :][:, :, self._times])
        if self._own_mask is None:
            self._own_mask = self._may_look_back()  # the same for all blocks
        return seats.as_rows(attend(seats.in_slots(q_RHK), keys, values, self._own_mask, bias=bias))

    def look_at_memory(self, block: int, q_RHK: Tensor) -> Tensor:
        seats, (keys, values) = self._seats, self._memory[block]
        return seats.as_rows(attend(seats.in_slots(q_RHK), keys, values, masks.padding(self._present_SM)))


class BatchedBeamCache:
    """What a decoder is given as its cache, for one pass over one new token of every row of some groups."""

    length = 1  # what is looked at was computed before

    def __init__(self, groups: Sequence[BeamCache]) -> None:
        self.groups = groups
        self.blocks = [_BlockLanes(groups, block) for block in range(groups[0].blocks)]
        for group in groups:
            group.say()


class _BlockLanes:
    def __init__(self, groups: Sequence[BeamCache], block: int) -> None:
        self.own, self.memory = (_Attention(groups, block, own=own) for own in (True, False))


class _Attention:
    """One block's attention, self or cross, of all groups."""

    length = 1

    def __init__(self, groups: Sequence[BeamCache], block: int, *, own: bool) -> None:
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
