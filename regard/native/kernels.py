"""The compiled loops, for tensors. Ask `available()` first.

R rows  D width  N outputs  H heads  K head width  V vocabulary  C the best
"""

import ctypes
import functools
from collections.abc import Callable
from ctypes import POINTER, Structure, byref, c_float, c_int, c_long, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.native import build

WIDTH = 32
"""Widths must be a multiple of this."""
ACTIVATIONS = {"none": 0, "relu": 1, "silu": 2, "gelu": 3, "gelu_tanh": 4}


def available() -> bool:
    return level() > 0


@functools.cache
def level() -> int:
    """1: AVX2. 2: AVX-512 with VNNI."""
    library = build.library()
    return 0 if library is None else prepare(library)


class Part(Structure):
    """kernels.h's of the same name: a linear part."""

    _fields_ = (
        *((name, c_void_p) for name in ("weights", "sums", "scales", "bias")),
        *((name, c_long) for name in ("width", "outs")),
    )


class Look(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("q", "keys", "values", "slots", "places", "lengths")),
        *((name, c_long) for name in ("rows", "heads", "kv_heads", "width")),
        *((name, c_long) for name in ("slot_stride", "head_stride", "stride", "longest")),
        ("scale", c_float),
        ("out", c_void_p),
    )


def prepare(library: ctypes.CDLL) -> int:
    """Say what the functions take, lend them torch's threads, and give the library's level."""
    at, whole = c_void_p, c_int
    takes: dict[str, tuple[Any, ...]] = {
        "lend_threads": (at, at),
        "pack": (at, c_long, c_long, whole, at, at),
        "linear": (POINTER(POINTER(Part)), whole, at, c_long, whole, whole, at, POINTER(c_void_p)),
        "look": (POINTER(Look), whole),
        "weigh": (at, c_long, c_long, c_long, whole, at, at, at, at),
        "encode": (at, at, c_long, at, whole, at),
        "remember": (at, at, at, c_long, c_long, whole, at, at),
        "decode": (at, at, c_long, at, whole, at),
        "search_end": (at,),
        "search_admit": (at, c_long, c_long, at, c_long, c_long, c_long, at, c_long),
        "search_drop": (at,),
    }
    for name, arguments in takes.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, None
    gives: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "stack_room": (c_long, (at, c_long)),
        "search_begin": (c_void_p, (at,)),
        "search_go_on": (whole, (at, c_long, c_long, whole)),
        "search_rows": (c_long, (at,)),
        "search_done": (c_long, (at, POINTER(c_long))),
        "search_hypothesis": (c_void_p, (at, c_long)),
    }
    for name, (result, arguments) in gives.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    _lend(library)
    return int(library.level())


def _lend(library: ctypes.CDLL) -> None:
    """torch brings an OpenMP of its own; a second one beside it would make their threads wait for each other."""
    folder = Path(torch.__file__).parent
    for path in sorted([*folder.glob("lib/libgomp*"), *folder.parent.glob("torch.libs/libgomp*")]):
        openmp = ctypes.CDLL(str(path))
        library.lend_threads(
            *(ctypes.cast(getattr(openmp, name), c_void_p) for name in ("GOMP_parallel", "omp_get_thread_num"))
        )
        return


@functools.cache
def call(name: str) -> Callable[..., int]:
    library = build.library()
    assert library is not None, "ask available() first"
    function: Callable[..., int] = getattr(library, name)
    return function


