"""When two models are one."""

from dataclasses import replace

import torch

import regard
from regard.models.config import BlockConfig
from regard.weights.tensors import parameters


def worked_out(config: BlockConfig) -> BlockConfig:
    """With the defaults that follow from other settings: transformers writes them out."""
    return replace(config, head_width=config.per_head_width, kv_heads=config.kv_heads or config.heads)


def same_model(one: regard.Model, other: regard.Model) -> None:
    """The settings, what it knows about generation, and every bit of every tensor."""
    assert worked_out(one.config) == worked_out(other.config)
    assert one.generation == other.generation
    first, second = parameters(one.network), parameters(other.network)
    assert first.keys() == second.keys()
    for name in first:
        assert first[name].dtype == second[name].dtype == torch.float32
        assert torch.equal(first[name], second[name]), name
