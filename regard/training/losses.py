"""Logits -> one number.

The projection to the vocabulary and the loss are one function, which works through the rows in slices: it never
holds more than a slice of the logits, and it has the gradients of a slice at hand while it has its probabilities.

R rows (tokens)  D width  V vocabulary
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

SLICE = 16 << 20
"""Bytes of logits at once: half of a usual third-level cache. Smaller slices read the whole matrix more often."""


class _ProjectedCrossEntropy(torch.autograd.Function):
    """sum over rows of cross-entropy(states weightᵀ + bias, labels), smoothed."""

    @staticmethod
    def forward(
        ctx: Any, states_RD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, labels_R: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        vocab = len(weight_VD)
        grad_states = torch.empty_like(states_RD)
        grad_weight = torch.zeros_like(weight_VD)
        grad_bias = None if bias_V is None else torch.zeros_like(bias_V)
        of_label_R1, normalizer_R1 = (states_RD.new_empty(len(states_RD), 1) for _ in range(2))
        parts = slices(len(states_RD), vocab)
        room_RV = states_RD.new_empty(min(parts[0].stop, len(states_RD)), vocab)  # fresh memory is slow to touch
        # The probabilities are powers / total, and the gradient of the logits is the probabilities less the target.
        # A smoothed target is (1 - s) at the label and s / V everywhere; its constant part is a rank-one matrix, and is
        # added at the end. Nothing divides the large matrix by its totals: the small ones around it are divided.
        for part in parts:
            rows_RD, wanted_R1 = states_RD[part], labels_R[part, None]
            logits_RV = torch.mm(rows_RD, weight_VD.T, out=room_RV[: len(rows_RD)])
            if bias_V is not None:
                logits_RV += bias_V
            of_label_R1[part] = logits_RV.gather(1, wanted_R1)
            highest_R1 = logits_RV.amax(1, keepdim=True)
            powers_RV = logits_RV.sub_(highest_R1).exp_()
            total_R1 = powers_RV.sum(1, keepdim=True)
            normalizer_R1[part] = highest_R1 + total_R1.log()
            powers_RV.scatter_add_(1, wanted_R1, (smoothing - 1) * total_R1)
            torch.mm(powers_RV, weight_VD, out=grad_states[part]).div_(total_R1)
            grad_weight.addmm_(powers_RV.T, rows_RD / total_R1)
            if grad_bias is not None:
                grad_bias.addmv_(powers_RV.T, (1 / total_R1).flatten())
        likelihood = (of_label_R1 - normalizer_R1).sum(dtype=torch.float64)
        loss = (smoothing - 1) * likelihood
        if smoothing:
            weight_sum_D, states_sum_D = weight_VD.sum(0), states_RD.sum(0)
            logits_mean = (states_RD @ weight_sum_D).sum(dtype=torch.float64) / vocab
            if bias_V is not None:
                logits_mean += len(states_RD) * bias_V.mean(dtype=torch.float64)
            loss += smoothing * (normalizer_R1.sum(dtype=torch.float64) - logits_mean)
            grad_states -= smoothing / vocab * weight_sum_D
            grad_weight -= smoothing / vocab * states_sum_D
            if grad_bias is not None:
                grad_bias -= smoothing * len(states_RD) / vocab
        ctx.save_for_backward(grad_states, grad_weight, grad_bias)
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (*at_hand(ctx, grads[0]), None, None)


def at_hand(ctx: Any, grad: Tensor) -> list[Tensor | None]:
    """The gradients that the forward pass left, times what came from above."""
    return [None if each is None else each * grad.to(each.dtype) for each in ctx.saved_tensors]


def slices(rows: int, vocab: int) -> list[slice]:
    """Rows of so many logits, as many as fit a slice."""
    size = max(1, SLICE // (4 * vocab))
    return [slice(start, start + size) for start in range(0, max(rows, 1), size)]


def projected_cross_entropy(
    states_RD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, labels_R: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The loss summed over rows, and the log-likelihood of the labels (without smoothing, without gradient)."""
    loss, likelihood = _ProjectedCrossEntropy.apply(states_RD, weight_VD, bias_V, labels_R, smoothing)  # type: ignore[no-untyped-call]
    return loss, likelihood


class _ProjectedLogLikelihoods(torch.autograd.Function):
    """log-softmax(states weightᵀ + bias) at the labels. What a row counts for is known only when all have been seen,
    so the logits are made again on the way back."""

    @staticmethod
    def forward(ctx: Any, states_RD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, labels_R: Tensor) -> Tensor:
        own_R = states_RD.new_empty(len(states_RD))
        for part, log_RV in _log_probabilities(states_RD, weight_VD, bias_V):
            own_R[part] = log_RV.gather(1, labels_R[part, None])[:, 0]
        ctx.save_for_backward(states_RD, weight_VD, bias_V, labels_R)
        return own_R

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        states_RD, weight_VD, bias_V, labels_R = ctx.saved_tensors
        (grad_R,) = grads
        grad_states = torch.empty_like(states_RD)
        grad_weight = torch.zeros_like(weight_VD)
        grad_bias = None if bias_V is None else torch.zeros_like(bias_V)
        for part, log_RV in _log_probabilities(states_RD, weight_VD, bias_V):
            grad_R1 = grad_R[part, None]
            grad_RV = log_RV.exp_().mul_(-grad_R1).scatter_add_(1, labels_R[part, None], grad_R1)
            torch.mm(grad_RV, weight_VD, out=grad_states[part])
            grad_weight.addmm_(grad_RV.T, states_RD[part])
            if grad_bias is not None:
                grad_bias += grad_RV.sum(0)
        return grad_states, grad_weight, grad_bias, None


def _log_probabilities(states_RD: Tensor, weight_VD: Tensor, bias_V: Tensor | None) -> Iterator[tuple[slice, Tensor]]:
    """A slice of rows at a time, in a room that the next slice uses again."""
    parts = slices(len(states_RD), len(weight_VD))
    room_RV = states_RD.new_empty(min(parts[0].stop, len(states_RD)), len(weight_VD))
    for part in parts:
        yield part, log_probabilities(states_RD[part], weight_VD, bias_V, room_RV)


def log_probabilities(rows_RD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, room_RV: Tensor) -> Tensor:
    """log-softmax(rows weightᵀ + bias), in the first rows of a room that is there."""
    log_RV = torch.mm(rows_RD, weight_VD.T, out=room_RV[: len(rows_RD)])
    if bias_V is not None:
        log_RV += bias_V
    log_RV -= log_RV.logsumexp(1, keepdim=True)
    return log_RV


def projected_log_likelihoods(states_RD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, labels_R: Tensor) -> Tensor:
    """The log-likelihood of each row's label, to be made a loss of."""
    own_R: Tensor = _ProjectedLogLikelihoods.apply(states_RD, weight_VD, bias_V, labels_R)  # type: ignore[no-untyped-call]
    return own_R
