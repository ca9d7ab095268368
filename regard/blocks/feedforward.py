"""Feed-forward: a small network applied to each position separately, after attention.

D width  F inner width
"""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Activation] = {
    "relu": F.relu,  # the paper's
    "gelu": F.gelu,  # exact: x times the normal distribution function (BERT, ViT)
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # GPT-2's approximation of it
    "silu": F.silu,  # x * sigmoid(x), also called swish (OPUS-MT)
    "tanh": F.tanh,
}


class FeedForward(nn.Module):
    """Project up, activate, project down: down(act(up(x)))."""

    def __init__(self, width: int, inner: int, activation: str = "relu", *, bias: bool = True) -> None:
        super().__init__()
        self.up = nn.Linear(width, inner, bias)
        self.down = nn.Linear(inner, width, bias)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        down: Tensor = self.down(self.activation(self.up(x)))
        return down


class SwiGLU(nn.Module):
    """Two projections up, one gating the other: down(silu(gate(x)) * up(x))."""

    def __init__(self, width: int, inner: int, *, bias: bool = False) -> None:
        super().__init__()
        self.gate = nn.Linear(width, inner, bias)
        self.up = nn.Linear(width, inner, bias)
        self.down = nn.Linear(inner, width, bias)

    def forward(self, x: Tensor) -> Tensor:
        down: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return down
