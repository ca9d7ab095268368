"""A linear part with int8 weights: a swap for nn.Linear that gives nearly the same, from a quarter of the memory.

Each output has its own scale, found when the weights are quantised; each input row has its own, found as it comes.
The sums are whole numbers and exact, so a row's result does not depend on the rows beside it. Two ways lead to the
same numbers: the compiled loop, and torch's float32 product of the whole numbers, which is exact too.

R rows  D width  N outputs
"""

import torch
from torch import Tensor, nn

from regard.native import kernels

MOST = 64
"""Weights go from -64 to 64: without VNNI, two products are added in 16 bits, and 2 x 255 x 64 is what fits."""


class Int8Linear(nn.Module):
    """x weightsᵀ + bias. Only for using a model, not for training it."""

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, width: int, outs: int, *, bias: bool) -> None:
        super().__init__()
        self.in_features, self.out_features = width, outs
        self.register_buffer("weight", torch.zeros(outs, width, dtype=torch.int8))
        self.register_buffer("scale", torch.ones(outs))
        self.register_buffer("bias", torch.zeros(outs) if bias else None)
        self._ready: kernels.Weights | None = None

    @classmethod
    def of(cls, linear: nn.Linear) -> "Int8Linear":
        part = cls(linear.in_features, linear.out_features, bias=linear.bias is not None)
        weight_ND = linear.weight.detach().float()
        part.scale = weight_ND.abs().amax(1).clamp(min=1e-12) / MOST
        part.weight = (weight_ND / part.scale[:, None]).round().to(torch.int8)
        if linear.bias is not None:
            part.bias = linear.bias.detach().float()
        return part

    def forward(self, x: Tensor) -> Tensor:
        x_RD = x.reshape(-1, self.in_features)
        if x.device.type == "cpu" and kernels.available():
            out_RN = kernels.linear(x_RD.float(), self.ready())
        else:
            out_RN = self._by_torch(x_RD.float())
        return out_RN.view(*x.shape[:-1], self.out_features).to(x.dtype)

    def ready(self) -> kernels.Weights:
        """The weights as the compiled loops read them."""
        if self._ready is None:
            self._ready = kernels.Weights.of_int8(self.weight, self.scale, self.bias)
        return self._ready

    def _by_torch(self, x_RD: Tensor) -> Tensor:
        worth_R1 = x_RD.abs().amax(1, keepdim=True) / 127
        worth_R1 = worth_R1.masked_fill(worth_R1 == 0, 1.0)
        sums_RN = (x_RD / worth_R1).round() @ self.weight.T.float()
        out_RN = sums_RN * worth_R1 * self.scale
        return out_RN if self.bias is None else out_RN + self.bias
