"""The compiled loops, for tensors.

R rows  D width  N outputs  H heads  K head width  V vocabulary  C the best
"""

from ctypes import POINTER, byref, c_void_p

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.cpu import threads
from regard.inference.native.kernels import ACTIVATIONS, Look, Packed, Part, Weights, at, call
from regard.inference.native.kernels import pack as pack_arrays


def pack(whole_ND: Tensor, scale_N: Tensor) -> Packed:
    return pack_arrays(whole_ND.numpy(), scale_N.numpy())


def weights_of_floats(weight_ND: Tensor, bias_N: Tensor | None) -> Weights:
    """Where they are, without a copy, where the width allows it."""
    return Weights.of_floats(weight_ND.detach().numpy(), None if bias_N is None else bias_N.detach().numpy())


def weights_of_int8(packed: Packed, bias_N: Tensor | None) -> Weights:
    return Weights.of_int8(packed, None if bias_N is None else bias_N.detach().numpy())


def linear(x_RD: Tensor, by: Weights, *, activation: str = "none") -> Tensor:
    """x weightsᵀ + bias: each row has the same result in any company. -> (R, N)"""
    rows, width = x_RD.shape
    if width != by.width:
        x_RD = F.pad(x_RD, (0, by.width - width))
    x_RD, out = x_RD.contiguous(), torch.empty(rows, by.outs)
    room = torch.empty(rows * (by.width + 8), dtype=torch.uint8)
    part, to = POINTER(Part)(by.part), c_void_p(at(out))
    call("linear")(
        byref(part), 1, at(x_RD), rows, ACTIVATIONS[activation], threads.current_threads(), at(room), byref(to)
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
        *(rows, heads, keys_SHPK.shape[1], width, *keys_SHPK.stride()[:3], longest, 0, width**-0.5, 0, at(out)),
    )
    call("look")(byref(asked), threads.current_threads())
    return out


def weigh(logits_RV: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The greatest, the log of the sum of e^(x - greatest), both (R); the best logits and their tokens, both (R, C)."""
    rows, vocab = logits_RV.shape
    most, rest, values = torch.empty(rows), torch.empty(rows), torch.empty(rows, count)
    tokens = torch.empty(rows, count, dtype=torch.long)
    call("weigh")(at(logits_RV), rows, vocab, count, threads.current_threads(), *map(at, (most, rest, values, tokens)))
    return most, rest, values, tokens
