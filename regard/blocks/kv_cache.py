"""KV cache: keys and values of tokens that were read before. With it, one more token costs one more token.

    KVCache          what an attention needs from a cache: append and attend
    LayerKVCache     one block's caches: self-attention, and cross-attention where there is a memory
    StackKVCache     the caches of all blocks

    GrowingKVCache   one attention's keys and values, appended token by token
    DecoderKVCache   all layers of a decoder, and which of the cached tokens are real

beam_cache.py has the layout for beams.

B batch  H key/value heads  S keys so far  K head width
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from regard.blocks.attention import attend
from regard.blocks.trace import Trace

KV = tuple[Tensor, Tensor]
"""Keys and values of new tokens, each (B, H, L, K)."""


class KVCache(Protocol):
    """One attention's keys and values."""

    def attend(
        self,
        q_BHQK: Tensor,
        new: KV | None,
        may_attend: Tensor | None = None,
        *,
        bias: Tensor | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """Append the new keys and values, if there are any, and attend to all of them. -> (B, H, Q, K)"""


class LayerKVCache(Protocol):
    @property
    def self_attention(self) -> KVCache: ...
    @property
    def cross_attention(self) -> KVCache | None: ...


class StackKVCache(Protocol):
    @property
    def layers(self) -> Sequence[LayerKVCache]: ...


class GrowingKVCache:
    """One attention's keys and values, in buffers that double when full: appending copies only what is new."""

    def __init__(self) -> None:
        self.length = 0
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    @property
    def keys_BHSK(self) -> Tensor:
        assert self._keys is not None, "the cache is empty"
        return self._keys[:, :, : self.length]

    @property
    def values_BHSK(self) -> Tensor:
        assert self._values is not None, "the cache is empty"
        return self._values[:, :, : self.length]

    def append(self, keys_BHSK: Tensor, values_BHSK: Tensor) -> KV:
        """Add the keys and values of new tokens; returns those of all tokens."""
        start, self.length = self.length, self.length + keys_BHSK.shape[2]
        self._keys = _grown(self._keys, keys_BHSK, start, self.length)
        self._values = _grown(self._values, values_BHSK, start, self.length)
        self._keys[:, :, start : self.length] = keys_BHSK
        self._values[:, :, start : self.length] = values_BHSK
        return self.keys_BHSK, self.values_BHSK

    def attend(
        self,
        q_BHQK: Tensor,
        new: KV | None,
        may_attend: Tensor | None = None,
        *,
        bias: Tensor | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        if new is not None:
            self.append(*new)
        if trace:
            trace.note("keys", self.keys_BHSK)
            trace.note("values", self.values_BHSK)
        return attend(q_BHQK, self.keys_BHSK, self.values_BHSK, may_attend, bias=bias, trace=trace)

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes a copy of the old row `rows[i]`: keeps surviving beams, drops finished texts."""
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._keys[rows], self._values[rows]


def _grown(buffer: Tensor | None, new: Tensor, used: int, needed: int) -> Tensor:
    if buffer is not None and buffer.shape[2] >= needed:
        return buffer
    larger = new.new_empty(*new.shape[:2], max(2 * used, needed), new.shape[3])
    if buffer is not None:
        larger[:, :, :used] = buffer[:, :, :used]
    return larger


class DecoderLayerKVCache:
    """A decoder without a memory has self-attention only."""

    cross_attention = None

    def __init__(self) -> None:
        self.self_attention = GrowingKVCache()


class DecoderKVCache:
    """All layers of a decoder, and which of the cached tokens are real."""

    def __init__(self, layers: int) -> None:
        self.layers = [DecoderLayerKVCache() for _ in range(layers)]
        self._present_BS: Tensor | None = None

    @property
    def length(self) -> int:
        return 0 if self._present_BS is None else self._present_BS.shape[1]

    def extend(self, present_BL: Tensor) -> Tensor:
        """Record new tokens (True = real, False = padding); returns the record of all tokens. -> (B, S)"""
        past = self._present_BS
        self._present_BS = present_BL if past is None else torch.cat((past, present_BL), dim=1)
        return self._present_BS

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes a copy of what row `rows[i]` was."""
        if self._present_BS is not None:
            self._present_BS = self._present_BS[rows]
        for layer in self.layers:
            layer.self_attention.reorder(rows)
