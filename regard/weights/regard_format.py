"""regard's own directory <-> a model."""

from collections.abc import Mapping
from pathlib import Path

from regard.config import plain
from regard.io import write_json
from regard.models import family_of
from regard.weights.directory import (
    CONFIG,
    FORMAT,
    GENERATION,
    ONE_FILE,
    Checkpoint,
    own_settings,
    own_shortlist,
)
from regard.weights.quantize import is_quantized
from regard.weights.shortlist import write_shortlist
from regard.weights.tensors import contents, fill, read_tensors, widened, write_tensors


def read_own(directory: Path, raw: Mapping[str, object], *, trainable: bool = False) -> Checkpoint:
    """A trainable model has no int8."""
    settings = own_settings(directory, raw)
    tensors = read_tensors(directory)
    if trainable and settings.int8:
        model = fill(settings.config, widened(tensors), directory)
    else:
        model = fill(settings.config, tensors, directory, int8=settings.int8)
    return Checkpoint(model, settings.generation, own_shortlist(directory, settings.config))


def write_own(directory: Path, stored: Checkpoint) -> None:
    write_tensors(directory / ONE_FILE, contents(stored.model))
    settings = {"format": FORMAT, "family": family_of(stored.config), "model": plain(stored.config)}
    if is_quantized(stored.model):
        settings["weights"] = "int8"
    write_json(directory / CONFIG, settings)
    write_json(directory / GENERATION, plain(stored.generation))
    if stored.shortlist is not None:
        write_shortlist(directory, stored.shortlist)
