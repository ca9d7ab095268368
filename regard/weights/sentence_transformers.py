"""Pooling of token states to one vector, in the files of `sentence-transformers`: modules.json, 1_Pooling/."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from regard.config import MAX_JSON_BYTES, load_json, parse_json, read_file
from regard.errors import ConfigError
from regard.io import write_json
from regard.models.config import EncoderConfig

MODULES = "modules.json"
MAX_MODULES = 10
Pooling = Literal["mean", "first"]
KIND = "sentence_transformers.models."
POOLINGS: dict[str, Pooling] = {
    "mean": "mean",
    "cls": "first",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "first",
}


def read_pooling(directory: Path, config: EncoderConfig) -> EncoderConfig:
    """The settings with the pooling of the directory; unchanged if it has no modules.json."""
    path = directory / MODULES
    if not path.is_file():
        return config
    try:
        modules = parse_json(read_file(path, MAX_JSON_BYTES).decode("utf-8"))
        if not isinstance(modules, list) or len(modules) > MAX_MODULES:
            raise TypeError
        steps = [(str(module["type"]).rsplit(".", 1)[-1], str(module["path"])) for module in modules]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise ConfigError(
            f"{path}: must be a list of at most {MAX_MODULES} modules, each with 'type' and 'path'"
        ) from None
    for kind, where in steps:
        match kind:
            case "Transformer":
                continue
            case "Pooling":
                if where in ("", "..") or Path(where).name != where:  # a path must not leave the directory
                    raise ConfigError(f"{path}: '{where}' is not a plain directory name")
                config = replace(config, pooling=_pooling_mode(load_json(directory / where / "config.json"), path))
            case "Normalize":
                config = replace(config, normalize=True)
            case _:
                raise ConfigError(f"{path}: unknown module '{kind}'; supported are Transformer, Pooling, Normalize")
    return config


def _pooling_mode(pooling: dict[str, object], path: Path) -> Pooling:
    """Newer files have one `pooling_mode`, older ones one boolean key per mode."""
    chosen = pooling.get("pooling_mode")
    if chosen is None:
        listed = [key for key, value in pooling.items() if key.startswith("pooling_mode_") and value is True]
        chosen = listed[0] if len(listed) == 1 else listed
    if not isinstance(chosen, str) or chosen not in POOLINGS:
        raise ConfigError(f"{path}: unknown pooling {chosen!r:.100}; supported are {', '.join(POOLINGS)}")
    return POOLINGS[chosen]


def write_pooling(directory: Path, config: EncoderConfig) -> None:
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")] + [("2_Normalize", "Normalize")] * config.normalize
    listed = [{"idx": i, "name": str(i), "path": path, "type": KIND + kind} for i, (path, kind) in enumerate(modules)]
    write_json(directory / MODULES, listed)
    for path, _ in modules[1:]:
        (directory / path).mkdir()
    write_json(
        directory / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": config.width,
            "pooling_mode_cls_token": config.pooling == "first",
            "pooling_mode_mean_tokens": config.pooling == "mean",
        },
    )
