"""A recipe: one TOML file with every setting of a run.

seed = 1
start = "…"   a model directory to start from; without it, training starts from random weights
[data]        files and filters                                         regard/data
[tokenizer]   how text is split into pieces                             regard/text/train_tokenizer.py
[model]       a preset, and the settings that differ from it            regard/models
[train]       optimizer, schedule, batches, stopping                    settings.py
[decode]      the search settings that the trained model has as defaults    regard/decoding
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.config import from_table, load_toml, to_table
from regard.data.sources import DataSettings
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError, UsageError
from regard.models.config import Seq2SeqConfig
from regard.models.presets import PRESETS, preset
from regard.text.train_tokenizer import TokenizerSettings
from regard.training.settings import TrainSettings

RENAMED = {
    "train": {
        "agreement": "rdrop_alpha",
        "risk": "mrt_weight",
        "risk_width": "mrt_samples",
        "bad_loss": "on_nonfinite",
    },
    "decode": {"max_new": "max_tokens", "min_new": "min_tokens", "favour": "boost"},
}
"""Table -> old key -> its name today. A recipe file must use today's; runs made before may have the old ones."""
MAX_LAYERS = 1000
"""More take minutes to build, before their size can be compared with the machine's memory."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    data: DataSettings
    train: TrainSettings
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    model: dict[str, Any] = field(default_factory=dict)
    """`preset`, and the settings that differ from it. The vocabulary comes from the tokenizer."""
    decode: SearchSettings = field(default_factory=SearchSettings)
    seed: int = 1
    start: str = ""
    """A model directory to start from: its weights, settings and tokenizer. Without it, training starts from random
    weights and learns a tokenizer."""


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe file, with `table.key=value` overrides from the command line."""
    raw = load_toml(path)
    for override in overrides:
        set_value(raw, override)
    for table, names in RENAMED.items():
        for old, new in names.items():
            if isinstance(raw.get(table), Mapping) and old in raw[table]:
                raise ConfigError(f"{path}: [{table}] '{old}' is now '{new}'")
    recipe = from_table(Recipe, raw, str(path))
    if not 0 <= recipe.seed < 2**63:
        raise ConfigError(f"{path}: seed must be at least 0 and below 2^63, not {recipe.seed}")
    check_validation(recipe)
    if recipe.start:
        _check_start(recipe)
    else:
        model_config(recipe, vocab=1000)  # finds a mistake in [model] before hours of tokenizing
    return recipe


def read_saved_recipe(raw: Mapping[str, Any], where: str) -> Recipe:
    """Read the recipe that a run has saved, also one with keys that were renamed since."""
    tables = {
        name: {RENAMED[name].get(key, key): value for key, value in table.items()} if name in RENAMED else table
        for name, table in raw.items()
    }
    return from_table(Recipe, tables, where)


def check_validation(recipe: Recipe) -> None:
    """Early stopping needs validation pairs."""
    if recipe.train.stop_on != "none" and not recipe.data.valid and recipe.data.split is None:
        raise ConfigError(f"stop_on = '{recipe.train.stop_on}' needs data to validate on: [data] valid = …")


def _check_start(recipe: Recipe) -> None:
    """Sizes and tokenizer come from the model that training starts from."""
    if fixed := recipe.model.keys() - {"dropout"}:
        raise ConfigError(f"[model] {min(fixed)} comes from start = '{recipe.start}'; only dropout can be set")
    if replace(recipe.tokenizer, dropout=0.0) != TokenizerSettings():
        raise ConfigError(f"[tokenizer] comes from start = '{recipe.start}'; only dropout can be set")


def model_config(recipe: Recipe, vocab: int, source_vocab: int | None = None) -> Seq2SeqConfig:
    """The model's config: the preset with the recipe's changes."""
    changes = dict(recipe.model)
    name = changes.pop("preset", "transformer-small")
    if not isinstance(name, str):
        raise ConfigError("[model] preset must be a string, the name of a preset")
    base = preset(name)
    if not isinstance(base, Seq2SeqConfig):
        choices = ", ".join(name for name in PRESETS if isinstance(preset(name), Seq2SeqConfig))
        raise ConfigError(f"[model] '{name}' is not a translation preset; choose one of {choices}")
    for key in ("vocab", "source_vocab"):
        if key in changes:
            raise ConfigError(f"[model] {key} comes from the tokenizer; set it in [tokenizer] instead")
    sizes = {"vocab": vocab, "source_vocab": source_vocab}
    if source_vocab is not None and "tied" not in changes:
        changes["tied"] = "target"  # two vocabularies cannot share one matrix
    config = from_table(Seq2SeqConfig, to_table(base) | changes | sizes, "[model]")
    for key in ("encoder_layers", "decoder_layers"):
        if getattr(config, key) > MAX_LAYERS:
            raise ConfigError(f"[model] {key} must be at most {MAX_LAYERS:,}, not {getattr(config, key):,}")
    return config


def set_value(raw: dict[str, Any], override: str) -> None:
    """Apply one `table.key=value`."""
    try:
        override.encode()
    except UnicodeEncodeError:
        raise UsageError(f"--set {override!r}: is not UTF-8") from None
    name, equals, text = override.partition("=")
    if not equals or not all(name.split(".")):
        raise UsageError(f"--set takes table.key=value, not '{override}'")
    *tables, key = name.split(".")
    table: Any = raw
    for step in tables:
        table = table.setdefault(step, {})
        if not isinstance(table, Mapping):
            raise UsageError(f"--set {override}: '{step}' is not a table")
    table[key] = _toml_value(text)


def _toml_value(text: str) -> Any:
    """Parse a TOML value. Anything else is taken as text, so that paths need no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # ValueError: not TOML, or a number of thousands of digits
        return text
