"""Beam search in compiled code: search.c for arrays. It finds the same tokens as decoding/beam.py.

V vocabulary  C F related and frequent tokens  T tokens of all sentences, one after the other
"""

from collections.abc import Sequence
from ctypes import POINTER, Structure, addressof, byref, c_double, c_float, c_int, c_int64, c_long, c_void_p
from dataclasses import dataclass

import numpy as np

from regard.cpu import threads
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import SearchSettings
from regard.errors import InputError
from regard.inference.backend import SpecialTokens
from regard.inference.native.kernels import NativeLinear, address, call, check
from regard.inference.native.layers import Embedding, EmbeddingStruct, EncoderStruct, NativeEncoder, concatenate
from regard.weights.shortlist import Shortlist


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


@dataclass(frozen=True, kw_only=True)
class DecoderIO:
    """The decoder's input embedding, its output projection and the target tokens that may be generated."""

    target: Embedding
    output: NativeLinear
    shortlist: Shortlist | None
    """None allows all tokens."""


class NativeSearch:
    """A beam search over requests, which may join and leave at any step. For one thread at a time."""

    def __init__(
        self,
        encoder: NativeEncoder,
        decoder_io: DecoderIO,
        settings: SearchSettings,
        tokens: SpecialTokens,
        *,
        source: int,
        max_tokens: int,
    ) -> None:
        """`source` and `max_tokens`: the longest source and output that the encoder and the decoder are made for."""
        self._search = c_void_p()
        self._settings, self._end = settings, tuple(dict.fromkeys(tokens.end))
        self._source, self._max_tokens = source, max_tokens
        start = _checked(tokens, decoder_io.output.outputs)
        suppressed_V = np.zeros(decoder_io.output.outputs, np.uint8)
        suppressed_V[list(tokens.suppressed)] = 1
        at_start_V = suppressed_V.copy()
        at_start_V[list(self._end)] = 1
        ends = np.array(self._end, np.int64)
        words = decoder_io.shortlist
        self._keep_alive = (encoder, decoder_io, suppressed_V, at_start_V, ends)  # the struct has their addresses
        struct = _ParamsStruct(
            encoder=encoder.struct(),
            target=decoder_io.target.struct(),
            output=addressof(decoder_io.output.struct),
            suppressed=address(suppressed_V),
            suppressed_at_start=address(at_start_V),
            ends=address(ends),
            start=start,
            end_count=len(ends),
            min_tokens=settings.min_tokens,
            beam=settings.beam,
            n_best=settings.n_best,
            length_penalty=settings.length_penalty,
            max_finished=settings.enough,
            paper_length_penalty=settings.length_form == "paper",
            related=None if words is None else address(words.related_VC),
            frequent=None if words is None else address(words.frequent_F),
            related_count=0 if words is None else words.related_VC.shape[1],
            frequent_count=0 if words is None else len(words.frequent_F),
        )
        check(call("search_new")(byref(struct), byref(self._search)))

    def close(self) -> None:
        if self._search:
            call("search_free")(self._search)
            self._search = c_void_p()

    @property
    def rows(self) -> int:
        """Rows reserved by requests under way: a beam each."""
        return int(call("search_rows")(self._search))

    def fits(self, source: int, max_tokens: int) -> bool:
        return source <= self._source and max_tokens <= self._max_tokens

    def add(self, numbers: Sequence[int], sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        """Encode source sentences and start a request for each, with a number of the caller's choice.

        Numbers of requests under way must differ; limits are at least 1. After an error none was started."""
        ids_T, starts = concatenate(sources)
        numbers_S, limits_S = np.array(numbers, np.int64), np.array(limits, np.int64)
        inputs = (address(array) for array in (numbers_S, limits_S, ids_T, starts))
        check(call("search_add")(self._search, *inputs, len(sources), threads.current_threads()))

    def step(self, max_rows: int, wanted: int, max_steps: int = 0) -> list[tuple[int, list[Hypothesis]]]:
        """Generate tokens until a request is done and `wanted` of `max_rows` are free, or all requests are done, or a
        twentieth of a second has passed: Python sees Ctrl-C and deadlines between two calls.

        `max_steps` limits the tokens generated for each request; 0 means no limit. Returns the finished requests by
        their numbers; each leaves the search."""
        check(call("search_step")(self._search, max_rows, wanted, max_steps, threads.current_threads()))
        done, count = [], c_long()
        while (number := call("search_done")(self._search, byref(count))) >= 0:
            done.append((number, [self._hypothesis(which) for which in range(count.value)]))
            call("search_pop_done")(self._search)
        return done

    def cancel(self, number: int) -> None:
        """Drop a request, if one under way has this number; the results of the others do not change."""
        call("search_cancel")(self._search, number)

    def _hypothesis(self, which: int) -> Hypothesis:
        struct = _HypothesisStruct.from_address(call("search_hypothesis")(self._search, which))
        tokens, log_probs = struct.tokens[: struct.length], struct.log_probs[: struct.length]
        return Hypothesis.of(tokens, log_probs, struct.total, self._settings, self._end)


def _checked(tokens: SpecialTokens, vocab: int) -> int:
    """The start token. The C code uses these tokens as indices, and the API lets anyone set them."""
    if tokens.start is None:
        raise InputError("a translation begins with a start token; this model has none")
    for token in (tokens.start, *tokens.end, *tokens.suppressed):
        if token not in range(vocab):
            raise InputError(f"token {token!r:.30} is not in the vocabulary of {vocab:,}")
    return tokens.start
