"""Muon (Jordan et al. 2024): an optimizer for matrices whose steps are equally long in every direction.

A few directions dominate the momentum of a gradient, U S Vᵀ. Muon steps along U Vᵀ, whose singular values are all 1.
This needs no decomposition: a few iterations of an odd polynomial drive every singular value toward 1. Matrices of
the same shape are processed together (torch.optim.Muon takes them one by one, and always in bfloat16, which not all
CPUs support).

G matrices of one shape  N rows  M columns
"""

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
POLYNOMIAL = (3.4445, -4.7750, 2.0315)
"""Published coefficients of x, x³ and x⁵, steep at 0. Singular values end within 0.7 … 1.2, which is close enough."""
ITERATIONS = 5
ADAMW_STEP_SIZE = 0.2
"""Typical AdamW step of one element, as a fraction of the learning rate (Liu et al. 2025): one rate then fits both."""


class Muon(torch.optim.Optimizer):
    """For the matrices of linear layers. Embeddings, norms and biases are left to AdamW."""

    def __init__(
        self,
        matrices: Iterable[nn.Parameter],
        lr: float,
        weight_decay: float = 0.0,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """`dtype` is that of the iterations; bfloat16 is enough."""
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay})
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            alike: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for matrix in group["params"]:
                if matrix.grad is not None:
                    alike[matrix.shape].append(matrix)
            for shape, matrices in alike.items():
                momenta = [self.momentum(matrix) for matrix in matrices]
                gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
                torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
                ahead = torch._foreach_lerp(gradients, momenta, MOMENTUM)  # Nesterov momentum
                steps_GNM = orthogonal(torch.stack(list(ahead)), self.dtype)
                length = group["lr"] * ADAMW_STEP_SIZE * max(shape) ** 0.5
                torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(matrices, list(steps_GNM), alpha=-length)

    def momentum(self, matrix: Tensor) -> Tensor:
        state = self.state[matrix]
        if not state:
            state["momentum"] = torch.zeros_like(matrix)
        momentum: Tensor = state["momentum"]
        return momentum


def orthogonal(matrices_GNM: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """U Vᵀ of each matrix U S Vᵀ, approximately."""
    upright = matrices_GNM.size(1) > matrices_GNM.size(2)
    x = matrices_GNM.mT if upright else matrices_GNM
    x = (x / x.norm(dim=(1, 2), keepdim=True).clamp_min(1e-7)).to(dtype)
    of_x, of_x3, of_x5 = POLYNOMIAL
    for _ in range(ITERATIONS):
        square = x @ x.mT
        both = torch.baddbmm(square, square, square, beta=of_x3, alpha=of_x5)
        x = torch.baddbmm(x, both, x, beta=of_x)
    return (x.mT if upright else x).to(matrices_GNM.dtype)
