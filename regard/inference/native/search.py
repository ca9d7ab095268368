"""Beam search in compiled code: search.c for arrays. It finds the same tokens as decoding/beam.py.

V vocabulary  C F related and frequent tokens  T tokens of all sentences, one after the other
"""

import math
from collections.abc import Sequence
from ctypes import POINTER, Structure, addressof, byref, c_double, c_float, c_int, c_int64, c_long, c_void_p
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.cpu import threads
from regard.inference.native.kernels import NativeLinear, address, call
from regard.inference.native.layers import Embedding, EmbeddingStruct, EncoderStruct, NativeEncoder, concatenate


class _ParamsStruct(Structure):
    _fields_ = (
        ("encoder", EncoderStruct),
        ("target", EmbeddingStruct),
        *((name, c_void_p) for name in ("output", "suppressed", "suppressed_at_start", "ends")),
        ("start", c_int64),
        *((name, c_long) for name in ("end_count", "min_tokens", "beam", "n_best")),
        *((name, c_double) for name in ("length_penalty", "max_finished")),
        ("paper_length_penalty", c_int),
        *((name, c_void_p) for name in ("related", "frequent")),
        *((name, c_long) for name in ("related_count", "frequent_count")),
    )


class _HypothesisStruct(Structure):
    _fields_ = (
        ("tokens", POINTER(c_int64)),
        ("log_probs", POINTER(c_float)),
        ("length", c_long),
        ("ended", c_int),
        *((name, c_double) for name in ("total", "score")),
    )


class RawHypothesis(NamedTuple):
    """All generated tokens with the end token, the log-probability of each, and their sum."""

    tokens: list[int]
    log_probs: list[float]
    total: float


@dataclass(frozen=True, kw_only=True)
class DecoderIO:
    """The decoder's input embedding and output projection, and perhaps a shortlist."""

    target: Embedding
    output: NativeLinear
    related_VC: NDArray[np.int32] | None = None
    """For each source token, the target tokens that may translate it, -1 for none. None allows all tokens."""
    frequent_F: NDArray[np.int32] | None = None
    """Target tokens allowed for every source."""


@dataclass(frozen=True, kw_only=True)
class SearchParams:
    """How to search; see decoding/settings.py."""

    start: int
    ends: Sequence[int]
    suppressed: Sequence[int]
    min_tokens: int
    beam: int
    n_best: int
    length_penalty: float
    paper_length_penalty: bool
    max_finished: float = math.inf
    """Stop after this many finished hypotheses; by default, when no live one can become better."""


class NonFiniteLogits(Exception):
    """The model's logits are not finite numbers."""


class NativeSearch:
    """Requests under way, and finished ones. For one thread at a time."""

    def __init__(self, encoder: NativeEncoder, decoder_io: DecoderIO, params: SearchParams) -> None:
        suppressed_V = np.zeros(decoder_io.output.outputs, np.uint8)
        suppressed_V[list(params.suppressed)] = 1
        at_start_V = suppressed_V.copy()
        at_start_V[list(params.ends)] = 1
        ends = np.array(params.ends, np.int64)
        related_VC, frequent_F = decoder_io.related_VC, decoder_io.frequent_F
        self._keep_alive = (encoder, decoder_io, suppressed_V, at_start_V, ends)  # the struct has their addresses
        struct = _ParamsStruct(
            encoder=encoder.struct(),
            target=decoder_io.target.struct(),
            output=addressof(decoder_io.output.struct),
            suppressed=address(suppressed_V),
            suppressed_at_start=address(at_start_V),
            ends=address(ends),
            start=params.start,
            end_count=len(params.ends),
            min_tokens=params.min_tokens,
            beam=params.beam,
            n_best=params.n_best,
            length_penalty=params.length_penalty,
            max_finished=params.max_finished,
            paper_length_penalty=params.paper_length_penalty,
            related=address(related_VC),
            frequent=address(frequent_F),
            related_count=0 if related_VC is None else related_VC.shape[1],
            frequent_count=0 if frequent_F is None else len(frequent_F),
        )
        self._search = call("search_new")(byref(struct))

    def close(self) -> None:
        call("search_free")(self._search)

    @property
    def rows(self) -> int:
        """Rows reserved by requests under way: a beam each."""
        return int(call("search_rows")(self._search))

    def add(self, numbers: Sequence[int], max_tokens: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
        """Encode source sentences and start a request for each, with a number of the caller's choice.

        `max_tokens`, each at least 1, limits what is generated. Numbers of requests under way must differ."""
        ids_T, starts = concatenate(sources)
        numbers_S, max_tokens_S = np.array(numbers, np.int64), np.array(max_tokens, np.int64)
        inputs = (address(array) for array in (numbers_S, max_tokens_S, ids_T, starts))
        call("search_add")(self._search, *inputs, len(sources), threads.current_threads())

    def step(self, max_rows: int, wanted_rows: int, max_steps: int = 0) -> list[tuple[int, list[RawHypothesis]]]:
        """Generate tokens until a request is done and `wanted_rows` of `max_rows` are free, or all requests are done.

        `max_steps` limits the tokens generated for each request; 0 means no limit. Returns the finished requests by
        their numbers; each leaves the search."""
        if not call("search_step")(self._search, max_rows, wanted_rows, max_steps, threads.current_threads()):
            raise NonFiniteLogits
        done, count = [], c_long()
        while (number := call("search_done")(self._search, byref(count))) >= 0:
            done.append((number, [self._hypothesis(which) for which in range(count.value)]))
            call("search_pop_done")(self._search)
        return done

    def cancel(self, number: int) -> bool:
        """Drop a request; the results of the others do not change. False: none has this number, or it is done."""
        return bool(call("search_cancel")(self._search, number))

    def _hypothesis(self, which: int) -> RawHypothesis:
        struct = _HypothesisStruct.from_address(call("search_hypothesis")(self._search, which))
        return RawHypothesis(struct.tokens[: struct.length], struct.log_probs[: struct.length], struct.total)
