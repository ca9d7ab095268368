"""The optimizers, AdamW and Muon, and the learning rate schedules."""

import math

import torch
from torch import nn

from regard.training.muon import Muon
from regard.training.settings import TrainSettings


def learning_rate(settings: TrainSettings, update: int) -> float:
    """The learning rate of an update, counted from 1. A pure function, so checkpoints need no scheduler state."""
    if update < settings.warmup:
        return settings.lr * update / settings.warmup
    warmup, last = max(settings.warmup, 1), settings.updates
    match settings.schedule:
        case "constant":
            share = 1.0
        case "inverse_sqrt":
            # the paper's width^-0.5 * min(n^-0.5, n * w^-1.5), scaled so that its peak, at n = w, is `lr`. The paper's
            # own peak is (width * warmup)^-0.5: 7e-4 for a width of 512 and 4,000 updates of warm-up.
            share = math.sqrt(warmup / max(update, 1))
        case "cosine":
            done = (update - settings.warmup) / max(last - settings.warmup, 1)
            share = _between(settings.lr_floor, 0.5 * (1 + math.cos(math.pi * min(done, 1.0))))
        case "wsd":
            left = (last - update) / settings.decay
            share = _between(settings.lr_floor, min(max(left, 0.0), 1.0))
    return settings.lr * share


def _between(floor: float, share: float) -> float:
    return floor + (1 - floor) * share


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
