"""The compiled kernels for torch tensors.

R rows  D width  N outputs  H heads  K head width  S sequences  P positions  T tokens  V vocabulary  C best tokens
"""

from ctypes import POINTER, byref, c_void_p

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.cpu import threads
from regard.inference.native import kernels
from regard.inference.native.kernels import ACTIVATIONS, AttentionArgs, LinearStruct, NativeLinear, address, call, check


def pack_int8(qweight_ND: Tensor, scale_N: Tensor) -> kernels.PackedInt8:
    return kernels.pack_int8(qweight_ND.numpy(), scale_N.numpy())


def linear_from_floats(weight_ND: Tensor, bias_N: Tensor | None) -> NativeLinear:
    """Uses the weights in place; copies only to pad the width."""
    return NativeLinear.from_floats(weight_ND.detach().numpy(), None if bias_N is None else bias_N.detach().numpy())


def linear_from_int8(packed: kernels.PackedInt8, bias_N: Tensor | None) -> NativeLinear:
    return NativeLinear.from_int8(packed, None if bias_N is None else bias_N.detach().numpy())


def linear(x_RD: Tensor, layer: NativeLinear, *, activation: str = "none") -> Tensor:
    """activation(x weightᵀ + bias); a row's result does not depend on the other rows. -> (R, N)"""
    rows, width = x_RD.shape
    if width != layer.width:
        x_RD = F.pad(x_RD, (0, layer.width - width))
    x_RD, out = x_RD.contiguous(), torch.empty(rows, layer.outputs)
    scratch = torch.empty(call("linear_scratch_bytes")(rows, layer.width), dtype=torch.uint8)
    layers, outs = byref(POINTER(LinearStruct)(layer.struct)), byref(c_void_p(address(out)))
    count, kind = 1, ACTIVATIONS[activation]
    call("linear")(layers, count, address(x_RD), rows, kind, threads.current_threads(), address(scratch), outs)
    return out


def attention(
    q_RHK: Tensor,
    keys_SHPK: Tensor,
    values_SHPK: Tensor,
    seq_ids_R: Tensor,
    key_indices_RT: Tensor | None,
    lengths_S: Tensor | None,
) -> Tensor:
    """Attention of one query per row over its sequence's keys: those at its indices, or the first ones. All int32.

    -> (R, H, K)"""
    rows, heads, width = q_RHK.shape
    assert keys_SHPK.stride() == values_SHPK.stride()
    q_RHK, out = q_RHK.contiguous(), torch.empty(rows, heads, width)
    seq_stride, head_stride, key_stride, _ = keys_SHPK.stride()
    args = AttentionArgs(
        q=address(q_RHK),
        keys=address(keys_SHPK),
        values=address(values_SHPK),
        seq_ids=address(seq_ids_R),
        key_indices=address(key_indices_RT),
        lengths=address(lengths_S),
        rows=rows,
        heads=heads,
        kv_heads=keys_SHPK.shape[1],
        width=width,
        seq_stride=seq_stride,
        head_stride=head_stride,
        key_stride=key_stride,
        max_keys=keys_SHPK.shape[2] if key_indices_RT is None else key_indices_RT.shape[1],
        scale=width**-0.5,
        out=address(out),
    )
    check(call("attention")(byref(args), threads.current_threads()))
    return out


def topk(logits_RV: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The maximum and the log of the sum of e^(x - max), both (R); the k best logits and their tokens, both (R, C)."""
    rows, vocab = logits_RV.shape
    max_R, log_sum_R, values_RC = torch.empty(rows), torch.empty(rows), torch.empty(rows, k)
    tokens_RC = torch.empty(rows, k, dtype=torch.long)
    outs = (address(out) for out in (max_R, log_sum_R, values_RC, tokens_RC))
    call("topk")(address(logits_RV), rows, vocab, k, threads.current_threads(), *outs)
    return max_R, log_sum_R, values_RC, tokens_RC
