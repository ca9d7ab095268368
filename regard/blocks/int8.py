"""Int8 matrices: a quarter of the memory, for linear layers and embeddings that give nearly the same results.

Each output has its own scale, found when the weights are quantised. Each input row has its own scale and zero point,
from its minimum and maximum, found as it comes. The sums are integers and exact, so a row's result does not depend on
the rows beside it: torch's float32 product of the integers is exact, and so are the native kernels
(inference/native_int8.py), which give the same numbers. For inference only.

R rows  D width  N outputs
"""

import torch
from torch import Tensor, nn

QMAX = 64
"""Weights are in -64 … 64."""
INPUT_MAX = 127
"""Inputs are in 0 … 127. Without VNNI, four products are added in 16 bits: 4 x 127 x 64 fits."""


class Int8Matrix(nn.Module):
    """Integers and one scale per row. An embedding and a projection can share a matrix."""

    whole: Tensor
    scale: Tensor

    def __init__(self, outs: int, width: int) -> None:
        super().__init__()
        # `whole` holds the integers; the name is part of the file format
        self.register_buffer("whole", torch.zeros(outs, width, dtype=torch.int8))
        self.register_buffer("scale", torch.ones(outs))

    @classmethod
    def of(cls, weight_ND: Tensor) -> "Int8Matrix":
        matrix = cls(*weight_ND.shape)
        if not weight_ND.is_meta:
            weight_ND = weight_ND.detach().float()
            matrix.scale = weight_ND.abs().amax(1).clamp(min=1e-12) / QMAX
            matrix.whole = (weight_ND / matrix.scale[:, None]).round().to(torch.int8)
        return matrix


class Int8Linear(nn.Module):
    """x weightᵀ + bias."""

    bias: Tensor | None

    def __init__(self, weight: Int8Matrix, bias: Tensor | None) -> None:
        super().__init__()
        self.weight = weight
        self.out_features, self.in_features = weight.whole.shape
        self.register_buffer("bias", None if bias is None else bias.detach().float())

    @classmethod
    def of(cls, linear: nn.Linear) -> "Int8Linear":
        return cls(Int8Matrix.of(linear.weight), linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        out_RN = self.rows(x.reshape(-1, self.in_features).float())
        return out_RN.view(*x.shape[:-1], self.out_features).to(x.dtype)

    def rows(self, x_RD: Tensor) -> Tensor:
        """-> (R, N)"""
        low_R1 = x_RD.amin(1, keepdim=True).clamp(max=0.0)
        range_R1 = x_RD.amax(1, keepdim=True).clamp(min=0.0) - low_R1
        scale_R1 = torch.where(range_R1 > 0, range_R1 / INPUT_MAX, 1.0)
        inverse_R1 = 1.0 / scale_R1
        zero_R1 = (-low_R1 * inverse_R1).round()
        q_RD = ((x_RD * inverse_R1).round() + zero_R1).clamp(0, INPUT_MAX) - zero_R1
        out_RN = (q_RD @ self.weight.whole.T.float()) * scale_R1 * self.weight.scale
        return out_RN if self.bias is None else out_RN + self.bias


class Int8Embedding(nn.Module):
    """A row of the matrix for each piece of the vocabulary."""

    def __init__(self, weight: Int8Matrix, *, scale: float) -> None:
        super().__init__()
        self.weight, self.scale = weight, scale

    def forward(self, ids: Tensor) -> Tensor:
        rows = self.weight.whole[ids] * self.weight.scale[ids][..., None]
        return rows * self.scale
