"""Settings on disk (TOML, JSON) -> frozen dataclasses, strictly.

An unknown key, a wrong type or a missing value is an error that names the file, the key and the nearest known key.
Nothing is guessed and nothing is ignored: a misspelled key that silently falls back to a default costs someone a night
of training.

The files may come from anybody: `read_file` opens regular files only and reads a bounded number of bytes, and parsing
takes time in proportion to them.
"""

import dataclasses
import difflib
import errno
import functools
import json
import math
import operator
import os
import re
import stat
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

from regard.errors import ConfigError, one_line

Settings = TypeVar("Settings")

MAX_JSON_BYTES = 16 << 20
"""The index of the largest published models, of 90,000 tensors, has 9 MB."""
MAX_TOML_BYTES = 1 << 20
MAX_DIGITS = 40
"""Of a whole number. Any such number can be printed, multiplied and turned into a float."""
LONG_DOTTED_KEY = r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){32}"""
"""tomllib takes quadratic time for these: 4 s for one of 40 kB."""

SYNONYMS = {
    "updates": "epochs num_epochs max_epochs num_train_epochs steps max_steps train_steps iterations max_iters",
    "lr": "learning_rate peak_lr max_lr",
    "lr_floor": "min_lr",
    "batch_tokens": "batch_size max_tokens_per_batch per_device_train_batch_size tokens_per_batch mini_batch",
    "accumulate": "gradient_accumulation_steps accum_count update_freq batch_multiplier",
    "warmup": "warmup_steps warmup_updates num_warmup_steps warmup_iters lr_warmup",
    "schedule": "lr_scheduler lr_scheduler_type scheduler scheduling",
    "clip": "grad_clip gradient_clipping gradient_clip_val max_norm max_grad_norm clip_norm clip_grad_norm",
    "betas": "adam_betas beta1 beta2",
    "eps": "adam_eps adam_epsilon epsilon",
    "weight_decay": "l2 l2_decay",
    "label_smoothing": "label_smoothing_factor smoothing",
    "optimizer": "optim",
    "validate_every": "eval_every eval_steps eval_interval validation_freq valid_freq",
    "save_every": "save_steps save_interval checkpoint_every save_freq",
    "log_every": "logging_steps log_interval log_freq logging_freq",
    "patience": "early_stopping_patience early_stopping",
    "stop_on": "early_stopping_metric metric_for_best_model",
    "moving_average": "ema ema_decay exponential_smoothing",
    "dtype": "precision fp16 bf16 amp",
    "width": "d_model hidden_size n_embd dim embed_dim embedding_dim hidden_dim model_dim",
    "heads": "n_head n_heads num_heads num_attention_heads attention_heads nhead",
    "kv_heads": "num_key_value_heads n_kv_heads",
    "inner": "d_ff ffn_dim ff_size intermediate_size dim_feedforward ffn_embed_dim",
    "layers": "n_layer n_layers num_layers num_hidden_layers depth",
    "encoder_layers": "n_layer n_layers num_layers num_hidden_layers layers depth enc_layers num_encoder_layers",
    "decoder_layers": "n_layer n_layers num_layers num_hidden_layers layers depth dec_layers num_decoder_layers",
    "kind": "type algorithm",
    "vocab": "vocab_size n_vocab num_merges",
    "context": "block_size max_length max_position_embeddings n_positions max_seq_len",
    "norm_first": "pre_norm normalize_before",
    "beam": "beam_size num_beams",
    "n_best": "num_return_sequences",
    "temperature": "do_sample",
    "max_tokens": "max_new max_new_tokens max_length max_len max_decode_length",
    "min_tokens": "min_new min_new_tokens min_length min_len",
    "length_penalty": "lenpen alpha",
}
"""Our key -> what other toolkits call it. Spelling alone would suggest 'eps' for 'epochs'."""


def from_table(kind: type[Settings], raw: Mapping[str, Any], where: str) -> Settings:
    """Fill the dataclass `kind` from a table; every message begins with `where`: a file, a file and its [table]."""
    hints = _hints(typing.cast(Any, kind))
    fields = setting_fields(typing.cast(Any, kind))
    here = where if where.endswith("]") else f"{where}:"
    for key in raw:
        if key not in fields:
            raise ConfigError(f"{here} unknown key '{key}'{did_you_mean(key, fields)}")
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in raw:
            raise ConfigError(f"{here} key '{name}' is missing")
    values = {key: _value(hints[key], value, here, key) for key, value in raw.items()}
    try:
        return kind(**values)
    except ConfigError as error:  # from __post_init__, which does not know the file
        raise ConfigError(f"{here} {error}") from None


def to_table(settings: Any) -> dict[str, Any]:
    """The dataclass as JSON values: the inverse of `from_table`."""
    return {
        field.name: _table_value(getattr(settings, field.name)) for field in dataclasses.fields(settings) if field.init
    }


def load_json(path: Path) -> dict[str, Any]:
    """Load a JSON object, stricter than `json.loads`: no duplicate keys, no NaN, no Infinity, no endless numbers."""
    return _load(path, parse_json, "JSON", MAX_JSON_BYTES)


def load_toml(path: Path) -> dict[str, Any]:
    return _load(path, _parse_toml, "TOML", MAX_TOML_BYTES)


def parse_json(text: str) -> Any:
    """As strict as `load_json`; anything else is a ValueError or a RecursionError."""
    return json.loads(
        text,
        object_pairs_hook=_unique_keys,
        parse_constant=_refuse_constant,
        parse_int=_parse_int,
        parse_float=_parse_float,
    )


@contextmanager
def open_file(path: Path) -> Iterator[BufferedReader]:
    """Open a regular file for reading. Opening a named pipe would wait for a writer, and a device may have no end.

    Everything else is an OSError.
    """
    with open(path, "rb", opener=_open_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        yield file


def read_file(path: Path, most: int) -> bytes:
    """The content of a regular file of at most `most` bytes; an OSError otherwise."""
    with open_file(path) as file:
        content = file.read(min(os.fstat(file.fileno()).st_size, most) + 1)  # one more: it may have grown
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes")
    return content


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))  # neither is on Windows


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """' - did you mean 'x'?' if known words have the same meaning or a similar spelling, or else ''."""
    words = list(known)
    near = synonyms(word, words) or difflib.get_close_matches(word, words, n=1)
    return suggestion([f"'{one}'" for one in near])


def suggestion(places: Sequence[str]) -> str:
    return f" - did you mean {' or '.join(places)}?" if places else ""


def synonyms(word: str, known: Iterable[str]) -> list[str]:
    """The known words that other toolkits call `word`."""
    return [key for key in known if word.lower() in SYNONYMS.get(key, "").split()]


def check_range(
    name: str,
    value: float | None,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> None:
    """Raise ConfigError for a number out of range; NaN is in no range, None in all."""
    bounds = [
        (bound, word, holds)
        for bound, word, holds in (
            (least, "at least", operator.ge),
            (above, "above", operator.gt),
            (most, "at most", operator.le),
            (below, "below", operator.lt),
        )
        if bound is not None
    ]
    if value is not None and not all(holds(value, bound) for bound, _, holds in bounds):
        wanted = " and ".join(f"{word} {bound:,}" for bound, word, _ in bounds)
        raise ConfigError(f"{name} must be {wanted}, not {value:,}")


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """Cached per class: every search reads its options, and this would be most of the time."""
    return typing.get_type_hints(kind)


@functools.cache
def setting_fields(kind: Any) -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(kind) if field.init}


def one_of(value: str, known: Iterable[str], what: str) -> None:
    """Raise ConfigError, with the nearest name, for a value that is not in the list."""
    choices = list(known)
    if value not in choices:
        hint = did_you_mean(value, choices) or f" - known: {', '.join(choices)}"
        raise ConfigError(f"unknown {what} '{value}'{hint}")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key '{twice}' appears twice")
    return table


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def _parse_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits, more than {MAX_DIGITS}")
    return int(digits)


def _parse_float(digits: str) -> float:
    if math.isinf(value := float(digits)):
        raise ValueError(f"the number {digits} is too large")
    return value


def _parse_toml(text: str) -> dict[str, Any]:
    if re.search(LONG_DOTTED_KEY, text):
        raise ValueError("a dotted key has more than 32 parts")
    return tomllib.loads(text)


def _load(path: Path, parse: Callable[[str], Any], language: str, most: int) -> dict[str, Any]:
    try:
        raw = parse(read_file(path, most).decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:  # ValueError: parser errors and bad UTF-8
        raise ConfigError(f"{path}: is not valid {language} ({one_line(error)})") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: must be a table of keys, not a {type(raw).__name__}")
    return raw


def _value(hint: Any, value: Any, here: str, key: str) -> Any:
    """Check one value against its type hint; convert lists to tuples and tables to dataclasses."""
    where = f"{here} '{key}'"
    if isinstance(value, int) and abs(value) >= 10**MAX_DIGITS:
        raise ConfigError(f"{where} must be a number of at most {MAX_DIGITS} digits")
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (hint,) = (argument for argument in arguments if argument is not type(None))
        return _value(hint, value, here, key)
    if origin is Literal:
        if value not in arguments:
            near = did_you_mean(str(value), map(str, arguments))
            raise ConfigError(f"{where} must be one of {', '.join(map(str, arguments))}, not {value!r}{near}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where} must be a list, not {value!r}")
        return tuple(_value(arguments[0], item, here, f"{key}[{i}]") for i, item in enumerate(value))
    if origin is dict:  # a table whose keys the caller checks
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where} must be a table, not {value!r}")
        if arguments[1] in (Any, object):
            return dict(value)
        return {name: _value(arguments[1], item, _inside(here, key), name) for name, item in value.items()}
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where} must be a table, not {value!r}")
        return from_table(typing.cast(type, hint), value, _inside(here, key))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{where} must be a finite number, not {value}")
    if not isinstance(value, hint) or (hint is not bool and isinstance(value, bool)):
        raise ConfigError(f"{where} must be {_type_name(hint)}, not {value!r}")
    return value


def _inside(here: str, key: str) -> str:
    """The place of a table within another: 'recipe.toml: [data]' and split -> 'recipe.toml: [data.split]'."""
    return f"{here[:-1]}.{key}]" if here.endswith("]") else f"{here} [{key}]"


def _table_value(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_table(value)
    return [_table_value(item) for item in value] if isinstance(value, tuple) else value


def _type_name(hint: type) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}.get(hint, hint.__name__)
