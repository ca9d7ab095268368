"""Check that two models are equal."""

from dataclasses import replace

import torch

import regard
from regard.models.config import BlockConfig
from regard.weights.safetensors_files import parameters


def worked_out(config: BlockConfig) -> BlockConfig:
    """Fill in the defaults that follow from other settings, because transformers writes them."""
    return replace(config, head_width=config.per_head_width, kv_heads=config.kv_heads or config.heads)


def same_model(one: regard.Model, other: regard.Model) -> None:
    """Compare the settings, the generation settings and every bit of every tensor."""
    assert worked_out(one.config) == worked_out(other.config)
    assert one.generation == other.generation
    first, second = parameters(one.network), parameters(other.network)
    assert first.keys() == second.keys()
    for name in first:
        assert first[name].dtype == second[name].dtype == torch.float32
        assert torch.equal(first[name], second[name]), name
