"""The training loss of a translation model: a batch in, a number out.

The projection to the vocabulary and the cross-entropy are one function that works through the rows in slices. It
never holds more than one slice of the logits, and it computes the gradients of a slice while its probabilities are in
memory.

B batch  L target length  R rows (tokens)  D width  V vocabulary
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from regard.blocks.bf16_linear import ROW_MULTIPLE, BF16Linear, padded_rows, to_bf16
from regard.data.batching import Batch
from regard.models.seq2seq import Memory, Seq2Seq

SLICE_BYTES = 16 << 20
"""Size of a slice of logits: half of a typical L3 cache. Smaller slices read the vocabulary matrix more often."""


class TranslationLoss(nn.Module):
    """A translation model and its loss as one module, so that DDP and FSDP can wrap both.

    Teacher forcing: the decoder reads the correct target up to each position and predicts the next token.
    """

    def __init__(self, model: Seq2Seq, smoothing: float) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing

    @property
    def bf16(self) -> bool:
        """Whether the projection uses bfloat16 products: while training, if the linear layers of the model do."""
        return self.training and isinstance(self.model.output, BF16Linear)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Loss and log-likelihood, both summed over the tokens of the batch (padding excluded)."""
        memory = self.model.encode(batch.source_BS, batch.source_present_BS)
        return self.cross_entropy(batch, memory)

    def cross_entropy(self, batch: Batch, memory: Memory) -> tuple[Tensor, Tensor]:
        states_BLD = self.model.states(batch.target_BL, memory, batch.target_present_BL)
        states_RD = states_BLD[batch.target_present_BL].float()
        labels_R = batch.labels_BL[batch.target_present_BL]
        output = self.model.output
        # in float32 even where the blocks run in half precision: a sum over the vocabulary needs all of its bits
        with torch.autocast(states_RD.device.type, enabled=False):
            return projected_cross_entropy(
                states_RD, output.weight, output.bias, labels_R, self.smoothing, bf16=self.bf16
            )


class Projection:
    """The three matrix products between a slice of rows and the vocabulary matrix, in float32 or bfloat16."""

    def __init__(self, weight_VD: Tensor, bias_V: Tensor | None, max_rows: int, bf16: bool) -> None:
        """`max_rows`: rows of the largest slice."""
        self.weight_VD, self.bias_V, self.buffer = weight_VD, bias_V, None
        if bf16:
            self.weight_VD = weight_VD.bfloat16()
            self.buffer = self.weight_VD.new_empty(padded_rows(max_rows), len(weight_VD))

    def logits(self, rows_RD: Tensor, out_RV: Tensor) -> Tensor:
        """The logits of the rows, written to the first rows of `out_RV`."""
        out_RV = out_RV[: len(rows_RD)]
        if self.buffer is None:
            torch.mm(rows_RD, self.weight_VD.T, out=out_RV)
        else:
            bf16_RV = torch.mm(to_bf16(rows_RD), self.weight_VD.T, out=self.buffer[: padded_rows(len(rows_RD))])
            out_RV.copy_(bf16_RV[: len(rows_RD)])
        return out_RV if self.bias_V is None else out_RV.add_(self.bias_V)

    def backward(self, grad_RV: Tensor, rows_RD: Tensor, grad_RD: Tensor, grad_VD: Tensor) -> None:
        """From the gradient of the logits: write the gradient of the rows, add to the gradient of the matrix."""
        if self.buffer is None:
            torch.mm(grad_RV, self.weight_VD, out=grad_RD)
            grad_VD.addmm_(grad_RV.T, rows_RD)
        else:
            bf16_RV = to_bf16(grad_RV, self.buffer)
            grad_RD.copy_(torch.mm(bf16_RV, self.weight_VD)[: len(rows_RD)])
            grad_VD += torch.mm(bf16_RV.T, to_bf16(rows_RD))


class _ProjectedCrossEntropy(torch.autograd.Function):
    """Sum over rows of cross-entropy(states weightᵀ + bias, labels), with label smoothing."""

    @staticmethod
    def forward(
        ctx: Any,
        states_RD: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        labels_R: Tensor,
        smoothing: float,
        bf16: bool,
    ) -> tuple[Tensor, Tensor]:
        vocab = len(weight_VD)
        grad_states = torch.empty_like(states_RD)
        grad_weight = torch.zeros_like(weight_VD)
        grad_bias = None if bias_V is None else torch.zeros_like(bias_V)
        label_logits_R1, normalizer_R1 = (states_RD.new_empty(len(states_RD), 1) for _ in range(2))
        parts = slices(len(states_RD), vocab)
        max_rows = min(parts[0].stop, len(states_RD))
        buffer_RV = states_RD.new_empty(max_rows, vocab)  # one for all slices: fresh memory is slow to touch
        projection = Projection(weight_VD, bias_V, max_rows, bf16)
        # The probabilities are exps / total, and the gradient of the logits is the probabilities minus the target.
        # A smoothed target is (1 - s) at the label plus s / V everywhere. Its constant part is a rank-one matrix, added
        # at the end. The large matrix is never divided by its totals: the small ones around it are.
        for part in parts:
            rows_RD, label_R1 = states_RD[part], labels_R[part, None]
            logits_RV = projection.logits(rows_RD, buffer_RV)
            label_logits_R1[part] = logits_RV.gather(1, label_R1)
            max_R1 = logits_RV.amax(1, keepdim=True)
            exps_RV = logits_RV.sub_(max_R1).exp_()
            total_R1 = exps_RV.sum(1, keepdim=True)
            normalizer_R1[part] = max_R1 + total_R1.log()
            exps_RV.scatter_add_(1, label_R1, (smoothing - 1) * total_R1)
            projection.backward(exps_RV, rows_RD / total_R1, grad_states[part], grad_weight)
            grad_states[part] /= total_R1
            if grad_bias is not None:
                grad_bias.addmv_(exps_RV.T, (1 / total_R1).flatten())
        log_likelihood = (label_logits_R1 - normalizer_R1).sum(dtype=torch.float64)
        loss = (smoothing - 1) * log_likelihood
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
        ctx.mark_non_differentiable(log_likelihood)
        return loss, log_likelihood

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (*scaled_gradients(ctx, grads[0]), None, None, None)


