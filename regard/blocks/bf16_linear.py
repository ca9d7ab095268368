"""Linear layers that train with bfloat16 products: two to four times as fast on CPUs that support them.

Only the products are bfloat16; weights, activations and optimizer state stay float32. torch's autocast has the same
products but is slower than float32: for every new number of rows its library compiles a new kernel, which takes longer
than the product, and batches of text have a new number of rows each time. So rows are padded with zeros to a multiple
of 64: that leaves few shapes, whose kernels are soon compiled.

R rows  D width  N outputs
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROW_MULTIPLE = 64
"""Rows are padded to a multiple of this."""


def padded_rows(rows: int) -> int:
    """The number of rows after padding."""
    return -(-rows // ROW_MULTIPLE) * ROW_MULTIPLE


def to_bf16(x_RD: Tensor, buffer: Tensor | None = None) -> Tensor:
    """Convert to bfloat16 and pad with rows of zeros, in the first rows of `buffer` if it is given."""
    rows, width = x_RD.shape
    if buffer is None:
        buffer = x_RD.new_empty(padded_rows(rows), width, dtype=torch.bfloat16)
    x_bf16 = buffer[: padded_rows(rows)]
    x_bf16[:rows] = x_RD
    x_bf16[rows:] = 0
    return x_bf16


class _BF16Linear(torch.autograd.Function):
    """x weightᵀ + bias."""

    @staticmethod
    def forward(ctx: Any, x_RD: Tensor, weight_ND: Tensor, bias_N: Tensor | None) -> Tensor:
        x, weight = to_bf16(x_RD), weight_ND.bfloat16()
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias_N is not None
        bias = None if bias_N is None else bias_N.bfloat16()
        return F.linear(x, weight, bias)[: len(x_RD)].float()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad_RN,) = grads
        x, weight = ctx.saved_tensors
        grad = to_bf16(grad_RN)
        need_x, need_weight, _ = ctx.needs_input_grad
        grad_x = torch.mm(grad, weight)[: len(grad_RN)].float() if need_x else None
        grad_weight = torch.mm(grad.T, x).float() if need_weight else None
        return grad_x, grad_weight, grad_RN.sum(0) if ctx.has_bias else None


class BF16Linear(nn.Linear):
    """A linear layer that trains with bfloat16 products and evaluates with float32."""

    @classmethod
    def of(cls, linear: nn.Linear) -> "BF16Linear":
        """Convert a layer: same parameters, same names."""
        converted = cls(linear.in_features, linear.out_features, linear.bias is not None, device="meta")
        converted.weight, converted.bias = linear.weight, linear.bias
        return converted

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        x_RD = x.reshape(-1, self.in_features)
        out_RN: Tensor = _BF16Linear.apply(x_RD, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return out_RN.view(*x.shape[:-1], self.out_features)


def use_bf16_linear(model: nn.Module) -> None:
    """Replace every linear layer of a model, in place."""
    for part in list(model.modules()):
        for name, child in list(part.named_children()):
            if type(child) is nn.Linear:
                setattr(part, name, BF16Linear.of(child))
