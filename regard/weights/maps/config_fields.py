"""Read the settings of `transformers` key by key; keys that no function here reads are ignored."""

import math
from collections.abc import Mapping
from typing import Literal, TypeVar, get_args

from regard.errors import ConfigError
from regard.models.config import MAX_LABELS, Activation, at_most
from regard.plural import counted

Plain = Literal["relu", "gelu", "gelu_tanh", "silu"]
Value = TypeVar("Value")

HF_ACTIVATIONS: dict[str, Plain] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}


def number(raw: Mapping[str, object], key: str, default: int | None = None, *, least: int | None = None) -> int:
    value = raw.get(key, default)
    if value is None:
        raise ConfigError(f"config.json: key '{key}' is missing")
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"config.json: '{key}' must be a whole number, not {value!r}")
    if least is not None and value < least:
        raise ConfigError(f"config.json: '{key}' must be at least {least}, not {value}")
    return value


def numbers(raw: Mapping[str, object], key: str) -> tuple[int, ...]:
    """A number, a list of numbers, or nothing."""
    value = raw.get(key, [])
    listed = value if isinstance(value, list) else [value]
    if not all(isinstance(one, int) and not isinstance(one, bool) for one in listed):
        raise ConfigError(f"config.json: '{key}' must be a whole number or a list of them, not {value!r}")
    return tuple(listed)


def optional_number(raw: Mapping[str, object], key: str) -> int | None:
    return None if raw.get(key) is None else number(raw, key)


def decimal(raw: Mapping[str, object], key: str, default: float) -> float:
    value = raw.get(key, default)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ConfigError(f"config.json: '{key}' must be a number, not {value!r}")
    if not math.isfinite(value := float(value)):
        raise ConfigError(f"config.json: '{key}' must be a finite number, not {value}")
    return value


def switch(raw: Mapping[str, object], key: str, default: bool) -> bool:
    value = raw.get(key, default)
    if not isinstance(value, bool):
        raise ConfigError(f"config.json: '{key}' must be true or false, not {value!r}")
    return value


def activation(raw: Mapping[str, object], key: str, default: str) -> Plain:
    value = str(raw.get(key, default))
    if value not in HF_ACTIVATIONS:
        raise ConfigError(f"config.json: '{key}' is '{value}'; supported are {', '.join(HF_ACTIVATIONS)}")
    return HF_ACTIVATIONS[value]


def hf_activation(activation: Activation) -> str:
    if activation not in get_args(Plain):
        raise ConfigError(f"activation = {activation!r}")
    return next(name for name, known in HF_ACTIVATIONS.items() if known == activation)


def must_be(raw: Mapping[str, object], key: str, value: object, why: str) -> None:
    """Refuse any other value of a setting that regard supports in one form only."""
    if raw.get(key, value) != value:
        raise ConfigError(f"config.json: '{key}' is {raw[key]!r}, but {why}")


def same_number(raw: Mapping[str, object], first: str, second: str) -> int:
    if number(raw, first) != number(raw, second):
        raise ConfigError(f"config.json: '{first}' and '{second}' differ; regard requires them to be equal")
    return number(raw, first)


def architecture(raw: Mapping[str, object]) -> str:
    names = raw.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else ""


def labels(raw: Mapping[str, object]) -> tuple[str, ...]:
    """The names of the classes in order; transformers omits the table for two unnamed classes."""
    table = raw.get("id2label")
    if not isinstance(table, dict):
        count = number(raw, "num_labels", 2)
        at_most("num_labels", count, MAX_LABELS)
        return tuple(f"LABEL_{i}" for i in range(count))
    try:
        return tuple(str(table[str(i)]) for i in range(len(table)))
    except KeyError as error:
        entries = counted(len(table), "entry", "entries")
        raise ConfigError(f"config.json: 'id2label' has {entries}, but none for {error}") from None


def hf_labels(labels: tuple[str, ...]) -> dict[str, object]:
    if not labels:
        return {}
    return {
        "id2label": {str(i): name for i, name in enumerate(labels)},
        "label2id": {name: i for i, name in enumerate(labels)},
    }
