"""R-Drop (Liang et al. 2021): each pair is learnt from twice at once, with two patterns of dropout, which must agree.

    loss = mean of both cross-entropies + agreement / 2 x mean of both Kullback-Leibler divergences

With a and b the two passes, p their probabilities, d = log p_a - log p_b and c = agreement / 4, the gradient of a's
logits is (p_a - target) / 2 + c (p_a (1 + d - E_a[d]) - p_b), and b's the same with the sign of d turned. As in
losses.py, the logits are there a slice at a time, and the gradients are made while they are.

R rows (tokens of one pass)  D width  V vocabulary
"""

from typing import Any

import torch
from torch import Tensor

from regard.training.losses import Products, at_hand, slices


class _ConsistentCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states_2RD: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        labels_R: Tensor,
        smoothing: float,
        agreement: float,
        half: bool,
    ) -> tuple[Tensor, Tensor]:
        vocab, rows = len(weight_VD), len(labels_R)
        share, strength = 0.5, agreement / 4
        grad_states = torch.empty_like(states_2RD)
        grad_weight = torch.zeros_like(weight_VD)
        grad_bias = None if bias_V is None else torch.zeros_like(bias_V)
        loss, likelihood = (torch.zeros((), dtype=torch.float64, device=states_2RD.device) for _ in range(2))
        parts = slices(rows, 4 * vocab)  # of four such matrices at a time
        most = min(parts[0].stop, rows)
        rooms = [states_2RD.new_empty(most, vocab) for _ in range(4)]
        products = Products(weight_VD, bias_V, most, half)
        for part in parts:
            wanted_R1 = labels_R[part, None]
            logs, powers = [], []
            for states_RD, log_room, room in zip(states_2RD.chunk(2), rooms[:2], rooms[2:], strict=True):
                log_RV = products.logits(states_RD[part], log_room)
                log_RV -= log_RV.logsumexp(1, keepdim=True)
                own_R1 = log_RV.gather(1, wanted_R1)
                likelihood += share * own_R1.sum(dtype=torch.float64)
                loss -= share * (1 - smoothing) * own_R1.sum(dtype=torch.float64)
                if smoothing:
                    loss -= share * smoothing / vocab * log_RV.sum(dtype=torch.float64)
                logs.append(log_RV)
                powers.append(torch.exp(log_RV, out=room[: len(wanted_R1)]))
            d_RV = logs[0].sub_(logs[1])
            means = [torch.linalg.vecdot(p_RV, d_RV)[:, None] for p_RV in powers]
            loss += strength * (means[0] - means[1]).sum(dtype=torch.float64)
            # p (1/2 + strength (1 + sign (d - mean))) - strength x the other's p - target / 2
            grads = [
                torch.add(share + strength - sign * strength * mean_R1, d_RV, alpha=sign * strength, out=room)
                for sign, mean_R1, room in zip((1, -1), means, (logs[1], rooms[0][: len(d_RV)]), strict=True)
            ]
            passes = zip(states_2RD.chunk(2), grad_states.chunk(2), grads, powers, powers[::-1], strict=True)
            for states_RD, grad_RD, grad_RV, own_RV, other_RV in passes:
                grad_RV.mul_(own_RV).sub_(other_RV, alpha=strength)
                target_R1 = grad_RV.new_full(wanted_R1.shape, share * (smoothing - 1))
                grad_RV.scatter_add_(1, wanted_R1, target_R1)
                if smoothing:
                    grad_RV -= share * smoothing / vocab
                products.back(grad_RV, states_RD[part], grad_RD[part], grad_weight)
                if grad_bias is not None:
                    grad_bias += grad_RV.sum(0)
        ctx.save_for_backward(grad_states, grad_weight, grad_bias)
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (*at_hand(ctx, grads[0]), None, None, None, None)


def consistent_cross_entropy(
    states_2RD: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor | None,
    labels_R: Tensor,
    smoothing: float,
    agreement: float,
    *,
    half: bool = False,
) -> tuple[Tensor, Tensor]:
    """The loss summed over rows, and the log-likelihood of the labels: the mean of the two halves of the states."""
    loss, likelihood = _ConsistentCrossEntropy.apply(  # type: ignore[no-untyped-call]
        states_2RD, weight_VD, bias_V, labels_R, smoothing, agreement, half
    )
    return loss, likelihood
