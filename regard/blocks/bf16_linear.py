"""Matrix products of bfloat16 for training on a CPU: twice to four times as fast where the CPU has them.

Only the products are in half precision: what is around them, the weights and the sums of the optimizer stay float32.
torch's autocast would have the same products and be slower than float32: for every new number of rows its library
compiles a new loop, which takes longer than the product, and batches of texts have a new number of rows each time.
So rows are filled up with zeros to a multiple of 64: then there are few shapes, and their loops are soon all there.

R rows  D width  N outputs
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROWS = 64


def padded(rows: int) -> int:
    return -(-rows // ROWS) * ROWS


def to_bf16(x_RD: Tensor, room: Tensor | None = None) -> Tensor:
    """In bfloat16, with rows of zeros to a multiple of ROWS; in the first rows of a room, where one is given."""
    rows, width = x_RD.shape
    if room is None:
        room = x_RD.new_empty(padded(rows), width, dtype=torch.bfloat16)
    half = room[: padded(rows)]
    half[:rows] = x_RD
    half[rows:] = 0
    return half


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
    """A linear part that learns with products of bfloat16, and is used with those of float32."""

    @classmethod
    def of(cls, linear: nn.Linear) -> "BF16Linear":
        """On the same parameters, under the same names."""
        half = cls(linear.in_features, linear.out_features, linear.bias is not None, device="meta")
        half.weight, half.bias = linear.weight, linear.bias
        return half

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        x_RD = x.reshape(-1, self.in_features)
        out_RN: Tensor = _BF16Linear.apply(x_RD, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return out_RN.view(*x.shape[:-1], self.out_features)


def use_bf16_linear(model: nn.Module) -> None:
    """Swap every linear part of a model."""
    for part in list(model.modules()):
        for name, child in list(part.named_children()):
            if type(child) is nn.Linear:
                setattr(part, name, BF16Linear.of(child))
