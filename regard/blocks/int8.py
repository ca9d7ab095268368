"""Matrices of int8: a quarter of the memory, for linear parts and embeddings that give nearly the same.

Each output has its own scale, found when the weights are quantised; each input row has its own, from its least to
its greatest number, found as it comes. The sums are whole numbers and exact, so a row's result does not depend on
the rows beside it. Two ways lead to the same numbers: the compiled loop, and torch's float32 product of the whole
numbers, which is exact too. Only for using a model, not for training it.

R rows  D width  N outputs
"""

from typing import Any

import torch
from torch import Tensor, nn

from regard.inference.native import kernels, tensors

MOST = 64
"""Weights go from -64 to 64."""
LEVELS = 127
"""Inputs become whole numbers from 0 to 127. Without VNNI, four products are added in 16 bits: 4 x 127 x 64 fits."""


class Int8Matrix(nn.Module):
    """Whole numbers, and what one of them is worth in each row. An embedding and a projection can share it."""

    whole: Tensor
    scale: Tensor

    def __init__(self, outs: int, width: int) -> None:
        super().__init__()
        self.register_buffer("whole", torch.zeros(outs, width, dtype=torch.int8))
        self.register_buffer("scale", torch.ones(outs))
        self._packed: kernels.PackedInt8 | None = None

    @classmethod
    def of(cls, weight_ND: Tensor) -> "Int8Matrix":
        matrix = cls(*weight_ND.shape)
        if not weight_ND.is_meta:
            weight_ND = weight_ND.detach().float()
            matrix.scale = weight_ND.abs().amax(1).clamp(min=1e-12) / MOST
            matrix.whole = (weight_ND / matrix.scale[:, None]).round().to(torch.int8)
        return matrix

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_packed": None}

    def packed(self) -> kernels.PackedInt8:
        """As the compiled loops read it."""
        if self._packed is None:
            self._packed = tensors.pack_int8(self.whole, self.scale)
        return self._packed


class Int8Linear(nn.Module):
    """x weightsᵀ + bias."""

    bias: Tensor | None

    def __init__(self, weight: Int8Matrix, bias: Tensor | None) -> None:
        super().__init__()
        self.weight = weight
        self.out_features, self.in_features = weight.whole.shape
        self.register_buffer("bias", None if bias is None else bias.detach().float())
        self._ready: kernels.NativeLinear | None = None

    @classmethod
    def of(cls, linear: nn.Linear) -> "Int8Linear":
        return cls(Int8Matrix.of(linear.weight), linear.bias)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_ready": None}  # which has addresses: a copy makes its own

    def ready(self) -> kernels.NativeLinear:
        """As the compiled loops read it."""
        if self._ready is None:
            self._ready = tensors.linear_from_int8(self.weight.packed(), self.bias)
        return self._ready

    def forward(self, x: Tensor) -> Tensor:
        x_RD = x.reshape(-1, self.in_features).float()
        compiled = x.device.type == "cpu" and kernels.available()
        out_RN = tensors.linear(x_RD, self.ready()) if compiled else self._by_torch(x_RD)
        return out_RN.view(*x.shape[:-1], self.out_features).to(x.dtype)

    def _by_torch(self, x_RD: Tensor) -> Tensor:
        low_R1 = x_RD.amin(1, keepdim=True).clamp(max=0.0)
        range_R1 = x_RD.amax(1, keepdim=True).clamp(min=0.0) - low_R1
        one_R1 = torch.where(range_R1 > 0, range_R1 / LEVELS, 1.0)
        times_R1 = 1.0 / one_R1
        zero_R1 = (-low_R1 * times_R1).round()
        whole_RD = ((x_RD * times_R1).round() + zero_R1).clamp(0, LEVELS) - zero_R1
        out_RN = (whole_RD @ self.weight.whole.T.float()) * one_R1 * self.weight.scale
        return out_RN if self.bias is None else out_RN + self.bias


class Int8Embedding(nn.Module):
    """A row of the matrix for each piece of the vocabulary."""

    def __init__(self, weight: Int8Matrix, *, scale: float) -> None:
        super().__init__()
        self.weight, self.scale = weight, scale

    def forward(self, ids: Tensor) -> Tensor:
        rows = self.weight.whole[ids] * self.weight.scale[ids][..., None]
        return rows * self.scale
