"""KV cache for beams: a group of texts searched together, in one pass with other groups.

The hypotheses of a beam share most of their past and change places at every step. Nothing is copied for that: every
key stays where it was written, next to those of the text's other rows, and each row knows the positions of its own
past. A text's memory (the encoder's output) is stored once, and all its rows attend to it.

    RowMap             which slot each row is in; a slot holds the rows of one text
    BeamCache          bookkeeping for one group of texts: rows, slots, positions
    TorchBeamCache     the same with keys as attend() reads them (…, position, K)
    BatchedBeamCache   several groups side by side, as the cache of one pass through a decoder

The native pass keeps its keys transposed; inference/native_step.py has the cache for that layout.

R rows of all groups  S slots: one text each  W rows per slot  P positions: keys written so far  M memory length
N layers  H key/value heads  K head width  T tokens of a row
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.blocks.attention import attend, padding_mask
from regard.blocks.kv_cache import KV
from regard.blocks.trace import Trace

COMPACT_BELOW = 0.75
"""When fewer of the slots than this are in use, they are compacted."""


class RowMap:
    """Where rows are: each in the slot of its text, which has `width` seats."""

    def __init__(self, seats_R: Tensor, slots: int, width: int) -> None:
        self.seats_R, self.slots, self.width = seats_R, slots, width
        self.slots_R = seats_R // width
        self.full = len(seats_R) == slots * width

    def to_slots(self, x_RHK: Tensor) -> Tensor:
        """-> (S, H, W, K), with zeros in empty seats."""
        if not self.full:
            seats = x_RHK.new_zeros(self.slots * self.width, *x_RHK.shape[1:])
            x_RHK = seats.index_copy_(0, self.seats_R, x_RHK)
        return x_RHK.view(self.slots, self.width, *x_RHK.shape[1:]).transpose(1, 2)

    def to_rows(self, x_SHWK: Tensor) -> Tensor:
        seats = x_SHWK.transpose(1, 2).flatten(0, 1)
        return seats if self.full else seats[self.seats_R]


class BeamCache:
    """Texts that began together, so all their rows have the same length."""

    def __init__(self, memory_N2SHMK: Tensor, present_SM: Tensor) -> None:
        """`memory`: each layer's keys and values of the source; `present`: True where a source token is real."""
        slots = memory_N2SHMK.shape[2]
        self.length = 0
        self._memory = memory_N2SHMK
        self._self = memory_N2SHMK[:, :, :, :, :0]  # (N, 2, S, H, P, K), P with spare capacity
        self._present_SM = present_SM
        self._lengths_S = present_SM.sum(1).int()
        self._map = RowMap(torch.arange(slots, device=present_SM.device), slots, 1)
        self._positions_RT = self._map.seats_R.new_zeros(slots, 0, dtype=torch.int32)  # of each row's past
        self._written = 0  # positions

    @property
    def rows(self) -> int:
        return len(self._positions_RT)

    @property
    def layers(self) -> int:
        return len(self._memory)

    def reorder(self, rows_R: Tensor) -> None:
        """Row i becomes a copy of what row `rows[i]` was; rows of one text stay next to each other."""
        before = self._map
        used, slots_R, counts = torch.unique_consecutive(
            before.slots_R[rows_R], return_inverse=True, return_counts=True
        )
        self._positions_RT = self._positions_RT[rows_R]
        width, slots = max(before.width, int(counts.max())), before.slots
        if width == before.width and len(used) > COMPACT_BELOW * slots:
            slots_R = used[slots_R]  # no need to move yet: some slots are empty
        elif len(used) < slots:
            slots = len(used)
            self._memory, self._self = self._memory[:, :, used], self._self[:, :, used]
            self._present_SM, self._lengths_S = self._present_SM[used], self._lengths_S[used]
        first_R = torch.cat((counts.new_zeros(1), counts.cumsum(0)[:-1])).repeat_interleave(counts)
        self._map = RowMap(slots_R * width + torch.arange(len(rows_R), device=rows_R.device) - first_R, slots, width)

    def extend(self) -> None:
        """Make space for one more token of every row, at the position of its seat."""
        rows = self._map
        new_R1 = (self._written + rows.seats_R % rows.width)[:, None]
        self._positions_RT = torch.cat((self._positions_RT, new_R1.int()), dim=1)
        self._written += rows.width
        self.length += 1
        layers, pair, slots, heads, capacity, width = self._self.shape
        if self._written > capacity:
            # zeros: empty seats are never written, but attention multiplies them by a weight of zero
            larger = self._self.new_zeros(layers, pair, slots, heads, max(2 * capacity, 8 * rows.width), width)
            larger[:, :, :, :, :capacity] = self._self
            self._self = larger


