"""Average the weights of several models fine-tuned from the same one (Wortsman et al. 2022)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from regard.config import to_table
from regard.errors import ModelError
from regard.weights.model_directory import Checkpoint
from regard.weights.model_io import read_model
from regard.weights.safetensors_files import build_model, mean, parameters


def average_models(paths: Sequence[Path]) -> Checkpoint:
    """The mean of the models, with the generation settings of the first. int8 weights are dequantized first."""
    first, *others = (read_model(path, trainable=True) for path in paths)
    for path, other in zip(paths[1:], others, strict=True):
        settings, other_settings = ({**to_table(one.config), "dropout": None} for one in (first, other))
        names = settings | other_settings
        if differing := sorted(name for name in names if settings.get(name) != other_settings.get(name)):
            raise ModelError(f"{path}: differs from {paths[0]} in {', '.join(differing)}; they cannot be averaged")
    weights = mean(parameters(checkpoint.model) for checkpoint in (first, *others))
    return replace(first, model=build_model(first.config, weights, paths[0]))
