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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.config import check_range, from_table, load_toml, setting_fields, suggestion, synonyms, to_table
from regard.data.sources import DataSettings
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError, UsageError
from regard.models.config import Seq2SeqConfig
from regard.models.presets import preset
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

TOKENIZER_SIZES = {"vocab", "source_vocab"}
"""Sizes of the model that come from the tokenizer."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    data: DataSettings
    train: TrainSettings
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    model: dict[str, Any] = field(default_factory=dict)
    """`preset`, and the settings that differ from it. The vocabulary comes from the tokenizer."""
    decode: SearchSettings = field(default_factory=SearchSettings)
    seed: int = 1
    """From 0; the same seed and recipe give the same model."""
    start: str = ""
    """A model directory to start from: its weights, settings and tokenizer. Without it, training starts from random
    weights and learns a tokenizer."""

    def __post_init__(self) -> None:
        check_range("seed", self.seed, least=0, below=2**63)


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe file, with `table.key=value` overrides from the command line."""
    raw = load_toml(path)
    for override in overrides:
        set_value(raw, override)
    for table, names in RENAMED.items():
        for old, new in names.items():
            if isinstance(raw.get(table), Mapping) and old in raw[table]:
                raise ConfigError(f"{path}: [{table}] '{old}' is now '{new}'")
    _check_places(raw, path)
    recipe = from_table(Recipe, raw, str(path))
    with _named(f"{path}:"):
        check_validation(recipe)
        if recipe.start:
            _check_start(recipe)
        else:
            config = model_config(recipe, vocab=1000)  # finds a mistake in [model] before hours of tokenizing
            check_context(recipe, config.context)
    return recipe


@contextmanager
def _named(place: str) -> Iterator[None]:
    """Begin the message of a mistake with its place."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{place} {error}") from None


def _check_places(raw: Mapping[str, Any], path: Path) -> None:
    """Complain about a key that belongs to another table, and name that table: spelling alone would not find it."""
    keys = _keys_of_tables()
    for table, own in keys.items():
        values = raw.get(table) if table else raw
        here = f"{path}: [{table}]" if table else f"{path}:"
        for key in values if isinstance(values, Mapping) else ():
            if key in own or synonyms(key, own) or f"{table}.{key}" in ("model.vocab", "model.source_vocab"):
                continue  # the model's vocabulary has a message of its own
            homes = [(name, key) for name in keys if key in keys[name]]
            homes = homes or [(name, ours) for name in keys for ours in synonyms(key, keys[name])]
            if homes:
                places = [f"'{name}.{ours}'" if name else f"'{ours}' at the top of the file" for name, ours in homes]
                raise ConfigError(f"{here} unknown key '{key}'{suggestion(places)}")


def _keys_of_tables() -> dict[str, set[str]]:
    """Table -> its keys; the one without a name is the top of the file."""
    kinds = {
        "": Recipe,
        "data": DataSettings,
        "train": TrainSettings,
        "model": Seq2SeqConfig,
        "tokenizer": TokenizerSettings,
        "decode": SearchSettings,
    }
    keys = {table: set(setting_fields(kind)) for table, kind in kinds.items()}
    keys["model"] = {"preset"} | keys["model"] - TOKENIZER_SIZES
    return keys


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
        raise ConfigError(f"[train] stop_on = '{recipe.train.stop_on}' needs data to validate on: [data] valid = …")


def check_context(recipe: Recipe, context: int) -> None:
    """The model must be able to read every pair kept."""
    if recipe.data.max_tokens > context:
        raise ConfigError(f"[data] max_tokens {recipe.data.max_tokens} is more than the model's context, {context}")


def _check_start(recipe: Recipe) -> None:
    """Sizes and tokenizer come from the model that training starts from."""
    if fixed := recipe.model.keys() - {"dropout"}:
        raise ConfigError(f"[model] {min(fixed)} comes from start = '{recipe.start}'; only dropout can be set")
    if replace(recipe.tokenizer, dropout=0.0) != TokenizerSettings():
        raise ConfigError(f"[tokenizer] comes from start = '{recipe.start}'; only dropout can be set")
    from_table(Seq2SeqConfig, to_table(preset("transformer-small")) | recipe.model, "[model]")  # is it a dropout?


def model_config(recipe: Recipe, vocab: int, source_vocab: int | None = None) -> Seq2SeqConfig:
    """The model's config: the preset with the recipe's changes."""
    changes = dict(recipe.model)
    name = changes.pop("preset", "transformer-small")
    if not isinstance(name, str):
        raise ConfigError("[model] preset must be a string, the name of a preset")
    with _named("[model]"):
        base = preset(name, Seq2SeqConfig)
    if given := sorted(TOKENIZER_SIZES & changes.keys()):
        raise ConfigError(f"[model] {given[0]} comes from the tokenizer; set it in [tokenizer] instead")
    sizes = {"vocab": vocab, "source_vocab": source_vocab}
    if source_vocab is not None and "tied" not in changes:
        changes["tied"] = "target"  # two vocabularies cannot share one matrix
    config = from_table(Seq2SeqConfig, to_table(base) | changes | sizes, "[model]")
    for key in ("encoder_layers", "decoder_layers"):
        check_range(f"[model] {key}", getattr(config, key), most=MAX_LAYERS)
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
