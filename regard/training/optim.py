"""The optimizers: AdamW and Muon."""

import torch
from torch import nn

from regard.training.muon import Muon
from regard.training.settings import TrainSettings


def make_optimizers(model: nn.Module, settings: TrainSettings) -> list[torch.optim.Optimizer]:
    """Weight decay applies to the matrices of linear layers; not to biases, norms and embeddings."""
    embeddings = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for parameter in model.parameters():
        (matrices if parameter.dim() >= 2 and id(parameter) not in embeddings else others).append(parameter)
    if settings.optimizer == "muon":
        dtype = torch.bfloat16 if settings.dtype == "bfloat16" else torch.float32
        return [Muon(matrices, settings.lr, settings.weight_decay, dtype=dtype), _adamw([(others, 0.0)], settings)]
    return [_adamw([(matrices, settings.weight_decay), (others, 0.0)], settings)]


def _adamw(groups: list[tuple[list[nn.Parameter], float]], settings: TrainSettings) -> torch.optim.AdamW:
    first, second = settings.betas
    return torch.optim.AdamW(
        [{"params": parameters, "weight_decay": decay} for parameters, decay in groups if parameters],
        lr=settings.lr,
        betas=(first, second),
        eps=settings.eps,
        fused=True,
    )
