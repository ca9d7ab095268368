"""Batches -> logits. Four families that stack one block; each file is a complete forward pass, top to bottom."""

from functools import reduce
from importlib import import_module
from operator import or_
from typing import TYPE_CHECKING, Any, TypeAlias

from regard.models.config import BlockConfig, DecoderConfig, EncoderConfig, Seq2SeqConfig, VisionConfig

if TYPE_CHECKING:
    from regard.models.decoder import Decoder
    from regard.models.encoder import Encoder
    from regard.models.seq2seq import Seq2Seq
    from regard.models.vision import Vision

    Family: TypeAlias = "Seq2Seq | Encoder | Decoder | Vision"

__all__ = [
    "FAMILIES",
    "BlockConfig",
    "Decoder",
    "DecoderConfig",
    "Encoder",
    "EncoderConfig",
    "Family",
    "Seq2Seq",
    "Seq2SeqConfig",
    "Vision",
    "VisionConfig",
    "build",
    "family_of",
]

FAMILIES: dict[str, type[BlockConfig]] = {  # the complete list; there is no registry
    "seq2seq": Seq2SeqConfig,
    "encoder": EncoderConfig,
    "decoder": DecoderConfig,
    "vision": VisionConfig,
}
# imported on first use: settings are read without torch
_HOMES = {"Seq2Seq": "seq2seq", "Encoder": "encoder", "Decoder": "decoder", "Vision": "vision"}


def family_of(config: BlockConfig) -> str:
    """The family of these settings, a key of FAMILIES."""
    return next(name for name, kind in FAMILIES.items() if type(config) is kind)


def build(config: BlockConfig) -> "Family":
    """Build a model with torch's default weights; `initialize` it or load a checkpoint next."""
    home = family_of(config)
    kind = next(name for name, module in _HOMES.items() if module == home)
    model: Family = __getattr__(kind)(config)
    return model


def __getattr__(name: str) -> Any:
    if name == "Family":
        return reduce(or_, map(__getattr__, _HOMES))
    if name not in _HOMES:
        raise AttributeError(f"module 'regard.models' has no attribute '{name}'")
    return getattr(import_module(f"regard.models.{_HOMES[name]}"), name)
