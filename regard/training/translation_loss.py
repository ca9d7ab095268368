"""Teacher forcing: at every place the decoder reads what it should have written before, and is told what comes next."""

import torch
from torch import Tensor, nn

from regard.blocks.bf16_linear import BF16Linear
from regard.data.batching import Batch
from regard.models.seq2seq import Memory, Seq2Seq
from regard.training.losses import projected_cross_entropy, projected_log_likelihoods
from regard.training.minimum_risk import RewardedBatch, risk
from regard.training.rdrop import consistent_cross_entropy


class TranslationLoss(nn.Module):
    """A translation model and its loss as one module, so that whatever wraps modules (DDP, FSDP) can wrap it."""

    def __init__(self, model: Seq2Seq, smoothing: float, agreement: float = 0.0, risk: float = 0.0) -> None:
        super().__init__()
        self.model, self.smoothing, self.agreement, self.risk = model, smoothing, agreement, risk

    @property
    def half_products(self) -> bool:
        """While learning, where the linear parts of the model have them."""
        return self.training and isinstance(self.model.output, BF16Linear)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Loss and log-likelihood, both summed over the real tokens of the batch."""
        twice = self.agreement > 0 and self.model.training  # dropout makes of one batch two that differ
        seen = batch.twice() if twice else batch
        memory = self.model.encode(seen.source_BS, seen.source_present_BS)
        states_BLD = self.model.states(seen.target_BL, memory, seen.target_present_BL)
        labels_R = batch.labels_BL[batch.target_present_BL]
        output = self.model.output
        # in float32 even where the blocks run in half precision: a sum over the vocabulary has no bits to spare
        with torch.autocast(states_BLD.device.type, enabled=False):
            states_RD = states_BLD[seen.target_present_BL].float()
            if twice:
                return consistent_cross_entropy(
                    states_RD,
                    output.weight,
                    output.bias,
                    labels_R,
                    self.smoothing,
                    self.agreement,
                    half=self.half_products,
                )
            loss, likelihood = projected_cross_entropy(
                states_RD, output.weight, output.bias, labels_R, self.smoothing, half=self.half_products
            )
        if isinstance(batch, RewardedBatch):
            loss = (1 - self.risk) * loss + self.risk * self.risks(batch, memory)
        return loss, likelihood

    def risks(self, batch: RewardedBatch, memory: Memory) -> Tensor:
        """Summed over the sources, each as much as its target has tokens."""
        said_RL, labels_RL, present_RL = (
            each.flatten(0, 1) for each in (batch.said_BKL, batch.said_labels_BKL, batch.said_present_BKL)
        )
        states_RLD = self.model.states(said_RL, memory, present_RL)
        output = self.model.output
        with torch.autocast(states_RLD.device.type, enabled=False):
            own = projected_log_likelihoods(
                states_RLD[present_RL].float(),
                output.weight,
                output.bias,
                labels_RL[present_RL],
                half=self.half_products,
            )
        own_RL = own.new_zeros(present_RL.shape).masked_scatter(present_RL, own)
        each_B = risk(own_RL.view(batch.said_BKL.shape), batch.said_present_BKL, batch.worth_BK)
        return (each_B * batch.target_present_BL.sum(1)).sum()
