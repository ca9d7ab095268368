"""Norms: scale each token's vector along its features, independently of the batch."""

import torch
from torch import Tensor, nn

LayerNorm = nn.LayerNorm
"""(x - mean) / sqrt(variance + eps) * weight + bias."""


class RMSNorm(nn.Module):
    """x / sqrt(mean(x²) + eps) * weight: no mean is subtracted and no bias added."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        # in float32: in half precision, the square of 256 overflows
        wide = x.float()
        return self.weight * (wide * (wide.square().mean(-1, keepdim=True) + self.eps).rsqrt()).to(x.dtype)
