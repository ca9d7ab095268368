"""One small model of each family."""

from typing import Any

from regard.models import DecoderConfig, EncoderConfig, Seq2SeqConfig, VisionConfig
from regard.models.config import BlockConfig

BLOCK: dict[str, Any] = {"width": 8, "heads": 2, "inner": 16}


def seq2seq(**more: Any) -> Seq2SeqConfig:
    return Seq2SeqConfig(**BLOCK | {"vocab": 11, "encoder_layers": 2, "decoder_layers": 1} | more)


def encoder(**more: Any) -> EncoderConfig:
    return EncoderConfig(**BLOCK | {"vocab": 11, "layers": 2, "context": 16} | more)


def decoder(**more: Any) -> DecoderConfig:
    return DecoderConfig(**BLOCK | {"vocab": 11, "layers": 2, "context": 16} | more)


def vision(**more: Any) -> VisionConfig:
    return VisionConfig(**BLOCK | {"layers": 2, "image": 6, "patch": 3} | more)


SMALL: dict[str, BlockConfig] = {
    "seq2seq": seq2seq(),
    "encoder": encoder(),
    "decoder": decoder(),
    "vision": vision(),
}
