"""Tiny models of every Hugging Face model type, and a check for clear error messages."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.errors import RegardError
from regard.io import new_directory
from regard.models import Family, build
from regard.models.config import (
    BlockConfig,
    DecoderConfig,
    EncoderConfig,
    GenerationConfig,
    RotaryScaling,
    Seq2SeqConfig,
    VisionConfig,
)
from regard.weights.model_directory import Checkpoint
from regard.weights.model_io import Style, write_model

MARIAN: dict[str, Any] = {
    "vocab": 30,
    "width": 8,
    "heads": 2,
    "inner": 12,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "context": 16,
    "positions": "sinusoidal_halves",
    "activation": "silu",
}
BERT: dict[str, Any] = {
    "vocab": 30,
    "width": 8,
    "heads": 2,
    "inner": 12,
    "layers": 2,
    "context": 16,
    "segments": 2,
    "activation": "gelu",
    "norm_eps": 1e-12,
    "embedding_norm": True,
}
ROFORMER = BERT | {"positions": "rotary"}
GPT2: dict[str, Any] = {
    "vocab": 30,
    "width": 8,
    "heads": 2,
    "inner": 12,
    "layers": 2,
    "context": 16,
    "norm_first": True,
    "activation": "gelu_tanh",
}
LLAMA: dict[str, Any] = GPT2 | {
    "heads": 4,
    "kv_heads": 2,
    "positions": "rotary",
    "activation": "swiglu",
    "norm": "rms",
    "attention_bias": False,
    "attention_output_bias": False,
    "feedforward_bias": False,
    "tied": False,
}
VIT: dict[str, Any] = {
    "width": 8,
    "heads": 2,
    "inner": 12,
    "layers": 2,
    "image": 8,
    "patch": 4,
    "channels": 1,
    "norm_first": True,
    "activation": "gelu",
}
CLASSES: dict[str, Any] = {"head": "classifier", "labels": ("no", "yes", "perhaps")}
LLAMA3 = RotaryScaling(kind="llama3", factor=8.0, low=1.0, high=4.0, original_context=32)

SAMPLES: dict[str, list[BlockConfig]] = {
    "marian": [
        Seq2SeqConfig(**MARIAN, output_bias=True),
        Seq2SeqConfig(**MARIAN, tied="target", source_vocab=20),
        Seq2SeqConfig(**MARIAN, tied="none", scale_embeddings=False),
    ],
    "bert": [
        EncoderConfig(**BERT),
        EncoderConfig(**BERT, pooler="tanh"),
        EncoderConfig(**BERT, pooling="first", normalize=True),
        EncoderConfig(**BERT, head="masked_lm"),
        EncoderConfig(**BERT, head="masked_lm", pooler="tanh", pooling="first", normalize=True),
        EncoderConfig(**BERT, **CLASSES, pooler="tanh"),
    ],
    "roformer": [
        EncoderConfig(**ROFORMER),
        EncoderConfig(**ROFORMER, head="masked_lm"),
        EncoderConfig(**ROFORMER, **CLASSES, pooler="gelu"),
    ],
    "gpt2": [
        DecoderConfig(**GPT2),
        DecoderConfig(**GPT2, tied=False),
        DecoderConfig(**GPT2, **CLASSES),
    ],
    "llama": [
        DecoderConfig(**LLAMA),
        DecoderConfig(**LLAMA | {"tied": True, "rotary_scaling": LLAMA3, "rotary_base": 500.0}),
        DecoderConfig(
            **LLAMA
            | {"attention_bias": True, "attention_output_bias": True, "feedforward_bias": True, "head_width": 6}
            | {"rotary_scaling": RotaryScaling(kind="linear", factor=2.0)}
        ),
        DecoderConfig(**LLAMA, **CLASSES),
    ],
    "vit": [VisionConfig(**VIT), VisionConfig(**VIT, labels=("cat", "dog")), VisionConfig(**VIT, attention_bias=False)],
}
EVERY = [(kind, config) for kind, configs in SAMPLES.items() for config in configs]
NAMES = [f"{kind}-{i}" for kind, configs in SAMPLES.items() for i in range(len(configs))]


@torch.no_grad()
def random_model(config: BlockConfig, seed: int = 0) -> Family:
    """A model with random parameters everywhere: zeros and ones would hide a misplaced bias or norm."""
    model = build(config)
    random = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.normal_(generator=random)
    return model.eval()


def saved(directory: Path, config: BlockConfig, style: Style, generation: GenerationConfig | None = None) -> Path:
    with new_directory(directory) as half_done:
        write_model(half_done, Checkpoint(random_model(config), generation or GenerationConfig()), style)
    return directory


def change_json(path: Path, **changes: Any) -> None:
    """Set keys; `...` removes a key."""
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not ...}))


def change_tensors(directory: Path, **changes: Any) -> None:
    """Replace tensors by name; `...` removes one."""
    path = directory / "model.safetensors"
    tensors: dict[str, Tensor] = load_file(path) | changes
    kept = {name: tensor.clone() for name, tensor in tensors.items() if tensor is not ...}
    save_file(kept, path, metadata={"format": "pt"})


def everything_in(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


@contextmanager
def one_clear_line(kind: type[RegardError], *named: str) -> Iterator[None]:
    """Expect an error of exactly this type, with a message of one line that contains these names."""
    with pytest.raises(RegardError) as caught:
        yield
    assert type(caught.value) is kind, repr(caught.value)
    message = str(caught.value)
    assert message
    assert len(message.splitlines()) == 1, message
    assert len(message) < 500
    for name in named:
        assert name in message, message
