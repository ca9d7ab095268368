"""A model is a directory: config.json, model.safetensors, the tokenizer's files, generation_config.json.

What can be read without torch is read here: the settings, the card, and the weights as arrays.
regard_format.py and huggingface.py read and write the rest.
"""

import json
import math
import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from regard.config import did_you_mean, from_table, load_json, one_of, open_file
from regard.errors import ConfigError, ModelError, WeightsError, one_line
from regard.models import FAMILIES
from regard.models.config import BlockConfig, GenerationConfig, Seq2SeqConfig, at_most
from regard.plural import counted

if TYPE_CHECKING:
    from regard.models import Family, Seq2Seq
    from regard.weights.shortlist import Shortlist

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
GENERATION = "generation_config.json"
CARD = "card.json"
MAX_CARD_ROWS, MAX_CARD_COLUMNS = 1000, 30
SHORTLIST = "shortlist.safetensors"
FORMAT = 2
"""Version of regard's model directories; raised when an older regard can no longer read a newer directory."""
READABLE_FORMATS = (1, 2)
FORMAT_1_KEYS = {"never": "suppressed", "max_new": "max_tokens"}
"""Keys of generation_config.json in format 1, and their names since."""


@dataclass(frozen=True)
class Checkpoint:
    """A model directory without its tokenizer."""

    model: "Family"
    generation: GenerationConfig
    shortlist: "Shortlist | None" = None
    """Likely translations of each source token; translation models only."""

    @property
    def config(self) -> BlockConfig:
        return self.model.config


def read_config_json(directory: Path) -> dict[str, object]:
    """Read the raw config.json of a model directory."""
    path = existing_directory(directory) / CONFIG
    if not path.is_file():
        inside = directory / "model"  # the model of a training run
        hint = f"; the model of this run is {inside}" if (inside / CONFIG).is_file() else ""
        raise ModelError(f"{directory}: not a model directory, {CONFIG} is missing{hint}")
    return load_json(path)


@dataclass(frozen=True)
class Settings:
    """The settings of a directory in regard's format."""

    config: BlockConfig
    generation: GenerationConfig
    int8: bool


def regard_settings(directory: Path, raw: Mapping[str, object]) -> Settings:
    """Read the settings from the raw config.json and generation_config.json."""
    where = directory / CONFIG
    known = {"family", "format", "model", "weights"}
    if unknown := raw.keys() - known:
        raise ModelError(f"{where}: unknown key '{min(unknown)}'{did_you_mean(min(unknown), known)}")
    version = raw.get("format")
    if type(version) is not int or version not in READABLE_FORMATS:
        known_formats = " and ".join(map(str, READABLE_FORMATS))
        raise ModelError(f"{where}: format {version!r} is not supported; this version of regard reads {known_formats}")
    family, settings = raw.get("family"), raw.get("model")
    if not isinstance(family, str):
        raise ModelError(f"{where}: 'family' must be a string, not {family!r:.100}")
    if family not in FAMILIES:
        hint = did_you_mean(family, FAMILIES) or f"; known are {', '.join(FAMILIES)}"
        raise ModelError(f"{where}: unknown family '{family}'{hint}")
    if not isinstance(settings, Mapping):
        raise ModelError(f"{where}: the table 'model' is missing")
    config = from_table(FAMILIES[family], settings, str(where))
    generation = _read_generation(directory / GENERATION, version)
    vocab = getattr(config, "vocab", 0)
    for token in (generation.start, generation.pad, *generation.end, *generation.suppressed):
        if token is not None and token not in range(vocab):
            raise ConfigError(f"{directory / GENERATION}: token {token} is not in the vocabulary of {vocab:,}")
    weights = str(raw.get("weights", "float32"))
    one_of(weights, ("float32", "int8"), f"'weights' in {where}:")
    return Settings(config, generation, weights == "int8")


