"""Schedules, as the papers have them."""

import math

import pytest
import torch
from torch import nn

from regard.errors import ConfigError
from regard.training.loop import learning_rate
from regard.training.optim import make_optimizers
from regard.training.settings import TrainSettings


def test_the_paper_s_schedule() -> None:
    """lr = width^-0.5 * min(step^-0.5, step * 4000^-1.5)"""
    settings = TrainSettings(updates=100_000, warmup=4000, lr=(512 * 4000) ** -0.5)
    for step in (1, 100, 3999, 4000, 4001, 20_000, 100_000):
        expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert learning_rate(settings, step) == pytest.approx(expected, rel=1e-9)
    assert settings.lr == pytest.approx(6.99e-4, rel=1e-3)


def test_cosine() -> None:
    settings = TrainSettings(updates=1000, warmup=100, lr=1.0, schedule="cosine", lr_floor=0.1)
    assert learning_rate(settings, 50) == pytest.approx(0.5)
    assert learning_rate(settings, 100) == pytest.approx(1.0)
    assert learning_rate(settings, 550) == pytest.approx(0.55)
    assert learning_rate(settings, 1000) == pytest.approx(0.1)


def test_warmup_stable_decay() -> None:
    settings = TrainSettings(updates=1000, warmup=100, lr=2.0, schedule="wsd", decay=200)
    rates = [learning_rate(settings, update) for update in (50, 100, 500, 800, 900, 1000)]
    assert rates == pytest.approx([1.0, 2.0, 2.0, 2.0, 1.0, 0.0])


def test_constant_and_no_warmup() -> None:
    settings = TrainSettings(updates=10, warmup=0, lr=0.5, schedule="constant")
    assert learning_rate(settings, 1) == learning_rate(settings, 10) == 0.5
    assert learning_rate(TrainSettings(updates=10, warmup=0, lr=0.5), 4) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"updates": 0}, "updates"),
        ({"updates": 5, "lr": math.nan}, "lr"),
        ({"updates": 5, "label_smoothing": 1.0}, "label_smoothing"),
        ({"updates": 5, "schedule": "wsd"}, "decay"),
        ({"updates": 5, "clip": math.nan}, "clip"),
        ({"updates": 5, "betas": (0.9,)}, "betas"),
        ({"updates": 5, "optimizer": "muon", "parallel": "fsdp"}, "whole matrices"),
        ({"updates": 5, "eps": 0.0}, "eps"),
        ({"updates": 5, "lr_floor": -5.0}, "lr_floor"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrainSettings(**settings)  # type: ignore[arg-type]


def test_decay_is_for_matrices_only() -> None:
    model = nn.ModuleDict({"words": nn.Embedding(5, 4), "linear": nn.Linear(4, 3), "norm": nn.LayerNorm(4)})
    (adamw,) = make_optimizers(model, TrainSettings(updates=1, weight_decay=0.1))
    decayed, free = adamw.param_groups
    assert [tuple(p.shape) for p in decayed["params"]] == [(3, 4)]
    assert decayed["weight_decay"] == 0.1
    assert free["weight_decay"] == 0.0
    assert sum(p.numel() for p in free["params"]) == 5 * 4 + 3 + 4 + 4
    assert isinstance(decayed["params"][0], torch.Tensor)
