"""Embeddings, a forward pass through all blocks of an encoder or a decoder, and the encoder: for arrays.

stack.c does the pass; encode.c the embeddings and the encoder, up to the keys and values for cross-attention.

V vocabulary  D width  L positions  R rows  T tokens of all sentences, one after the other  S sentences
N layers  H key/value heads  M capacity for the longest sentence  K head width
"""

from collections.abc import Sequence
from ctypes import Structure, addressof, byref, c_float, c_int, c_long, c_void_p
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from regard.cpu import threads
from regard.inference.native import kernels
from regard.inference.native.kernels import Array, Floats, LinearStruct, NativeLinear, address, call, check

Ids = NDArray[np.int64]


class _NormStruct(Structure):
    _fields_ = (("weight", c_void_p), ("bias", c_void_p), ("eps", c_float))


class _AttentionStruct(Structure):
    _fields_ = (*((name, LinearStruct) for name in ("query", "key", "value", "output")), ("norm", _NormStruct))


class _BlockStruct(Structure):
    _fields_ = (
        *((name, _AttentionStruct) for name in ("self_attention", "cross_attention")),
        *((name, LinearStruct) for name in ("up", "down")),
        ("norm", _NormStruct),
    )


class _StackStruct(Structure):
    _fields_ = (
        ("blocks", c_void_p),
        *((name, c_long) for name in ("layers", "width", "inner", "heads", "kv_heads", "head_width")),
        *((name, c_int) for name in ("norm_first", "activation", "fp16_kv")),
        ("final_norm", _NormStruct),
    )


class BeamCacheStruct(Structure):
    """`BeamCache` in stack.h: the C view of a blocks/beam_cache.py cache, for one pass."""

    _fields_ = (
        *((name, c_void_p) for name in ("self_kv", "memory_kv", "seq_ids", "key_indices", "memory_lengths")),
        *((name, c_long) for name in ("rows", "length", "sequences", "self_capacity")),
        *((name, c_long) for name in ("memory_sequences", "memory_capacity")),
        *((name, c_int) for name in ("self_fp16", "memory_fp16")),
    )


@dataclass(frozen=True)
class Norm:
    weight_D: Floats
    bias_D: Floats
    eps: float

    def struct(self) -> _NormStruct:
        return _NormStruct(weight=address(self.weight_D), bias=address(self.bias_D), eps=self.eps)


@dataclass(frozen=True)
class Attention:
    query: NativeLinear
    key: NativeLinear
    value: NativeLinear
    output: NativeLinear
    norm: Norm

    def struct(self) -> _AttentionStruct:
        return _AttentionStruct(
            query=self.query.struct,
            key=self.key.struct,
            value=self.value.struct,
            output=self.output.struct,
            norm=self.norm.struct(),
        )


@dataclass(frozen=True)
class Block:
    self_attention: Attention
    cross_attention: Attention | None
    up: NativeLinear
    down: NativeLinear
    norm: Norm

    def struct(self) -> _BlockStruct:
        cross = self.cross_attention
        return _BlockStruct(
            self_attention=self.self_attention.struct(),
            cross_attention=_AttentionStruct() if cross is None else cross.struct(),
            up=self.up.struct,
            down=self.down.struct,
            norm=self.norm.struct(),
        )


@dataclass(frozen=True)
class Sizes:
    width: int
    inner: int
    heads: int
    kv_heads: int
    head_width: int

    def supported(self) -> bool:
        """Whether the compiled kernels can handle these sizes."""
        widths = (self.width, self.inner, self.heads * self.head_width)
        return all(width % kernels.WIDTH_MULTIPLE == 0 for width in widths) and self.head_width % 8 == 0


