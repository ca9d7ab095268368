"""Read and write any model on disk: choose the reader or writer of its format."""

from pathlib import Path
from typing import Literal

from regard.errors import ModelError
from regard.weights.huggingface import read_huggingface, write_huggingface
from regard.weights.llama2c import read_llama2c
from regard.weights.model_directory import CONFIG, Checkpoint, read_config_json
from regard.weights.regard_format import read_regard, write_regard

Style = Literal["regard", "huggingface"]


def read_model(path: Path, *, trainable: bool = False) -> Checkpoint:
    """Read a model directory (regard's or Hugging Face's) or a llama2.c file. `trainable` dequantizes int8 weights."""
    if path.is_file() and path.suffix == ".bin":
        return read_llama2c(path)
    raw = read_config_json(path)
    if "family" in raw:
        return read_regard(path, raw, trainable=trainable)
    if "model_type" in raw:
        return read_huggingface(path, raw)
    raise ModelError(f"{path / CONFIG}: has neither 'family' (regard's) nor 'model_type' (Hugging Face's)")


def write_model(directory: Path, checkpoint: Checkpoint, style: Style = "regard") -> None:
    """Write the model's files into an empty directory."""
    if style == "huggingface":
        write_huggingface(directory, checkpoint)
    else:
        write_regard(directory, checkpoint)
