"""The compiled loops, for tensors. Ask `available()` first.

R rows  D width  N outputs  H heads  K head width  V vocabulary  C the best
"""

import ctypes
import functools
from collections.abc import Callable
from ctypes import c_float, c_int, c_long, c_void_p
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from regard.native import build

WIDTH = 32
"""Widths must be a multiple of this for linear8."""


def available() -> bool:
    return level() > 0


@functools.cache
def level() -> int:
    """1: AVX2, for weights of -64..64. 2: AVX-512 with VNNI, for -127..127."""
    library = build.library()
    return 0 if library is None else prepare(library)


def prepare(library: ctypes.CDLL) -> int:
    """Say what the functions take, lend them torch's threads, and give the library's level."""
    floats, integers = c_void_p, c_void_p
    library.pack.argtypes = [integers, c_long, c_long, c_int, integers, integers]
    library.linear8.argtypes = [
        *(floats, c_long, c_long, integers, integers, floats, floats, c_long),
        *(c_int, c_int, c_int, c_void_p, floats),
    ]
    library.look.argtypes = [
        *(floats, floats, floats, integers, integers, integers),
        *(c_long, c_long, c_long, c_long, c_long, c_long, c_long, c_float, c_int, floats),
    ]
    library.weigh.argtypes = [floats, c_long, c_long, c_long, c_int, floats, floats, floats, integers]
    library.lend_threads.argtypes = [c_void_p, c_void_p]
    for name in ("pack", "linear8", "look", "weigh", "lend_threads"):
        getattr(library, name).restype = None
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


def _call(name: str) -> Callable[..., None]:
    library = build.library()
    assert library is not None, "ask available() first"
    function: Callable[..., None] = getattr(library, name)
    return function


def _at(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


@dataclass(frozen=True, eq=False)
class Packed:
    """int8 weights in the order in which linear8 reads them."""

    weights: Tensor
    sums_N: Tensor
    scales_N: Tensor
    bias_N: Tensor
    width: int
    outs: int


def pack(weights_ND: Tensor, scales_N: Tensor, bias_N: Tensor | None) -> Packed:
    outs, width = weights_ND.shape
    padded = -(-width // WIDTH) * WIDTH
    weights_ND = torch.nn.functional.pad(weights_ND, (0, padded - width)).contiguous()
    library = build.library()
    assert library is not None, "ask available() first"
    panel = library.panel(level())
    room = -(-outs // panel) * panel
    packed = torch.empty(room * padded, dtype=torch.int8)
    sums = torch.empty(room, dtype=torch.int32)
    library.pack(_at(weights_ND), outs, padded, level(), _at(packed), _at(sums))
    scales, bias = torch.zeros(room), torch.zeros(room)
    scales[:outs] = scales_N
    if bias_N is not None:
        bias[:outs] = bias_N
    return Packed(packed, sums, scales, bias, padded, outs)


def linear8(x_RD: Tensor, by: Packed, *, relu: bool = False) -> Tensor:
    """x weightsᵀ + bias with integer sums: each row has its own scale, and the same result in any company. -> (R, N)"""
    rows, width = x_RD.shape
    if width != by.width:
        x_RD = torch.nn.functional.pad(x_RD, (0, by.width - width))
    x_RD = x_RD.contiguous()
    out = torch.empty(rows, by.outs)
    room = torch.empty(rows * (by.width + 4), dtype=torch.uint8)
    _call("linear8")(
        *(_at(x_RD), rows, by.width, _at(by.weights), _at(by.sums_N), _at(by.scales_N), _at(by.bias_N), by.outs),
        *(level(), relu, torch.get_num_threads(), _at(room), _at(out)),
    )
    return out


def look(
    q_RHK: Tensor,
    keys_SHPK: Tensor,
    values_SHPK: Tensor,
    slots_R: Tensor,
    places_RT: Tensor | None,
    lengths_R: Tensor | None,
) -> Tensor:
    """Each row's queries over its slot's keys: at its places, or at the first `lengths`; all int32. -> (R, H, K)"""
    rows, heads, width = q_RHK.shape
    assert keys_SHPK.stride() == values_SHPK.stride()
    assert keys_SHPK.stride()[2:] == (width, 1)
    q_RHK, out = q_RHK.contiguous(), torch.empty(rows, heads, width)
    longest = keys_SHPK.shape[2] if places_RT is None else places_RT.shape[1]
    _call("look")(
        *(_at(q_RHK), _at(keys_SHPK), _at(values_SHPK), _at(slots_R), _at(places_RT), _at(lengths_R)),
        *(rows, heads, keys_SHPK.shape[1], width, keys_SHPK.stride(0), keys_SHPK.stride(1), longest, width**-0.5),
        *(torch.get_num_threads(), _at(out)),
    )
    return out


def weigh(logits_RV: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The greatest, the log of the sum of e^(x - greatest), both (R); the best logits and their tokens, both (R, C)."""
    rows, vocab = logits_RV.shape
    most, rest, values = torch.empty(rows), torch.empty(rows), torch.empty(rows, count)
    tokens = torch.empty(rows, count, dtype=torch.long)
    _call("weigh")(
        _at(logits_RV), rows, vocab, count, torch.get_num_threads(), _at(most), _at(rest), _at(values), _at(tokens)
    )
    return most, rest, values, tokens
