"""Beam search in compiled loops: search.c, for arrays. What it finds is decoding/beam.py's, token for token.

V vocabulary  C F related and frequent words  T tokens of all sentences, one after the other
"""

import math
from collections.abc import Iterator, Sequence
from ctypes import POINTER, Structure, addressof, byref, c_double, c_float, c_int, c_int64, c_long, c_void_p
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.cpu import threads
from regard.inference.native.encode import Embedding, EmbeddingStruct, Reader, ReaderStruct, in_a_row
from regard.inference.native.kernels import Weights, at, call


class _Settings(Structure):
    _fields_ = (
        ("reader", ReaderStruct),
        ("target", EmbeddingStruct),
        *((name, c_void_p) for name in ("output", "never", "never_at_first", "ends")),
        ("start", c_int64),
        *((name, c_long) for name in ("end_count", "min_new", "beam", "n_best")),
        *((name, c_double) for name in ("length_penalty", "enough")),
        ("paper", c_int),
        *((name, c_void_p) for name in ("related", "frequent")),
        *((name, c_long) for name in ("related_count", "frequent_count")),
    )


class _Kept(Structure):
    _fields_ = (
        ("tokens", POINTER(c_int64)),
        ("own", POINTER(c_float)),
        ("length", c_long),
        ("ended", c_int),
        *((name, c_double) for name in ("total", "score")),
    )


class Said(NamedTuple):
    """A hypothesis: all its tokens, the end token included, and the model's log-probability of each."""

    tokens: list[int]
    own: list[float]
    total: float


@dataclass(frozen=True, kw_only=True)
class Writer:
    """What writes with a decoder's states: embeddings, and the projection to the vocabulary."""

    target: Embedding
    output: Weights
    related_VC: NDArray[np.int32] | None = None
    """int32: for each source token, those that may translate it, -1 for none. Unless given, all may be said."""
    frequent_F: NDArray[np.int32] | None = None
    """int32: those that may always be said."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How to search; see decoding/settings.py."""

    start: int
    ends: Sequence[int]
    never: Sequence[int]
    min_new: int
    beam: int
    n_best: int
    length_penalty: float
    paper: bool
    enough: float = math.inf
    """So many hypotheses that ended are enough; unless given, those that nothing can come before any more."""


class BrokenLogits(Exception):
    """The model's logits are no finite numbers."""


class Searcher:
    """Sentences under way, and those that are done. For one thread at a time."""

    def __init__(self, reader: Reader, writer: Writer, plan: Plan) -> None:
        never_V = np.zeros(writer.output.outs, np.uint8)
        never_V[list(plan.never)] = 1
        at_first_V = never_V.copy()
        at_first_V[list(plan.ends)] = 1
        ends = np.array(plan.ends, np.int64)
        self._kept = (reader, writer, never_V, at_first_V, ends)  # the struct has only their addresses
        settings = _Settings(
            *(reader.struct(), writer.target.struct(), addressof(writer.output.part)),
            *(at(never_V), at(at_first_V), at(ends), plan.start, len(plan.ends)),
            *(plan.min_new, plan.beam, plan.n_best, plan.length_penalty, plan.enough, plan.paper),
            *(at(writer.related_VC), at(writer.frequent_F)),
            0 if writer.related_VC is None else writer.related_VC.shape[1],
            0 if writer.frequent_F is None else len(writer.frequent_F),
        )
        self._at = call("search_begin")(byref(settings))

    def close(self) -> None:
        call("search_end")(self._at)

    @property
    def rows(self) -> int:
        """Of all sentences that are under way."""
        return int(call("search_rows")(self._at))

    def read(self, numbers: Sequence[int], limits: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
        """Sentences, by their numbers, and how long what is said of each may become."""
        ids_T, starts = in_a_row(sources)
        called, most = np.array(numbers, np.int64), np.array(limits, np.int64)
        call("search_read")(self._at, *map(at, (called, most, ids_T, starts)), len(sources), threads.current_threads())

    def go_on(self, most: int, wanted: int) -> Iterator[tuple[int, list[Said]]]:
        """Search until there is room for `wanted` of at most `most` rows, or until all is done: what is done then."""
        if not call("search_go_on")(self._at, most, wanted, threads.current_threads()):
            raise BrokenLogits
        count = c_long()
        while (number := call("search_done")(self._at, byref(count))) >= 0:
            yield number, [self._said(which) for which in range(count.value)]
            call("search_drop")(self._at)

    def _said(self, which: int) -> Said:
        kept = _Kept.from_address(call("search_hypothesis")(self._at, which))
        return Said(kept.tokens[: kept.length], kept.own[: kept.length], kept.total)
