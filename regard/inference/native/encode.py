"""Embeddings and the encoder: encode.c for arrays.

V vocabulary  D width  L positions  R rows  T tokens of all sentences, one after the other  S sentences
N layers  H key/value heads  M capacity for the longest sentence  K head width
"""

from collections.abc import Sequence
from ctypes import Structure, byref, c_float, c_long, c_void_p
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from regard.cpu import threads
from regard.inference.native.kernels import Array, Floats, address, call
from regard.inference.native.stack import Stack

Ids = NDArray[np.int64]


class EmbeddingStruct(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("weight", "qweight", "row_scales", "positions")),
        ("scale", c_float),
        ("width", c_long),
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
        )

    def rows(self, ids_R: Ids, positions_R: Ids) -> Floats:
        """-> (R, D)"""
        x_RD = np.empty((len(ids_R), self.weight_VD.shape[1]), np.float32)
        call("embed")(byref(self.struct()), address(ids_R), address(positions_R), len(ids_R), address(x_RD))
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
        call("encode")(encoder, *inputs, threads.current_threads(), address(scratch), address(memory))
        return memory
