"""Small jobs for the loop: a real model, real batches, a few updates."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.data.batching import Batch
from regard.models.config import Seq2SeqConfig
from regard.models.initialize import initialize
from regard.models.seq2seq import Seq2Seq
from regard.training.loop import Job
from regard.training.prepare import make_loss
from regard.training.settings import TrainSettings

CONFIG = Seq2SeqConfig(
    vocab=40, width=16, heads=2, inner=32, encoder_layers=1, decoder_layers=1, context=16, dropout=0.2
)
SETTINGS = TrainSettings(updates=12, warmup=3, lr=0.01, validate_every=4, log_every=1, replicas=1)


class Epoch(list[Batch]):
    """A few batches that depend on the epoch's number only."""

    def __init__(self, number: int) -> None:
        generator = torch.Generator().manual_seed(1000 + number)
        super().__init__(batch(generator, rows=6, row=10 * number + i) for i in range(5))


def batch(generator: torch.Generator, rows: int, row: int) -> Batch:
    source = torch.randint(4, 40, (rows, 7), generator=generator)
    labels = source.flip(1).clone()  # the task: say it backwards
    labels[:, -1] = 2
    target = torch.cat((torch.full((rows, 1), 1), labels[:, :-1]), 1)
    present = torch.ones_like(source, dtype=torch.bool)
    present[0, 5:] = False
    return Batch(
        source_BS=source,
        source_present_BS=present,
        target_BL=target,
        labels_BL=labels,
        target_present_BL=present,
        tokens=int(present.sum()),
        rows=torch.arange(row, row + rows),
    )


def job(run: Path, *, report: Callable[[dict[str, Any]], None] = lambda record: None, **changes: Any) -> Job:
    """A fresh model, the same every time."""
    model = Seq2Seq(CONFIG)
    initialize(model, seed=3)
    run.mkdir(exist_ok=True)
    settings = replace(SETTINGS, **changes)
    return Job(
        loss=make_loss(model, settings),
        model=model,
        batches=Epoch,
        validate=lambda: {"score": -float(sum(p.detach().square().sum() for p in model.parameters()))},
        settings=settings,
        seed=5,
        run=run,
        device=torch.device("cpu"),
        report=report,
    )


def weights(made: Job) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in made.model.parameters()])
