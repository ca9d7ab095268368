"""The kernels that a child of cpu/capabilities.py tries: some CPUs advertise them and crash, or compute wrong results.

The child writes "ready", then one line for each stage in its arguments. A stage that kills it writes nothing.
"""

import sys
from collections.abc import Callable
from contextlib import suppress

import torch
from torch.nn.functional import linear, scaled_dot_product_attention


def bfloat16_is_right() -> bool:
    """Linear, batched matmul and attention; oneDNN uses one kernel for one row and another for many."""

    def agree(kernel: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> bool:
        low = [x.bfloat16() for x in inputs]
        want = kernel(*(x.float() for x in low))
        return bool((kernel(*low).float() - want).norm() <= 0.02 * want.norm())  # False for NaN

    row, rows, weight, heads = (torch.randn(s) for s in ((1, 256), (64, 256), (256, 256), (1, 4, 64, 64)))
    return (
        agree(linear, row, weight, row[0])
        and agree(linear, rows, weight, row[0])
        and agree(torch.matmul, heads, heads.mT)
        and agree(scaled_dot_product_attention, heads, heads, heads)
    )


def int8_is_right(limit: int) -> bool:
    """Compare three kernels with 64-bit integers, with the largest possible inputs among others."""
    w = torch.randint(-limit, limit + 1, (256, 256), dtype=torch.int8)
    w[0], w[1] = limit, -limit
    packed = torch.ops.onednn.qlinear_prepack(w, None)
    right = True
    for rows in (1, 64):
        x = torch.randint(-128, 128, (rows, 256), dtype=torch.int8)
        x[0] = 127
        want = x.long() @ w.long().T
        inputs = ((x.short() + 128).to(torch.uint8), 1.0, 128)
        weights = (packed, torch.ones(256), torch.zeros(256, dtype=torch.long), None)
        got = torch.ops.onednn.qlinear_pointwise(*inputs, *weights, 1.0, 0, torch.float32, "none", [], "")
        right = right and got.equal(want.float()) and torch._int_mm(x, w.T).long().equal(want)
    x, w = torch.randn(64, 256), w.float()
    old = torch.ops.quantized.linear_prepack(torch.quantize_per_tensor(w, 1.0, 0, torch.qint8), None)
    error = torch.ops.quantized.linear_dynamic(x, old) - x @ w.T
    return right and bool(error.norm() <= 0.03 * (x @ w.T).norm())  # the inputs are rounded: 1 %


STAGES: dict[str, Callable[[], bool]] = {  # the names are those of the fields of Capabilities
    "bfloat16": bfloat16_is_right,
    "int8": lambda: int8_is_right(64),  # 2 * 255 * 64 fits the 16-bit sums of a CPU without VNNI,
    "int8_wide": lambda: int8_is_right(127),  # and 2 * 255 * 127 does not
}


def main() -> None:
    """Write one line per stage, flushed before the next stage can kill the process."""
    with suppress(ImportError):  # a crash here is an answer and needs no core file
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    torch.manual_seed(0)
    sys.stdout.write("ready\n")
    for stage in sys.argv[1:]:
        sys.stdout.flush()
        try:
            right = STAGES[stage]()
        except (RuntimeError, AttributeError):  # this build of torch has no such kernel
            right = False
        sys.stdout.write(f"{stage} {'right' if right else 'wrong'}\n")