class Stack:
    """The blocks of an encoder or a decoder, laid out for the compiled pass."""

    def __init__(
        self,
        blocks: Sequence[Block],
        sizes: Sizes,
        *,
        final_norm: Norm | None,
        activation: str,
        fp16_kv: bool = False,
    ) -> None:
        """`final_norm` is for blocks with the norm first; `fp16_kv` rounds cached keys and values to float16."""
        assert sizes.supported()
        self._keep_alive, self.sizes, self._fp16_kv = (blocks, final_norm), sizes, fp16_kv  # structs have addresses
        self._blocks = (_BlockStruct * len(blocks))(*(block.struct() for block in blocks))
        self._struct = _StackStruct(
            blocks=addressof(self._blocks),
            layers=len(blocks),
            width=sizes.width,
            inner=sizes.inner,
            heads=sizes.heads,
            kv_heads=sizes.kv_heads,
            head_width=sizes.head_width,
            norm_first=final_norm is not None,
            activation=kernels.ACTIVATIONS[activation],
            fp16_kv=fp16_kv,
            final_norm=_NormStruct() if final_norm is None else final_norm.struct(),
        )
        self.address = addressof(self._struct)

    def new_memory(self, sentences: int, capacity: int) -> Array:
        """An empty array for the keys and values of every layer's cross-attention. -> (N, 2, S, H, M, K)"""
        shape = (len(self._blocks), 2, sentences, self.sizes.kv_heads, capacity, self.sizes.head_width)
        return np.empty(shape, np.float16 if self._fp16_kv else np.float32)

    def decoder_step(self, x_RD: Floats, caches: Sequence[BeamCacheStruct]) -> Floats:
        """Embeddings of each row's newest token -> decoder states, in place; writes its key and value to the cache."""
        x_RD, rows = np.ascontiguousarray(x_RD), len(x_RD)
        scratch = np.empty(call("stack_scratch_bytes")(self.address, rows), np.uint8)
        array = (BeamCacheStruct * len(caches))(*caches)
        inputs = (addressof(array), len(caches), address(x_RD))
        check(call("decoder_step")(self.address, *inputs, threads.current_threads(), address(scratch)))
        return x_RD


# ---- embeddings and the encoder: encode.c ----


class EmbeddingStruct(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("weight", "qweight", "row_scales", "positions")),
        ("scale", c_float),
        *((name, c_long) for name in ("width", "vocab", "max_positions")),
    )


class EncoderStruct(Structure):
    _fields_ = (("encoder", c_void_p), ("decoder", c_void_p), ("source", EmbeddingStruct))


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """Token embeddings, scaled, plus position embeddings."""

    weight_VD: Array
    """float32; or int8 with `row_scales_V`."""
    row_scales_V: Floats | None
    positions_LD: Floats | None
    """One row for each possible position."""
    scale: float

    def struct(self) -> EmbeddingStruct:
        """Valid as long as the arrays: it has only their addresses."""
        int8 = self.row_scales_V is not None
        return EmbeddingStruct(
            weight=None if int8 else address(self.weight_VD),
            qweight=address(self.weight_VD) if int8 else None,
            row_scales=address(self.row_scales_V),
            positions=address(self.positions_LD),
            scale=self.scale,
            width=self.weight_VD.shape[1],
            vocab=len(self.weight_VD),
            max_positions=0 if self.positions_LD is None else len(self.positions_LD),
        )

    def rows(self, ids_R: Ids, positions_R: Ids) -> Floats:
        """-> (R, D)"""
        x_RD = np.empty((len(ids_R), self.weight_VD.shape[1]), np.float32)
        check(call("embed")(byref(self.struct()), address(ids_R), address(positions_R), len(ids_R), address(x_RD)))
        return x_RD


def concatenate(sentences: Sequence[Sequence[int]]) -> tuple[Ids, Ids]:
    """All tokens (T), and where each sentence starts and the last one ends (S + 1)."""
    starts = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
    return np.fromiter(chain.from_iterable(sentences), np.int64, starts[-1]), starts


@dataclass(frozen=True, kw_only=True)
class NativeEncoder:
    """The encoder with its embeddings, and the decoder whose cross-attention will use its output."""

    encoder: Stack
    decoder: Stack
    source: Embedding

    def struct(self) -> EncoderStruct:
        """Valid as long as this object."""
        return EncoderStruct(encoder=self.encoder.address, decoder=self.decoder.address, source=self.source.struct())

    def encode(self, sources: Sequence[Sequence[int]]) -> Array:
        """The keys and values of every decoder layer's cross-attention, float32 or float16. -> (N, 2, S, H, M, K)

        Keys are stored transposed, as (K, M)."""
        ids_T, starts = concatenate(sources)
        capacity = call("memory_capacity")(max(map(len, sources)))
        memory, encoder = self.decoder.new_memory(len(sources), capacity), byref(self.struct())
        scratch = np.empty(call("encode_scratch_bytes")(encoder, len(ids_T)), np.uint8)
        inputs = (address(ids_T), address(starts), len(sources), capacity)
        check(call("encode")(encoder, *inputs, threads.current_threads(), address(scratch), address(memory)))
        return memory
