"""A recipe: everything about a run in one TOML file, nothing of it in code.

seed = 1
start = "…"   a model directory to go on from, if not from nothing
[data]        which files, how they are filtered        regard/data
[tokenizer]   how words are cut                         regard/text/learn.py
[model]       a preset and what differs from it         regard/models
[train]       how it learns                             settings.py
[decode]      how it is searched, in validation and as its own default afterwards    regard/decoding
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.config import load_toml, plain, read
from regard.data.sources import DataSettings
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError, UsageError
from regard.models.config import Seq2SeqConfig
from regard.models.presets import preset
from regard.text.learn import TokenizerSettings
from regard.training.settings import TrainSettings


@dataclass(frozen=True, kw_only=True)
class Recipe:
    data: DataSettings
    train: TrainSettings
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    model: dict[str, Any] = field(default_factory=dict)
    """`preset`, and the settings of its family that differ from it; the vocabulary comes from the tokenizer."""
    decode: SearchSettings = field(default_factory=SearchSettings)
    seed: int = 1
    start: str = ""
    """A model directory to go on from, with its weights, its settings and its tokenizer; without it, training begins
    with random weights and a tokenizer that is learnt."""


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe, with `table.key=value` from the command line laid over it."""
    raw = load_toml(path)
    for override in overrides:
        _lay_over(raw, override)
    recipe = read(Recipe, raw, str(path))
    if not 0 <= recipe.seed < 2**63:
        raise ConfigError(f"seed must be in 0 … 2^63, not {recipe.seed}")
    if recipe.train.stop_on != "none" and not recipe.data.valid and recipe.data.split is None:
        raise ConfigError(f"stop_on = '{recipe.train.stop_on}' needs data to validate on: [data] valid = …")
    if recipe.start:
        _check_started(recipe)
    else:
        model_config(recipe, vocab=1000)  # so that a mistake in [model] is found before hours of work
    return recipe


def _check_started(recipe: Recipe) -> None:
    """Sizes and pieces are those of the model that training starts from."""
    if fixed := recipe.model.keys() - {"dropout"}:
        raise ConfigError(f"[model] {min(fixed)} comes from start = '{recipe.start}'; only dropout is free")
    if replace(recipe.tokenizer, dropout=0.0) != TokenizerSettings():
        raise ConfigError(f"[tokenizer] comes from start = '{recipe.start}'; only dropout is free")


def model_config(recipe: Recipe, vocab: int, source_vocab: int | None = None) -> Seq2SeqConfig:
    """The model's settings: those of the preset, with the recipe's own over them."""
    own = dict(recipe.model)
    base = preset(str(own.pop("preset", "transformer-small")))
    if not isinstance(base, Seq2SeqConfig):
        raise ConfigError(f"[model] preset '{recipe.model['preset']}' is no translation model")
    for key in ("vocab", "source_vocab"):
        if key in own:
            raise ConfigError(f"[model] {key} comes from the tokenizer; set it in [tokenizer] instead")
    sizes = {"vocab": vocab, "source_vocab": source_vocab}
    if source_vocab is not None and "tied" not in own:
        own["tied"] = "target"  # two vocabularies cannot share one matrix
    return read(Seq2SeqConfig, plain(base) | own | sizes, "[model]")


def _lay_over(raw: dict[str, Any], override: str) -> None:
    name, equals, text = override.partition("=")
    if not equals or not all(name.split(".")):
        raise UsageError(f"--set takes table.key=value, not '{override}'")
    *tables, key = name.split(".")
    table: Any = raw
    for step in tables:
        table = table.setdefault(step, {})
        if not isinstance(table, Mapping):
            raise UsageError(f"--set {override}: '{step}' is no table")
    table[key] = _toml_value(text)


def _toml_value(text: str) -> Any:
    """A value as TOML spells it; what is no TOML is taken as text, so that paths need no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
