"""Norms: each token's vector brought to a common scale, along its features, so batch size never matters."""

import torch
from torch import Tensor, nn

LayerNorm = nn.LayerNorm
"""(x - mean) / sqrt(variance + eps) * weight + bias."""


class RMSNorm(nn.Module):
    """x / sqrt(mean(x²) + eps) * weight: no mean is taken off and no bias added."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        # in float32: the square of a half-precision number overflows at 256
        wide = x.float()
        return self.weight * (wide * (wide.square().mean(-1, keepdim=True) + self.eps).rsqrt()).to(x.dtype)
