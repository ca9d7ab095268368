"""Several models that went different ways from one, as one: the mean of their weights (Wortsman et al. 2022)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from regard.config import plain
from regard.errors import ModelError
from regard.weights.checkpoint import read_model
from regard.weights.directory import Checkpoint
from regard.weights.tensors import fill, mean, parameters


def mean_model(paths: Sequence[Path]) -> Checkpoint:
    """Settings for decoding are the first one's. int8 weights are widened first."""
    first, *others = (read_model(path, trainable=True) for path in paths)
    for path, other in zip(paths[1:], others, strict=True):
        ours, theirs = ({**plain(one.config), "dropout": None} for one in (first, other))
        if differing := sorted(name for name in ours | theirs if ours.get(name) != theirs.get(name)):
            raise ModelError(f"{path}: differs from {paths[0]} in {', '.join(differing)}, so there is no mean of them")
    weights = mean(parameters(stored.model) for stored in (first, *others))
    return replace(first, model=fill(first.config, weights, paths[0]))
