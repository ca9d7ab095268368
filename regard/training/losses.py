"""Logits -> one number.

The projection to the vocabulary and the loss are one function, which works through the rows in slices: it never
holds more than a slice of the logits, and it has the gradients of a slice at hand while it has its probabilities.

R rows (tokens)  D width  V vocabulary
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.blocks.bf16_linear import ROWS, padded, to_bf16

SLICE = 16 << 20
"""Bytes of logits at once: half of a usual third-level cache. Smaller slices read the whole matrix more often."""


class Products:
    """The three products of a slice of rows with the matrix of the vocabulary, perhaps in half precision."""

    def __init__(self, weight_VD: Tensor, bias_V: Tensor | None, most: int, half: bool) -> None:
        """For slices of so many rows at the most."""
        self.weight_VD, self.bias_V, self.room = weight_VD, bias_V, None
        if half:
            self.weight_VD = weight_VD.bfloat16()
            self.room = self.weight_VD.new_empty(padded(most), len(weight_VD))

    def logits(self, rows_RD: Tensor, out_RV: Tensor) -> Tensor:
        """In the first rows of a room that is there."""
        out_RV = out_RV[: len(rows_RD)]
        if self.room is None:
            torch.mm(rows_RD, self.weight_VD.T, out=out_RV)
        else:
            half_RV = torch.mm(to_bf16(rows_RD), self.weight_VD.T, out=self.room[: padded(len(rows_RD))])
            out_RV.copy_(half_RV[: len(rows_RD)])
        return out_RV if self.bias_V is None else out_RV.add_(self.bias_V)

    def back(self, errors_RV: Tensor, rows_RD: Tensor, grad_RD: Tensor, grad_VD: Tensor) -> None:
        """What the errors of the logits say of the rows, written, and of the matrix, added."""
        if self.room is None:
            torch.mm(errors_RV, self.weight_VD, out=grad_RD)
            grad_VD.addmm_(errors_RV.T, rows_RD)
        else:
            half_RV = to_bf16(errors_RV, self.room)
            grad_RD.copy_(torch.mm(half_RV, self.weight_VD)[: len(rows_RD)])
            grad_VD += torch.mm(half_RV.T, to_bf16(rows_RD))


class _ProjectedCrossEntropy(torch.autograd.Function):
    """sum over rows of cross-entropy(states weightᵀ + bias, labels), smoothed."""

    @staticmethod
    def forward(
        ctx: Any,
        states_RD: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        labels_R: Tensor,
        smoothing: float,
        half: bool,
    ) -> tuple[Tensor, Tensor]:
        vocab = len(weight_VD)
        grad_states = torch.empty_like(states_RD)
        grad_weight = torch.zeros_like(weight_VD)
        grad_bias = None if bias_V is None else torch.zeros_like(bias_V)
        of_label_R1, normalizer_R1 = (states_RD.new_empty(len(states_RD), 1) for _ in range(2))
        parts = slices(len(states_RD), vocab)
        most = min(parts[0].stop, len(states_RD))
        room_RV = states_RD.new_empty(most, vocab)  # fresh memory is slow to touch
        products = Products(weight_VD, bias_V, most, half)
        # The probabilities are powers / total, and the gradient of the logits is the probabilities less the target.
        # A smoothed target is (1 - s) at the label and s / V everywhere; its constant part is a rank-one matrix, and is
        # added at the end. Nothing divides the large matrix by its totals: the small ones around it are divided.
        for part in parts:
            rows_RD, wanted_R1 = states_RD[part], labels_R[part, None]
            logits_RV = products.logits(rows_RD, room_RV)
            of_label_R1[part] = logits_RV.gather(1, wanted_R1)
            highest_R1 = logits_RV.amax(1, keepdim=True)
            powers_RV = logits_RV.sub_(highest_R1).exp_()
            total_R1 = powers_RV.sum(1, keepdim=True)
            normalizer_R1[part] = highest_R1 + total_R1.log()
            powers_RV.scatter_add_(1, wanted_R1, (smoothing - 1) * total_R1)
            products.back(powers_RV, rows_RD / total_R1, grad_states[part], grad_weight)
            grad_states[part] /= total_R1
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
        return (*at_hand(ctx, grads[0]), None, None, None)


def at_hand(ctx: Any, grad: Tensor) -> list[Tensor | None]:
    """The gradients that the forward pass left, times what came from above."""
    return [None if each is None else each * grad.to(each.dtype) for each in ctx.saved_tensors]


def slices(rows: int, vocab: int) -> list[slice]:
    """Rows of so many logits, as many as fit a slice."""
    size = SLICE // (4 * vocab)
    size = size // ROWS * ROWS if size > ROWS else max(1, size)
    return [slice(start, start + size) for start in range(0, max(rows, 1), size)]


def projected_cross_entropy(
    states_RD: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor | None,
    labels_R: Tensor,
    smoothing: float = 0.0,
    *,
    half: bool = False,
) -> tuple[Tensor, Tensor]:
    """The loss summed over rows, and the log-likelihood of the labels (without smoothing, without gradient).

    `half`: with products of bfloat16, see blocks/bf16_linear.py; sums are float32 all the same.
    """
    loss, likelihood = _ProjectedCrossEntropy.apply(states_RD, weight_VD, bias_V, labels_R, smoothing, half)  # type: ignore[no-untyped-call]
    return loss, likelihood


class _ProjectedLogLikelihoods(torch.autograd.Function):
    """log-softmax(states weightᵀ + bias) at the labels. What a row counts for is known only when all have been seen,
    so the logits are made again on the way back."""

    @staticmethod
    def forward(
        ctx: Any, states_RD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, labels_R: Tensor, half: bool
    ) -> Tensor:
        of_label_R1, normalizer_R1 = (states_RD.new_empty(len(states_RD), 1) for _ in range(2))
        for part, logits_RV, _ in _logits(states_RD, weight_VD, bias_V, half):
            of_label_R1[part] = logits_RV.gather(1, labels_R[part, None])
            normalizer_R1[part] = logits_RV.logsumexp(1, keepdim=True)
        ctx.save_for_backward(states_RD, weight_VD, bias_V, labels_R, normalizer_R1)
        ctx.half = half
        return (of_label_R1 - normalizer_R1)[:, 0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        states_RD, weight_VD, bias_V, labels_R, normalizer_R1 = ctx.saved_tensors
        (grad_R,) = grads
        grad_states = torch.empty_like(states_RD)
        grad_weight = torch.zeros_like(weight_VD)
        grad_bias = None if bias_V is None else torch.zeros_like(bias_V)
        for part, logits_RV, products in _logits(states_RD, weight_VD, bias_V, ctx.half):
            grad_R1 = grad_R[part, None]
            p_RV = logits_RV.sub_(normalizer_R1[part]).exp_()
            grad_RV = p_RV.mul_(-grad_R1).scatter_add_(1, labels_R[part, None], grad_R1)
            products.back(grad_RV, states_RD[part], grad_states[part], grad_weight)
            if grad_bias is not None:
                grad_bias += grad_RV.sum(0)
        return grad_states, grad_weight, grad_bias, None, None


def _logits(
    states_RD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, half: bool
) -> Iterator[tuple[slice, Tensor, Products]]:
    """A slice of rows at a time, in a room that the next slice uses again, and the products for the way back."""
    vocab = len(weight_VD)
    parts = slices(len(states_RD), vocab)
    most = min(parts[0].stop, len(states_RD))
    room_RV, products = states_RD.new_empty(most, vocab), Products(weight_VD, bias_V, most, half)
    for part in parts:
        yield part, products.logits(states_RD[part], room_RV), products


def projected_log_likelihoods(
    states_RD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, labels_R: Tensor, *, half: bool = False
) -> Tensor:
    """The log-likelihood of each row's label, to be made a loss of."""
    own_R: Tensor = _ProjectedLogLikelihoods.apply(states_RD, weight_VD, bias_V, labels_R, half)  # type: ignore[no-untyped-call]
    return own_R
