"""R-Drop (Liang et al. 2021): train on each pair twice at once with different dropout, and make both passes agree.

    loss = mean of both cross-entropies + alpha / 2 x mean of both Kullback-Leibler divergences

With a and b the two passes, p their probabilities, d = log p_a - log p_b and c = alpha / 4, the gradient of a's
logits is (p_a - target) / 2 + c (p_a (1 + d - E_a[d]) - p_b), and that of b's is the same with the sign of d flipped.
As in losses.py, only one slice of the logits is in memory at a time, and its gradients are computed while it is.

R rows (tokens of one pass)  D width  V vocabulary
"""

from typing import Any

import torch
from torch import Tensor

from regard.data.batching import Batch
from regard.models.seq2seq import Seq2Seq
from regard.training.losses import Projection, TranslationLoss, scaled_gradients, slices


class RDropLoss(TranslationLoss):
    """Cross-entropy of two passes while training, plus their divergence; the plain loss in evaluation mode."""

    def __init__(self, model: Seq2Seq, smoothing: float, alpha: float) -> None:
        super().__init__(model, smoothing)
        self.alpha = alpha

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        if not self.model.training:  # without dropout both passes would be the same
            return super().forward(batch)
        both = batch.twice()
        memory = self.model.encode(both.source_BS, both.source_present_BS)
        states_BLD = self.model.states(both.target_BL, memory, both.target_present_BL)
        states_2RD = states_BLD[both.target_present_BL].float()
        labels_R = batch.labels_BL[batch.target_present_BL]
        output = self.model.output
        with torch.autocast(states_2RD.device.type, enabled=False):
            return rdrop_cross_entropy(
                states_2RD, output.weight, output.bias, labels_R, self.smoothing, self.alpha, bf16=self.bf16
            )


class _RDropCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states_2RD: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        labels_R: Tensor,
        smoothing: float,
        alpha: float,
        bf16: bool,
    ) -> tuple[Tensor, Tensor]:
        vocab, rows = len(weight_VD), len(labels_R)
        share, strength = 0.5, alpha / 4
        grad_states = torch.empty_like(states_2RD)
        grad_weight = torch.zeros_like(weight_VD)
        grad_bias = None if bias_V is None else torch.zeros_like(bias_V)
        loss, log_likelihood = (torch.zeros((), dtype=torch.float64, device=states_2RD.device) for _ in range(2))
        parts = slices(rows, 4 * vocab)  # four such matrices are in memory at a time
        max_rows = min(parts[0].stop, rows)
        # Two buffers hold log-probabilities, two hold probabilities. d overwrites a's log-probabilities; then a's
        # gradient overwrites b's log-probabilities, and b's gradient overwrites d.
        log_buffers, p_buffers = ([states_2RD.new_empty(max_rows, vocab) for _ in range(2)] for _ in range(2))
        projection = Projection(weight_VD, bias_V, max_rows, bf16)
        for part in parts:
            label_R1 = labels_R[part, None]
            log_probs, probs = [], []
            for states_RD, log_buffer, p_buffer in zip(states_2RD.chunk(2), log_buffers, p_buffers, strict=True):
                log_RV = projection.logits(states_RD[part], log_buffer)
                log_RV -= log_RV.logsumexp(1, keepdim=True)
                label_log_R1 = log_RV.gather(1, label_R1)
                log_likelihood += share * label_log_R1.sum(dtype=torch.float64)
                loss -= share * (1 - smoothing) * label_log_R1.sum(dtype=torch.float64)
                if smoothing:
                    loss -= share * smoothing / vocab * log_RV.sum(dtype=torch.float64)
                log_probs.append(log_RV)
                probs.append(torch.exp(log_RV, out=p_buffer[: len(label_R1)]))
            d_RV = log_probs[0].sub_(log_probs[1])
            means = [torch.linalg.vecdot(p_RV, d_RV)[:, None] for p_RV in probs]
            loss += strength * (means[0] - means[1]).sum(dtype=torch.float64)
            # p (1/2 + strength (1 + sign (d - mean))) - strength x the other's p - target / 2
            grads = [
                torch.add(share + strength - sign * strength * mean_R1, d_RV, alpha=sign * strength, out=buffer)
                for sign, mean_R1, buffer in zip((1, -1), means, (log_probs[1], d_RV), strict=True)
            ]
            passes = zip(states_2RD.chunk(2), grad_states.chunk(2), grads, probs, probs[::-1], strict=True)
            for states_RD, grad_RD, grad_RV, p_RV, other_p_RV in passes:
                grad_RV.mul_(p_RV).sub_(other_p_RV, alpha=strength)
                target_R1 = grad_RV.new_full(label_R1.shape, share * (smoothing - 1))
                grad_RV.scatter_add_(1, label_R1, target_R1)
                if smoothing:
                    grad_RV -= share * smoothing / vocab
                projection.backward(grad_RV, states_RD[part], grad_RD[part], grad_weight)
                if grad_bias is not None:
                    grad_bias += grad_RV.sum(0)
        ctx.save_for_backward(grad_states, grad_weight, grad_bias)
        ctx.mark_non_differentiable(log_likelihood)
        return loss, log_likelihood

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (*scaled_gradients(ctx, grads[0]), None, None, None, None)


def rdrop_cross_entropy(
    states_2RD: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor | None,
    labels_R: Tensor,
    smoothing: float,
    alpha: float,
    *,
    bf16: bool = False,
) -> tuple[Tensor, Tensor]:
    """The loss summed over rows, and the log-likelihood of the labels, both averaged over the two passes.

    `states_2RD`: the rows of the first pass, then those of the second.
    """
    loss, log_likelihood = _RDropCrossEntropy.apply(  # type: ignore[no-untyped-call]
        states_2RD, weight_VD, bias_V, labels_R, smoothing, alpha, bf16
    )
    return loss, log_likelihood