def at(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


class Weights:
    """A linear part's, as the compiled loops want them."""

    def __init__(
        self, weights: Tensor, scales_N: Tensor | None, bias_N: Tensor | None, *, outs: int, width: int
    ) -> None:
        self.outs, self.width = outs, width
        self._kept = [weights, scales_N, bias_N]  # the part has only their addresses
        self.part = Part(at(weights), None, at(scales_N), at(bias_N), width, outs)

    @classmethod
    def of_floats(cls, weight_ND: Tensor, bias_N: Tensor | None) -> "Weights":
        """As they are, without a copy, where the width allows it."""
        outs, width = weight_ND.shape
        weight_ND = F.pad(weight_ND, (0, -width % WIDTH)).contiguous()
        return cls(weight_ND, None, bias_N, outs=outs, width=weight_ND.shape[1])

    @classmethod
    def of_int8(cls, packed: "Packed", bias_N: Tensor | None) -> "Weights":
        bias_N = torch.zeros(packed.outs) if bias_N is None else bias_N
        bias_N = F.pad(bias_N, (0, len(packed.scales_N) - packed.outs))
        weights = cls(packed.weights, packed.scales_N, bias_N, outs=packed.outs, width=packed.width)
        weights.part.sums = at(packed.sums_N)
        weights._kept.append(packed.sums_N)
        return weights


@dataclass(frozen=True, eq=False)
class Packed:
    """An int8 matrix in the order in which the compiled loops read it, whole panels of outputs."""

    weights: Tensor
    sums_N: Tensor
    scales_N: Tensor
    outs: int
    width: int


def pack(whole_ND: Tensor, scale_N: Tensor) -> Packed:
    outs = len(whole_ND)
    whole_ND = F.pad(whole_ND, (0, -whole_ND.shape[1] % WIDTH)).contiguous()
    width, panel = whole_ND.shape[1], call("panel")(level())
    room = -(-outs // panel) * panel
    packed, sums_N = torch.empty(room * width, dtype=torch.int8), torch.empty(room, dtype=torch.int32)
    call("pack")(at(whole_ND), outs, width, level(), at(packed), at(sums_N))
    return Packed(packed, sums_N, F.pad(scale_N.float(), (0, room - outs)), outs, width)


def linear(x_RD: Tensor, by: Weights, *, activation: str = "none") -> Tensor:
    """x weightsᵀ + bias: each row has the same result in any company. -> (R, N)"""
    rows, width = x_RD.shape
    if width != by.width:
        x_RD = F.pad(x_RD, (0, by.width - width))
    x_RD, out = x_RD.contiguous(), torch.empty(rows, by.outs)
    room = torch.empty(rows * (by.width + 8), dtype=torch.uint8)
    part, to = POINTER(Part)(by.part), c_void_p(at(out))
    call("linear")(
        byref(part), 1, at(x_RD), rows, ACTIVATIONS[activation], torch.get_num_threads(), at(room), byref(to)
    )
    return out


def look(
    q_RHK: Tensor,
    keys_SHPK: Tensor,
    values_SHPK: Tensor,
    slots_R: Tensor,
    places_RT: Tensor | None,
    lengths_S: Tensor | None,
) -> Tensor:
    """Each row's queries over its slot's keys: at its places, or at the slot's first; all int32. -> (R, H, K)"""
    rows, heads, width = q_RHK.shape
    assert keys_SHPK.stride() == values_SHPK.stride()
    q_RHK, out = q_RHK.contiguous(), torch.empty(rows, heads, width)
    longest = keys_SHPK.shape[2] if places_RT is None else places_RT.shape[1]
    asked = Look(
        *map(at, (q_RHK, keys_SHPK, values_SHPK, slots_R, places_RT, lengths_S)),
        *(rows, heads, keys_SHPK.shape[1], width, *keys_SHPK.stride()[:3], longest, width**-0.5, at(out)),
    )
    call("look")(byref(asked), torch.get_num_threads())
    return out


def weigh(logits_RV: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The greatest, the log of the sum of e^(x - greatest), both (R); the best logits and their tokens, both (R, C)."""
    rows, vocab = logits_RV.shape
    most, rest, values = torch.empty(rows), torch.empty(rows), torch.empty(rows, count)
    tokens = torch.empty(rows, count, dtype=torch.long)
    call("weigh")(at(logits_RV), rows, vocab, count, torch.get_num_threads(), *map(at, (most, rest, values, tokens)))
    return most, rest, values, tokens
