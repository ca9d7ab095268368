"""From the checkpoints of a run to a model directory."""

from pathlib import Path

from regard.errors import TrainingError
from regard.models.config import BlockConfig
from regard.text import tokenizer as text
from regard.training import checkpoint
from regard.training.prepare import generation_config, new_config
from regard.training.recipe import Recipe
from regard.training.run_directory import MODEL, STATE, read_start, tokenizer_folder
from regard.weights.checksums import new_model
from regard.weights.model_directory import Checkpoint
from regard.weights.model_io import write_model
from regard.weights.safetensors_files import build_model


def export_model(run: Path, recipe: Recipe) -> list[Path]:
    """Write run/model, the mean of the checkpoints that the recipe asks for; return these checkpoints.

    The model of a run that was extended is replaced.
    """
    paths = checkpoint.chosen(run / STATE, recipe.train.average, best=recipe.train.average_best)
    if not paths:
        raise TrainingError(f"{run}: there is no validated checkpoint to make a model of")
    write_mean(run / MODEL, recipe, run, paths, replace=True)
    return paths


def write_mean(directory: Path, recipe: Recipe, run: Path, paths: list[Path], *, replace: bool = False) -> None:
    """Write the mean of some checkpoints of a run as a new model directory."""
    tokenizer = text.load(tokenizer_folder(recipe, run))
    if tokenizer is None:
        raise TrainingError(f"{run}: its tokenizer is missing")
    start = read_start(run)
    config: BlockConfig = start.config if start else new_config(recipe, tokenizer)
    model = build_model(config, checkpoint.mean_weights(paths), paths[-1])
    with new_model(directory, replace=replace) as draft:
        write_model(draft, Checkpoint(model, generation_config(recipe, start)))
        tokenizer.save(draft)
