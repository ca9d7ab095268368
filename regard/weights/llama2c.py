"""Read llama2.c's checkpoints: a header of seven numbers, then every weight as float32 in a fixed order."""

import struct
from pathlib import Path

import torch
from torch import Tensor

from regard.config import open_file
from regard.errors import WeightsError
from regard.models.config import DecoderConfig, GenerationConfig
from regard.plural import counted
from regard.weights.maps.table import pairs_to_halves
from regard.weights.model_directory import MAX_LAYERS, Checkpoint
from regard.weights.safetensors_files import build_model

HEADER = struct.Struct("<7i")
MAX_HEADER_VALUE = 1 << 24  # a file with a larger number there is not a checkpoint


def read_llama2c(path: Path) -> Checkpoint:
    config, shared = _read_settings(path)
    tensors = _read_tensors(path, config, shared)
    # <s> is 1 and </s> is 2 in llama2.c's tokenizers; its stories end with either of them
    return Checkpoint(build_model(config, tensors, path), GenerationConfig(start=1, end=(1, 2)))


def _read_settings(path: Path) -> tuple[DecoderConfig, bool]:
    try:
        with open_file(path) as file:
            header = file.read(HEADER.size)
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read ({error.strerror})") from None
    if len(header) < HEADER.size:
        raise WeightsError(f"{path}: too short for a llama2.c checkpoint")
    width, inner, layers, heads, kv_heads, vocab, context = HEADER.unpack(header)
    shared = vocab > 0  # a negative number means a separate output projection
    numbers = (width, inner, layers, heads, kv_heads, abs(vocab), context)
    absurd = layers > MAX_LAYERS or not all(0 < value < MAX_HEADER_VALUE for value in numbers)
    if absurd or width % (2 * heads) or heads % kv_heads:
        raise WeightsError(f"{path}: not a llama2.c checkpoint (header {numbers})")
    config = DecoderConfig(
        vocab=abs(vocab),
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        inner=inner,
        context=context,
        positions="rotary",
        activation="swiglu",
        norm="rms",
        norm_first=True,
        norm_eps=1e-5,
        attention_bias=False,
        attention_output_bias=False,
        feedforward_bias=False,
        tied=shared,
    )
    return config, shared


def _read_tensors(path: Path, config: DecoderConfig, shared: bool) -> dict[str, Tensor]:
    """The file's order: each kind of weight for all layers, then the next kind."""
    layers, width, inner = config.layers, config.width, config.inner
    kv_heads = config.kv_heads or config.heads
    keys = kv_heads * config.per_head_width
    stacked = {
        "attention_residual.norm": (layers, width),
        "attention.query": (layers, width, width),
        "attention.key": (layers, keys, width),
        "attention.value": (layers, keys, width),
        "attention.output": (layers, width, width),
        "feedforward_residual.norm": (layers, width),
        "feedforward.gate": (layers, inner, width),
        "feedforward.down": (layers, width, inner),
        "feedforward.up": (layers, inner, width),
    }
    shapes: dict[str, tuple[int, ...]] = {
        "embedding.tokens": (config.vocab, width),
        **stacked,
        "stack.norm": (width,),
        "rotary tables": (2, config.context, config.per_head_width // 2),  # ignored: regard computes them
    } | ({} if shared else {"output": (config.vocab, width)})
    sizes = [torch.Size(shape).numel() for shape in shapes.values()]
    expected, found = HEADER.size + 4 * sum(sizes), path.stat().st_size
    if found != expected:
        raise WeightsError(f"{path}: has {counted(found, 'byte')}, but its header requires {expected:,}")
    numbers = torch.from_file(str(path), shared=False, size=found // 4, dtype=torch.float32)[HEADER.size // 4 :]
    parts: dict[str, Tensor] = {}
    start = 0
    for (name, shape), size in zip(shapes.items(), sizes, strict=True):
        parts[name] = numbers[start : start + size].view(shape)
        start += size
    del parts["rotary tables"]
    tensors: dict[str, Tensor] = {}
    for name, part in parts.items():
        if name not in stacked:
            tensors[f"{name}.weight"] = part
            continue
        for i in range(layers):
            tensors[f"stack.blocks.{i}.{name}.weight"] = part[i]
    for i in range(layers):  # rotary pairs are neighbours here, as in the RoPE paper
        for name, heads in (("query", config.heads), ("key", kv_heads)):
            full = f"stack.blocks.{i}.attention.{name}.weight"
            (tensors[full],) = pairs_to_halves(heads).read(tensors[full])
    return tensors
