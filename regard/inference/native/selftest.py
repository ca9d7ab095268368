"""What a child process does with a new library before anyone uses it: every loop, against torch."""

import ctypes
import functools

import numpy as np
import torch

from regard.inference.native import build, kernels, tensors
from regard.inference.native.encode import Embedding, Reader
from regard.inference.native.kernels import Array, Weights
from regard.inference.native.stack import Attention, Block, NativeBeamCache, Norm, Sizes, Stack


def main(path: str) -> None:
    """Dies, or raises, where the library is not right on this machine; also where `assert` is switched off."""
    library = ctypes.CDLL(path)
    build.library = functools.cache(lambda: library)
    at_level = kernels.level()
    if at_level < 1:
        raise SystemExit("this CPU has no AVX2")
    torch.manual_seed(0)
    for rows, width in ((1, 64), (7, 96), (64, 64)):
        x, weights = torch.randint(-63, 65, (rows, width)).float(), torch.randint(-64, 65, (83, width))
        x[:, 0], x[:, 1] = -63.0, 64.0  # so that one is worth one
        expected = x @ weights.T.float()  # whole numbers, and exact
        for ready in (
            tensors.weights_of_int8(tensors.pack(weights.to(torch.int8), torch.ones(83)), None),
            tensors.weights_of_floats(weights.float(), None),
            kernels.Weights.of_fixed_floats(weights.float().numpy(), None),
        ):
            torch.testing.assert_close(tensors.linear(x, ready), expected, rtol=0.0, atol=0.0)
    for head in (16, 32, 64):
        q, keys, values = torch.randn(3, 2, head), torch.randn(2, 2, 9, head), torch.randn(2, 2, 9, head)
        slots = torch.tensor([0, 1, 1], dtype=torch.int32)
        looked = tensors.look(q, keys, values, slots, None, None)
        expected = torch.nn.functional.scaled_dot_product_attention(q[:, :, None], keys[slots], values[slots])[:, :, 0]
        torch.testing.assert_close(looked, expected)
    logits = torch.randn(3, 1000)
    greatest, rest, best, tokens = tensors.weigh(logits, 5)
    torch.testing.assert_close(greatest + rest, logits.logsumexp(-1))
    torch.testing.assert_close(best, logits.topk(5).values, rtol=0.0, atol=0.0)
    torch.testing.assert_close(logits.gather(1, tokens), best, rtol=0.0, atol=0.0)
    for int8 in (False, True):
        floats, to_bf16 = (states(int8, half) for half in (False, True))
        if not np.isfinite(floats).all() or np.abs(floats - to_bf16).max() > 0.2:
            raise SystemExit("a whole pass is wrong")


def states(int8: bool, half: bool) -> Array:
    """What a small decoder makes of a token, having read five; it keeps its keys as halves or not."""
    random, sizes = np.random.default_rng(1), Sizes(64, 64, 2, 2, 32)

    def weights(outs: int, width: int) -> Weights:
        numbers = random.integers(-64, 65, (outs, width), np.int8)
        bias, worth = np.zeros(outs, np.float32), np.full(outs, 0.003, np.float32)
        return (
            Weights.of_int8(kernels.pack(numbers, worth), bias)
            if int8
            else Weights.of_fixed_floats(numbers * worth[:, None], bias)
        )

    norm = Norm(np.ones(64, np.float32), np.zeros(64, np.float32), 1e-5)

    def attention() -> Attention:
        return Attention(weights(64, 64), weights(64, 64), weights(64, 64), weights(64, 64), norm)

    block = Block(attention(), attention(), weights(64, 64), weights(64, 64), norm)
    stack = Stack([block], sizes, last=norm, activation="relu", half=half)
    words = Embedding(
        numbers_VD=random.standard_normal((5, 64), np.float32), row_scales_V=None, positions_LD=None, scale=1.0
    )
    memory = Reader(encoder=stack, decoder=stack, source=words).remember([range(5)])
    past = np.zeros((1, 2, 1, 2, 4, 32), memory.dtype)
    places, lengths = np.zeros(1, np.int32), np.array([5], np.int32)
    where = [kernels.at(one) for one in (past, memory, None, places, lengths)]
    seated = NativeBeamCache(*where, 1, 1, 1, 4, 1, memory.shape[4], half, half)
    return stack.decode(words.rows(np.zeros(1, np.int64), np.zeros(1, np.int64)), [seated])