def scaled_gradients(ctx: Any, grad: Tensor) -> list[Tensor | None]:
    """The gradients that the forward pass saved, times the gradient of the loss."""
    return [None if each is None else each * grad.to(each.dtype) for each in ctx.saved_tensors]


def slices(rows: int, vocab: int) -> list[slice]:
    """Cut `rows` rows of `vocab` float32 logits into slices of at most SLICE_BYTES."""
    size = SLICE_BYTES // (4 * vocab)
    size = size // ROW_MULTIPLE * ROW_MULTIPLE if size > ROW_MULTIPLE else max(1, size)
    return [slice(start, start + size) for start in range(0, max(rows, 1), size)]


def projected_cross_entropy(
    states_RD: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor | None,
    labels_R: Tensor,
    smoothing: float = 0.0,
    *,
    bf16: bool = False,
) -> tuple[Tensor, Tensor]:
    """The loss summed over rows, and the log-likelihood of the labels (without smoothing, without gradient).

    `bf16`: use bfloat16 products, see blocks/bf16_linear.py; sums stay float32.
    """
    loss, log_likelihood = _ProjectedCrossEntropy.apply(states_RD, weight_VD, bias_V, labels_R, smoothing, bf16)  # type: ignore[no-untyped-call]
    return loss, log_likelihood


class _ProjectedLogProbs(torch.autograd.Function):
    """log-softmax(states weightᵀ + bias) at the labels. The weight of a row is known only after all rows were seen, so
    the backward pass computes the logits again."""

    @staticmethod
    def forward(
        ctx: Any, states_RD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, labels_R: Tensor, bf16: bool
    ) -> Tensor:
        label_logits_R1, normalizer_R1 = (states_RD.new_empty(len(states_RD), 1) for _ in range(2))
        for part, logits_RV, _ in _sliced_logits(states_RD, weight_VD, bias_V, bf16):
            label_logits_R1[part] = logits_RV.gather(1, labels_R[part, None])
            normalizer_R1[part] = logits_RV.logsumexp(1, keepdim=True)
        ctx.save_for_backward(states_RD, weight_VD, bias_V, labels_R, normalizer_R1)
        ctx.bf16 = bf16
        return (label_logits_R1 - normalizer_R1)[:, 0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        states_RD, weight_VD, bias_V, labels_R, normalizer_R1 = ctx.saved_tensors
        (grad_R,) = grads
        grad_states = torch.empty_like(states_RD)
        grad_weight = torch.zeros_like(weight_VD)
        grad_bias = None if bias_V is None else torch.zeros_like(bias_V)
        for part, logits_RV, projection in _sliced_logits(states_RD, weight_VD, bias_V, ctx.bf16):
            grad_R1 = grad_R[part, None]
            p_RV = logits_RV.sub_(normalizer_R1[part]).exp_()
            grad_RV = p_RV.mul_(-grad_R1).scatter_add_(1, labels_R[part, None], grad_R1)
            projection.backward(grad_RV, states_RD[part], grad_states[part], grad_weight)
            if grad_bias is not None:
                grad_bias += grad_RV.sum(0)
        return grad_states, grad_weight, grad_bias, None, None


def _sliced_logits(
    states_RD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, bf16: bool
) -> Iterator[tuple[slice, Tensor, Projection]]:
    """The logits of one slice of rows at a time, in a buffer that the next slice reuses, and the projection."""
    vocab = len(weight_VD)
    parts = slices(len(states_RD), vocab)
    max_rows = min(parts[0].stop, len(states_RD))
    buffer_RV, projection = states_RD.new_empty(max_rows, vocab), Projection(weight_VD, bias_V, max_rows, bf16)
    for part in parts:
        yield part, projection.logits(states_RD[part], buffer_RV), projection


def projected_log_probs(
    states_RD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, labels_R: Tensor, *, bf16: bool = False
) -> Tensor:
    """The log-probability of each row's label, with gradient."""
    log_probs_R: Tensor = _ProjectedLogProbs.apply(states_RD, weight_VD, bias_V, labels_R, bf16)  # type: ignore[no-untyped-call]
    return log_probs_R