class TorchBeamCache(BeamCache):
    """A beam cache whose keys lie as `attend` reads them."""

    def __init__(self, memory_N2SHMK: Tensor, present_SM: Tensor) -> None:
        super().__init__(memory_N2SHMK, present_SM)
        self._tokens: list[int] = []  # which token of its row each position holds
        self._may_attend: Tensor | None = None

    def extend(self) -> None:
        self._tokens += [self.length] * self._map.width
        self._may_attend = None
        super().extend()

    def self_attention(self, layer: int, q_RHK: Tensor, new: KV, bias_RHT: Tensor | None) -> Tensor:
        """Attention of one new token per row; the bias has one value per token, the newest last. -> (R, H, K)"""
        rows = self._map
        newest_R = self._positions_RT[:, -1].long()
        for cached_SHPK, new_RHK in zip(self._self[layer], new, strict=True):
            cached_SHPK[rows.slots_R, :, newest_R] = new_RHK
        keys, values = self._self[layer, :, :, :, : self._written]
        bias = None
        if bias_RHT is not None:
            bias = rows.to_slots(bias_RHT[:, :, -self.length :][:, :, self._tokens])
        if self._may_attend is None:
            self._may_attend = self._own_past()  # the same for all layers
        return rows.to_rows(attend(rows.to_slots(q_RHK), keys, values, self._may_attend, bias=bias))

    def cross_attention(self, layer: int, q_RHK: Tensor) -> Tensor:
        rows, (keys, values) = self._map, self._memory[layer]
        return rows.to_rows(attend(rows.to_slots(q_RHK), keys, values, padding_mask(self._present_SM)))

    def _own_past(self) -> Tensor | None:
        if self._map.width == 1:
            return None
        past_RP = torch.zeros(self.rows, self._written, dtype=torch.bool, device=self._positions_RT.device)
        past_RP.scatter_(1, self._positions_RT.long(), True)
        return self._map.to_slots(past_RP[:, None])


class BatchedBeamCache:
    """Several groups side by side, for one pass over one new token of every row."""

    def __init__(self, groups: Sequence[TorchBeamCache]) -> None:
        self.layers = [_BatchedLayer(groups, layer) for layer in range(groups[0].layers)]
        for group in groups:
            group.extend()


class _BatchedLayer:
    def __init__(self, groups: Sequence[TorchBeamCache], layer: int) -> None:
        self.self_attention, self.cross_attention = _SelfAttention(groups, layer), _CrossAttention(groups, layer)


class _SelfAttention:
    """Self-attention of one layer: split the rows by group, attend, concatenate."""

    def __init__(self, groups: Sequence[TorchBeamCache], layer: int) -> None:
        self.groups, self.layer = groups, layer

    def attend(
        self,
        q_RH1K: Tensor,
        new: KV | None,
        may_attend: Tensor | None = None,
        *,
        bias: Tensor | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        assert may_attend is None, "a beam cache makes its own mask"
        assert trace is None, "a beam cache records no trace"
        assert new is not None
        q, keys, values = (_by_group(x_RH1K, self.groups) for x_RH1K in (q_RH1K, *new))
        biases = [None] * len(q) if bias is None else _by_group(bias, self.groups)
        parts = [
            group.self_attention(self.layer, q[i], (keys[i], values[i]), biases[i])
            for i, group in enumerate(self.groups)
        ]
        return torch.cat(parts)[:, :, None]


class _CrossAttention:
    """Cross-attention of one layer to the memory that each group holds."""

    def __init__(self, groups: Sequence[TorchBeamCache], layer: int) -> None:
        self.groups, self.layer = groups, layer

    def attend(
        self,
        q_RH1K: Tensor,
        new: KV | None,
        may_attend: Tensor | None = None,
        *,
        bias: Tensor | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        assert new is None, "the memory is in the cache"
        q = _by_group(q_RH1K, self.groups)
        return torch.cat([group.cross_attention(self.layer, q[i]) for i, group in enumerate(self.groups)])[:, :, None]


def _by_group(x_RH1K: Tensor, groups: Sequence[TorchBeamCache]) -> Sequence[Tensor]:
    return torch.split(x_RH1K[:, :, 0], [group.rows for group in groups])
