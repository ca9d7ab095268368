"""Keys and values that were computed before: with them, one more token costs one more token.

    KeyValues   one attention's keys and values: append, reorder, trim, and look at them
    BlockCache  one block's: its own, and those of the memory that it looks at
    Cache       all blocks' of a decoder, and which of the cached tokens are real

B batch  H key/value heads  S keys so far  K head width
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from regard.blocks.attend import attend
from regard.blocks.trace import Trace, note


class KVCache(Protocol):
    """What an attention asks of whatever keeps its keys and values."""

    length: int

    def attend(
        self,
        q_BHQK: Tensor,
        new: tuple[Tensor, Tensor] | None,
        may_attend: Tensor | None = None,
        *,
        bias: Tensor | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """Keep new keys and values, if there are any, and look at all. -> (B, H, Q, K)"""


class LayerKVCache(Protocol):
    @property
    def own(self) -> KVCache: ...
    @property
    def memory(self) -> KVCache: ...


class StackKVCache(Protocol):
    @property
    def blocks(self) -> Sequence[LayerKVCache]: ...


class GrowingKVCache:
    """One attention's keys and values, in buffers that double when full: appending copies only what is new."""

    def __init__(self) -> None:
        self.length = 0
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    @property
    def keys_BHSK(self) -> Tensor:
        assert self._keys is not None, "nothing was appended yet"
        return self._keys[:, :, : self.length]

    @property
    def values_BHSK(self) -> Tensor:
        assert self._values is not None, "nothing was appended yet"
        return self._values[:, :, : self.length]

    def append(self, keys_BHSK: Tensor, values_BHSK: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of new tokens, and give those of all."""
        start, self.length = self.length, self.length + keys_BHSK.shape[2]
        self._keys = _with_room(self._keys, keys_BHSK, start, self.length)
        self._values = _with_room(self._values, values_BHSK, start, self.length)
        self._keys[:, :, start : self.length] = keys_BHSK
        self._values[:, :, start : self.length] = values_BHSK
        return self.keys_BHSK, self.values_BHSK

    def attend(
        self,
        q_BHQK: Tensor,
        new: tuple[Tensor, Tensor] | None,
        may_attend: Tensor | None = None,
        *,
        bias: Tensor | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        if new is not None:
            self.append(*new)
        note(trace, "keys", self.keys_BHSK)
        note(trace, "values", self.values_BHSK)
        return attend(q_BHQK, self.keys_BHSK, self.values_BHSK, may_attend, bias=bias, trace=trace)

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes a copy of what row `rows[i]` was: beams that live on, sentences that leave."""
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._keys[rows], self._values[rows]

    def trim(self, length: int) -> None:
        """Forget everything after the first `length` tokens."""
        self.length = min(self.length, length)


def _with_room(buffer: Tensor | None, new: Tensor, used: int, need: int) -> Tensor:
    if buffer is not None and buffer.shape[2] >= need:
        return buffer
    roomier = new.new_empty(*new.shape[:2], max(2 * used, need), new.shape[3])
    if buffer is not None:
        roomier[:, :, :used] = buffer[:, :, :used]
    return roomier


class DecoderLayerKVCache:
    def __init__(self) -> None:
        self.own = GrowingKVCache()
        self.memory = GrowingKVCache()


class DecoderKVCache:
    """A decoder's memory of the tokens that it has read."""

    def __init__(self, layers: int) -> None:
        self.blocks = [DecoderLayerKVCache() for _ in range(layers)]
        self._present_BS: Tensor | None = None

    @property
    def length(self) -> int:
        return 0 if self._present_BS is None else self._present_BS.shape[1]

    def read(self, present_BL: Tensor) -> Tensor:
        """Take note of new tokens (True = real, False = padding), and give the note of all. -> (B, S)"""
        past = self._present_BS
        self._present_BS = present_BL if past is None else torch.cat((past, present_BL), dim=1)
        return self._present_BS

    def reorder(self, rows: Tensor, *, memory: bool = True) -> None:
        """Row i becomes a copy of what row `rows[i]` was; `memory` only if rows go to look at another one."""
        if self._present_BS is not None:
            self._present_BS = self._present_BS[rows]
        for block in self.blocks:
            block.own.reorder(rows)
            if memory:
                block.memory.reorder(rows)

    def trim(self, length: int) -> None:
        """Back to the first `length` tokens; the memory that they look at stays."""
        if self._present_BS is not None:
            self._present_BS = self._present_BS[:, :length]
        for block in self.blocks:
            block.own.trim(length)
