"""Tests a new library in a child process before anyone uses it: every kernel against torch."""

import ctypes
import functools

import numpy as np
import torch

from regard.inference.native import build, kernels, torch_kernels
from regard.inference.native.kernels import Array, NativeLinear
from regard.inference.native.layers import (
    Attention,
    BeamCacheStruct,
    Block,
    Embedding,
    NativeEncoder,
    Norm,
    Sizes,
    Stack,
)


def main(path: str) -> None:
    """Die or raise if the library gives wrong results on this machine. Does not rely on `assert`."""
    library = ctypes.CDLL(path)
    build.library = functools.cache(lambda: library)
    if not kernels.available():
        raise SystemExit("this CPU has no AVX2")
    torch.manual_seed(0)
    _check_linear()
    _check_attention()
    _check_topk()
    for int8 in (False, True):
        float32, float16 = (decoder_states(int8, fp16_kv) for fp16_kv in (False, True))
        if not np.isfinite(float32).all() or np.abs(float32 - float16).max() > 0.2:
            raise SystemExit("a pass through a decoder gives wrong results")


def _check_linear() -> None:
    for rows, width in ((1, 64), (7, 96), (64, 64)):
        x, weight = torch.randint(-63, 65, (rows, width)).float(), torch.randint(-64, 65, (83, width))
        x[:, 0], x[:, 1] = -63.0, 64.0  # so that the scale of the quantised inputs is 1
        expected = x @ weight.T.float()  # whole numbers, so exact
        for layer in (
            torch_kernels.linear_from_int8(torch_kernels.pack_int8(weight.to(torch.int8), torch.ones(83)), None),
            torch_kernels.linear_from_floats(weight.float(), None),
            NativeLinear.from_frozen_floats(weight.float().numpy(), None),
        ):
            torch.testing.assert_close(torch_kernels.linear(x, layer), expected, rtol=0.0, atol=0.0)


def _check_attention() -> None:
    for width in (16, 32, 64):
        q, keys, values = torch.randn(3, 2, width), torch.randn(2, 2, 9, width), torch.randn(2, 2, 9, width)
        seq_ids = torch.tensor([0, 1, 1], dtype=torch.int32)
        out = torch_kernels.attention(q, keys, values, seq_ids, None, None)
        expected = torch.nn.functional.scaled_dot_product_attention(q[:, :, None], keys[seq_ids], values[seq_ids])
        torch.testing.assert_close(out, expected[:, :, 0])


def _check_topk() -> None:
    logits = torch.randn(3, 1000)
    maximum, log_sum, best, tokens = torch_kernels.topk(logits, 5)
    torch.testing.assert_close(maximum + log_sum, logits.logsumexp(-1))
    torch.testing.assert_close(best, logits.topk(5).values, rtol=0.0, atol=0.0)
    torch.testing.assert_close(logits.gather(1, tokens), best, rtol=0.0, atol=0.0)


def decoder_states(int8: bool, fp16_kv: bool) -> Array:
    """The output of a small decoder for one token, after encoding five."""
    random, sizes = np.random.default_rng(1), Sizes(width=64, inner=64, heads=2, kv_heads=2, head_width=32)

    def linear(outputs: int, width: int) -> NativeLinear:
        qweight = random.integers(-64, 65, (outputs, width), np.int8)
        bias, scales = np.zeros(outputs, np.float32), np.full(outputs, 0.003, np.float32)
        return (
            NativeLinear.from_int8(kernels.pack_int8(qweight, scales), bias)
            if int8
            else NativeLinear.from_frozen_floats(qweight * scales[:, None], bias)
        )

    norm = Norm(np.ones(64, np.float32), np.zeros(64, np.float32), 1e-5)

    def attention() -> Attention:
        return Attention(linear(64, 64), linear(64, 64), linear(64, 64), linear(64, 64), norm)

    block = Block(attention(), attention(), linear(64, 64), linear(64, 64), norm)
    stack = Stack([block], sizes, final_norm=norm, activation="relu", fp16_kv=fp16_kv)
    embedding = Embedding(
        weight_VD=random.standard_normal((5, 64), np.float32), row_scales_V=None, positions_LD=None, scale=1.0
    )
    memory = NativeEncoder(encoder=stack, decoder=stack, source=embedding).encode([range(5)])
    self_kv = np.zeros((1, 2, 1, 2, 4, 32), memory.dtype)
    key_indices, memory_lengths = np.zeros(1, np.int32), np.array([5], np.int32)
    cache = BeamCacheStruct(
        self_kv=kernels.address(self_kv),
        memory_kv=kernels.address(memory),
        key_indices=kernels.address(key_indices),
        memory_lengths=kernels.address(memory_lengths),
        rows=1,
        length=1,
        sequences=1,
        self_capacity=4,
        memory_sequences=1,
        memory_capacity=memory.shape[4],
        self_fp16=fp16_kv,
        memory_fp16=fp16_kv,
    )
    return stack.decoder_step(embedding.rows(np.zeros(1, np.int64), np.zeros(1, np.int64)), [cache])
