"""What a child process does with a new library before anyone uses it: every loop, against torch."""

import ctypes
import functools

import torch

from regard.native import build, kernels


def main(path: str) -> None:
    """Dies, or raises, where the library is not right on this machine; also where `assert` is switched off."""
    library = ctypes.CDLL(path)
    build.library = functools.cache(lambda: library)
    at_level = kernels.level()
    if at_level < 1:
        raise SystemExit("this CPU has no AVX2")
    torch.manual_seed(0)
    for rows in (1, 7, 64):
        x, weights = torch.randint(-63, 65, (rows, 64)).float(), torch.randint(-64, 65, (83, 64))
        x[:, 0], x[:, 1] = -63.0, 64.0  # so that one is worth one
        expected = x @ weights.T.float()  # whole numbers, and exact
        for ready in (
            kernels.Weights.of_int8(kernels.pack(weights.to(torch.int8), torch.ones(83)), None),
            kernels.Weights.of_floats(weights.float(), None),
        ):
            torch.testing.assert_close(kernels.linear(x, ready), expected, rtol=0.0, atol=0.0)
    q, keys, values = torch.randn(3, 2, 16), torch.randn(2, 2, 9, 16), torch.randn(2, 2, 9, 16)
    slots = torch.tensor([0, 1, 1], dtype=torch.int32)
    looked = kernels.look(q, keys, values, slots, None, None)
    expected = torch.nn.functional.scaled_dot_product_attention(q[:, :, None], keys[slots], values[slots])[:, :, 0]
    torch.testing.assert_close(looked, expected)
    logits = torch.randn(3, 1000)
    greatest, rest, best, tokens = kernels.weigh(logits, 5)
    torch.testing.assert_close(greatest + rest, logits.logsumexp(-1))
    torch.testing.assert_close(best, logits.topk(5).values, rtol=0.0, atol=0.0)
    torch.testing.assert_close(logits.gather(1, tokens), best, rtol=0.0, atol=0.0)