def _read_generation(path: Path, version: int) -> GenerationConfig:
    if not path.is_file():
        return GenerationConfig()
    raw = load_json(path)
    if version == 1:
        for old, new in FORMAT_1_KEYS.items():
            if old in raw and new not in raw:
                raw[new] = raw.pop(old)
    return from_table(GenerationConfig, raw, str(path))


def regard_shortlist(directory: Path, config: BlockConfig) -> "Shortlist | None":
    if not isinstance(config, Seq2SeqConfig) or not (directory / SHORTLIST).is_file():
        return None
    from regard.weights.shortlist import read_shortlist

    return read_shortlist(directory, config.source_vocab or config.vocab, config.vocab)


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a model is for, its training data, its quality and its limits, for people to read."""

    name: str
    about: str
    pairs: tuple[str, ...]
    """Language pairs it was trained for, such as en-de."""
    data: tuple[str, ...] = ()
    licence: str = ""
    figures: tuple[dict[str, str], ...] = ()
    """Rows of a table of measurements."""
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("pairs", "data", "figures", "limits"):
            at_most(f"the number of {name}", len(getattr(self, name)), MAX_CARD_ROWS)
        at_most("the number of columns in figures", max(map(len, self.figures), default=0), MAX_CARD_COLUMNS)

    @classmethod
    def load(cls, directory: Path) -> "Card | None":
        path = directory / CARD
        return from_table(cls, load_json(path), str(path)) if path.is_file() else None

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(language for pair in self.pairs for language in pair.split("-")))


def existing_directory(path: Path) -> Path:
    if not path.exists():
        raise ModelError(f"{path}: no such directory")
    if not path.is_dir():
        raise ModelError(f"{path}: is a file; a model is a directory")
    return path


# ---- weights as arrays ----

Array = NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "I8": np.dtype("i1"), "I32": np.dtype("<i4")}
MAX_HEADER_BYTES = 8 << 20
"""A header has 100 bytes for each tensor; the largest published files have a few thousand."""
MAX_TENSORS = 1 << 17
"""In all files of a model."""
MAX_LAYERS = 2048
"""The deepest published models have 1000."""
MAX_TENSORS_PER_LAYER = 100
QWEIGHT, SCALE = ".whole", ".scale"
"""Suffixes of the two tensors of an int8 matrix: the integers, and one scale per row."""


class WeightsFile:
    """A safetensors file, kept open: what replaces it under its name does not matter. What changes it does.

    It is read, not mapped. Under a mapping, a file that is cut kills the process (SIGBUS), and one that is rewritten
    changes the results without a word. The price is memory for embeddings that no text uses: 1.5 MB for the box, 90 of
    430 MB for an OPUS-MT in float32. The peak falls, because one tensor at a time is copied: from 600 to 480 MB there.
    Reading takes no longer than the page faults of a mapping.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        weakref.finalize(self, os.close, self._descriptor)
        self._found = self._size_and_time()

    def _size_and_time(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns

    def fill(self, buffer: memoryview, offset: int) -> None:
        """Fill the buffer with the bytes from `offset` on, as they were when the file was opened."""
        while buffer:
            count = self._read_into(buffer, offset)
            if not count:
                break
            buffer, offset = buffer[count:], offset + count
        if buffer or self._size_and_time() != self._found:
            raise WeightsError(f"{self.path}: has changed since it was opened; load the model again")

    def _read_into(self, buffer: memoryview, offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._descriptor, [buffer], offset)
        os.lseek(self._descriptor, offset, os.SEEK_SET)  # Windows
        some = os.read(self._descriptor, len(buffer))
        buffer[: len(some)] = some
        return len(some)


@dataclass(frozen=True, eq=False)
class StoredArray:
    """An array of a file; `np.asarray` reads it."""

    file: WeightsFile
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __post_init__(self) -> None:
        if len(self.shape) > MAX_DIMS or math.prod(max(size, 1) for size in self.shape) > MAX_NUMBERS:
            raise ValueError(f"no array has the shape {self.shape!r:.100}")

    def reshape(self, shape: tuple[int, ...]) -> "StoredArray":
        assert math.prod(shape) == math.prod(self.shape)
        return replace(self, shape=shape)

    def __array__(self, dtype: np.dtype[Any] | None = None, copy: bool | None = None) -> Array:
        array: Array = np.empty(self.shape, self.dtype)
        if array.size:
            self.file.fill(array.reshape(-1).view(np.uint8).data, self.offset)
        return array if dtype is None else array.astype(dtype, copy=False)


MAX_DIMS, MAX_NUMBERS = 32, 2**56
"""What numpy can hold."""


@dataclass(frozen=True, eq=False)
class LazyModel:
    """A translation model whose weights are read when they are needed: natively, or into a torch network."""

    config: Seq2SeqConfig
    arrays: Mapping[str, StoredArray]
    where: Path
    int8: bool

    def open(self) -> "Seq2Seq":
        """The network, with weights read again."""
        from regard.cpu.device import import_torch

        import_torch()
        import torch

        from regard.models import Seq2Seq
        from regard.weights.safetensors_files import build_model

        tensors = {name: torch.from_numpy(np.asarray(array)) for name, array in self.arrays.items()}
        network = build_model(self.config, tensors, self.where, int8=self.int8)
        assert isinstance(network, Seq2Seq)
        return network


def read_arrays(path: Path) -> dict[str, StoredArray] | None:
    """Every array of a safetensors file, or None if one has a dtype that numpy lacks (bfloat16)."""
    check_header(path)
    try:
        file = WeightsFile(path)
        header, start = read_header(file)
        if any(entry["dtype"] not in DTYPES for entry in header.values()):
            return None
        return {
            name: StoredArray(
                file, start + entry["data_offsets"][0], tuple(entry["shape"]), np.dtype(DTYPES[entry["dtype"]])
            )
            for name, entry in header.items()
        }
    except (SafetensorError, OSError, ValueError) as error:
        raise broken_file(path, error) from None


def check_header(path: Path) -> None:
    """Refuse a safetensors file with an absurd number of tensors before the library reads them all."""
    try:
        with open_file(path) as file:
            size = int.from_bytes(file.read(8), "little")
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read ({error.strerror})") from None
    if size > MAX_HEADER_BYTES:
        raise WeightsError(
            f"{path}: its header claims {size:,} bytes, more than {MAX_HEADER_BYTES:,}: not a safetensors file of "
            f"published weights"
        )


def read_header(file: WeightsFile) -> tuple[dict[str, Any], int]:
    """What the file contains, and where the numbers begin."""
    with safe_open(file.path, framework="np"):  # checks the offsets and lengths in the header
        pass
    length = bytearray(8)
    file.fill(memoryview(length), 0)
    content = bytearray(int.from_bytes(length, "little"))
    file.fill(memoryview(content), 8)
    header: dict[str, Any] = json.loads(content)
    header.pop("__metadata__", None)
    return header, 8 + len(content)


def broken_file(path: Path, error: Exception) -> WeightsError:
    return WeightsError(f"{path}: not a complete safetensors file ({one_line(error)}); it may have been truncated")


def check_counts(config: BlockConfig, tensors: int, where: Path) -> None:
    """Compare the number of layers with the number of tensors in a file.

    A layer has several tensors, and not many, so neither a million layers nor a million tensors costs any time.
    """
    layers = max(getattr(config, name, 0) for name in ("layers", "encoder_layers", "decoder_layers"))
    found = counted(tensors, "tensor")
    if layers > tensors:
        raise WeightsError(f"{where}: its settings require {counted(layers, 'layer')}, but it contains {found}")
    if layers > MAX_LAYERS:
        raise WeightsError(f"{where}: its settings require {layers:,} layers, more than {MAX_LAYERS:,}")
    if tensors > MAX_TENSORS_PER_LAYER * (2 * layers + 1):
        raise WeightsError(f"{where}: its settings require {counted(layers, 'layer')}, far too few for {found}")
