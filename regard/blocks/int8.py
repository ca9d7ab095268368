"""A linear part with int8 weights: a swap for nn.Linear that gives nearly the same, from a quarter of the memory.

Each output has its own scale, found when the weights are quantised; each input row has its own, from its least to
its greatest number, found as it comes.
The sums are whole numbers and exact, so a row's result does not depend on the rows beside it. Two ways lead to the
same numbers: the compiled loop, and torch's float32 product of the whole numbers, which is exact too.

R rows  D width  N outputs
"""

import torch
from torch import Tensor, nn

from regard.native import kernels

MOST = 64
"""Weights go from -64 to 64."""
LEVELS = 127
"""Inputs become whole numbers from 0 to 127. Without VNNI, four products are added in 16 bits: 4 x 127 x 64 just fits."""


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
        low_R1 = x_RD.amin(1, keepdim=True).clamp(max=0.0)
        range_R1 = x_RD.amax(1, keepdim=True).clamp(min=0.0) - low_R1
        one_R1 = torch.where(range_R1 > 0, range_R1 / LEVELS, 1.0)
        times_R1 = 1.0 / one_R1
        zero_R1 = (-low_R1 * times_R1).round()
        whole_RD = ((x_RD * times_R1).round() + zero_R1).clamp(0, LEVELS) - zero_R1
        out_RN = (whole_RD @ self.weight.T.float()) * one_R1 * self.scale
        return out_RN if self.bias is None else out_RN + self.bias
