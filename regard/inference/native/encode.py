"""Tokens become rows of numbers, and sentences are read: read.c, for arrays.

V vocabulary  D width  L places  R rows  T tokens of all sentences, one after the other  S sentences
N blocks  H key/value heads  M room for the longest sentence  K head width
"""

from collections.abc import Sequence
from ctypes import Structure, byref, c_float, c_long, c_void_p
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from regard.cpu import threads
from regard.inference.native.kernels import Array, Floats, at, call
from regard.inference.native.stack import Stack

Ids = NDArray[np.int64]


class EmbeddingStruct(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("numbers", "whole", "row_scales", "positions")),
        ("scale", c_float),
        ("width", c_long),
    )


class ReaderStruct(Structure):
    _fields_ = (("encoder", c_void_p), ("decoder", c_void_p), ("source", EmbeddingStruct))


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """What each token is, and what each place adds."""

    numbers_VD: Array
    """Of float32; or of int8, with what one is worth in each row."""
    row_scales_V: Floats | None
    positions_LD: Floats | None
    """One for each place that there may be."""
    scale: float

    def struct(self) -> EmbeddingStruct:
        """It has only their addresses."""
        numbers = at(self.numbers_VD)
        kinds = (numbers, None) if self.row_scales_V is None else (None, numbers)
        width = self.numbers_VD.shape[1]
        return EmbeddingStruct(*kinds, at(self.row_scales_V), at(self.positions_LD), self.scale, width)

    def rows(self, ids_R: Ids, positions_R: Ids) -> Floats:
        """-> (R, D)"""
        x_RD = np.empty((len(ids_R), self.numbers_VD.shape[1]), np.float32)
        call("embed")(byref(self.struct()), at(ids_R), at(positions_R), len(ids_R), at(x_RD))
        return x_RD


def in_a_row(sources: Sequence[Sequence[int]]) -> tuple[Ids, Ids]:
    """All tokens (T), and where each sentence begins and the last one ends (S + 1)."""
    starts = np.cumsum([0, *map(len, sources)], dtype=np.int64)
    return np.fromiter(chain.from_iterable(sources), np.int64, starts[-1]), starts


@dataclass(frozen=True, kw_only=True)
class Reader:
    """What reads: an encoder with its embeddings, for the decoder that will look at it."""

    encoder: Stack
    decoder: Stack
    source: Embedding

    def struct(self) -> ReaderStruct:
        return ReaderStruct(self.encoder.address, self.decoder.address, self.source.struct())

    def remember(self, sources: Sequence[Sequence[int]]) -> Array:
        """The keys and values that the decoder's blocks will look at, perhaps as halves. -> (N, 2, S, H, M, K)

        Keys lie turned, as (K, M): how they are looked at is the compiled pass' own affair."""
        ids_T, starts = in_a_row(sources)
        room = call("memory_room")(max(map(len, sources)))
        memory, reader = self.decoder.new_memory(len(sources), room), byref(self.struct())
        space = np.empty(call("read_room")(reader, len(ids_T)), np.uint8)
        call("read_sentences")(
            reader, at(ids_T), at(starts), len(sources), room, threads.current_threads(), at(space), at(memory)
        )
        return memory
