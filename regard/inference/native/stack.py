"""A whole pass through a decoder's blocks in one call: stack.c, for arrays.

R rows of all groups  N blocks  S sentences  M room for the longest  H key/value heads  K head width  D width
"""

from collections.abc import Sequence
from ctypes import Structure, addressof, c_float, c_int, c_long, c_void_p
from dataclasses import dataclass

import numpy as np

from regard.cpu import threads
from regard.inference.native import kernels
from regard.inference.native.kernels import Array, Floats, Part, Weights, at, call


class _Norm(Structure):
    _fields_ = (("weight", c_void_p), ("bias", c_void_p), ("eps", c_float))


class _Attention(Structure):
    _fields_ = (*((name, Part) for name in ("query", "key", "value", "output")), ("norm", _Norm))


class _Block(Structure):
    _fields_ = (("own", _Attention), ("cross", _Attention), ("up", Part), ("down", Part), ("norm", _Norm))


class _Stack(Structure):
    _fields_ = (
        ("blocks", c_void_p),
        *((name, c_long) for name in ("count", "width", "inner", "heads", "kv_heads", "head")),
        *((name, c_int) for name in ("norm_first", "activation", "half")),
        ("last", _Norm),
    )


class NativeBeamCache(Structure):
    """Some sentences that began together, in one pass: what blocks/beam_cache.py's group looks like from C."""

    _fields_ = (
        *((name, c_void_p) for name in ("own", "memory", "slots", "places", "lengths")),
        *((name, c_long) for name in ("rows", "said", "slot_count", "own_room", "memory_slots", "memory_room")),
        *((name, c_int) for name in ("own_half", "memory_half")),
    )


@dataclass(frozen=True)
class Norm:
    weight_D: Floats
    bias_D: Floats
    eps: float

    def struct(self) -> _Norm:
        return _Norm(at(self.weight_D), at(self.bias_D), self.eps)


@dataclass(frozen=True)
class Attention:
    query: Weights
    key: Weights
    value: Weights
    output: Weights
    norm: Norm

    def struct(self) -> _Attention:
        parts = (self.query, self.key, self.value, self.output)
        return _Attention(*(each.part for each in parts), self.norm.struct())


@dataclass(frozen=True)
class Block:
    own: Attention
    cross: Attention | None
    up: Weights
    down: Weights
    norm: Norm

    def struct(self) -> _Block:
        cross = _Attention() if self.cross is None else self.cross.struct()
        return _Block(self.own.struct(), cross, self.up.part, self.down.part, self.norm.struct())


@dataclass(frozen=True)
class Sizes:
    width: int
    inner: int
    heads: int
    kv_heads: int
    head: int

    def fit(self) -> bool:
        """Whether the compiled loops can take them."""
        wide = (self.width, self.inner, self.heads * self.head)
        return all(size % kernels.WIDTH == 0 for size in wide) and self.head % 8 == 0


class Stack:
    """Blocks that have their weights where the compiled pass finds them."""

    def __init__(
        self, blocks: Sequence[Block], sizes: Sizes, *, last: Norm | None, activation: str, half: bool = False
    ) -> None:
        """`last` is the norm after the last block of blocks that have their norms first; `half`: how keys are kept."""
        assert sizes.fit()
        self._kept, self.sizes, self._half = (blocks, last), sizes, half  # the structs have only their addresses
        self._blocks = (_Block * len(blocks))(*(block.struct() for block in blocks))
        self._stack = _Stack(
            *(addressof(self._blocks), len(blocks), sizes.width, sizes.inner, sizes.heads, sizes.kv_heads, sizes.head),
            *(last is not None, kernels.ACTIVATIONS[activation], half, _Norm() if last is None else last.struct()),
        )
        self.address = addressof(self._stack)

    def new_memory(self, sentences: int, room: int) -> Array:
        """For the keys and values of what was read, of every block. -> (N, 2, S, H, M, K)"""
        shape = (len(self._blocks), 2, sentences, self.sizes.kv_heads, room, self.sizes.head)
        return np.empty(shape, np.float16 if self._half else np.float32)

    def decode(self, x_RD: Floats, groups: Sequence[NativeBeamCache]) -> Floats:
        """Embeddings of each row's newest token -> states, in place; its key and value are written down."""
        x_RD, room = np.ascontiguousarray(x_RD), np.empty(call("stack_room")(self.address, len(x_RD)), np.uint8)
        seated = (NativeBeamCache * len(groups))(*groups)
        call("decode")(self.address, addressof(seated), len(groups), at(x_RD), threads.current_threads(), at(room))
        return x_RD
