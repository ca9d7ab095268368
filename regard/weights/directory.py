"""A model is a directory: config.json, model.safetensors, the tokenizer's files, generation_config.json.

The settings are read here, without torch; regard_format.py and huggingface.py read and write the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.config import did_you_mean, from_table, load_json, one_of
from regard.errors import ConfigError, ModelError
from regard.models import FAMILIES
from regard.models.config import BlockConfig, GenerationConfig, Seq2SeqConfig
from regard.weights.shortlist import FILE as SHORTLIST
from regard.weights.shortlist import Shortlist, read_shortlist

if TYPE_CHECKING:
    from regard.models import Family

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
GENERATION = "generation_config.json"
CARD = "card.json"
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
    shortlist: Shortlist | None = None
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


def regard_shortlist(directory: Path, config: BlockConfig) -> Shortlist | None:
    if not isinstance(config, Seq2SeqConfig) or not (directory / SHORTLIST).is_file():
        return None
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
