"""Any model on disk, in and out: which reader and which writer it is for."""

from pathlib import Path
from typing import Literal

from regard.errors import ModelError
from regard.weights.directory import CONFIG, Checkpoint, read_settings_file
from regard.weights.huggingface import read_huggingface, write_huggingface
from regard.weights.llama2c import read_llama2c
from regard.weights.regard_format import read_own, write_own

Style = Literal["regard", "huggingface"]


def read_model(path: Path, *, trainable: bool = False) -> Checkpoint:
    """A model from its directory (regard's or transformers'), or from a llama2.c file; trainable: without int8."""
    if path.is_file() and path.suffix == ".bin":
        return read_llama2c(path)
    raw = read_settings_file(path)
    if "family" in raw:
        return read_own(path, raw, trainable=trainable)
    if "model_type" in raw:
        return read_huggingface(path, raw)
    raise ModelError(f"{path / CONFIG}: has neither 'family' (regard's) nor 'model_type' (transformers')")


def write_model(directory: Path, stored: Checkpoint, style: Style = "regard") -> None:
    """The model's files into an empty directory."""
    if style == "huggingface":
        write_huggingface(directory, stored)
    else:
        write_own(directory, stored)
