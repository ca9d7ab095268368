"""Read and write regard's own model directories."""

from collections.abc import Mapping
from pathlib import Path

from regard.config import to_table
from regard.io import write_json
from regard.models import family_of
from regard.weights.model_directory import (
    CONFIG,
    FORMAT,
    GENERATION,
    WEIGHTS,
    Checkpoint,
    regard_settings,
    regard_shortlist,
)
from regard.weights.quantize import is_quantized
from regard.weights.safetensors_files import build_model, dequantized, read_tensors, state_tensors, write_tensors
from regard.weights.shortlist import write_shortlist


def read_regard(directory: Path, raw: Mapping[str, object], *, trainable: bool = False) -> Checkpoint:
    """`trainable` dequantizes int8 weights, which cannot be trained."""
    settings = regard_settings(directory, raw)
    tensors = read_tensors(directory)
    if trainable and settings.int8:
        model = build_model(settings.config, dequantized(tensors, directory), directory)
    else:
        model = build_model(settings.config, tensors, directory, int8=settings.int8)
    return Checkpoint(model, settings.generation, regard_shortlist(directory, settings.config))


def write_regard(directory: Path, checkpoint: Checkpoint) -> None:
    write_tensors(directory / WEIGHTS, state_tensors(checkpoint.model))
    settings = {"format": FORMAT, "family": family_of(checkpoint.config), "model": to_table(checkpoint.config)}
    if is_quantized(checkpoint.model):
        settings["weights"] = "int8"
    write_json(directory / CONFIG, settings)
    write_json(directory / GENERATION, to_table(checkpoint.generation))
    if checkpoint.shortlist is not None:
        write_shortlist(directory, checkpoint.shortlist)
