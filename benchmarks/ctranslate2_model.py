"""Write a translation model of regard as a CTranslate2 directory with the same weights, for benchmarks/decoding.py."""

from pathlib import Path

import ctranslate2
import numpy as np
import torch
from ctranslate2.specs import TransformerSpec, common_spec
from torch import nn

from regard.blocks.attention import Attention
from regard.blocks.block import Stack
from regard.blocks.embeddings import TextEmbedding
from regard.models.seq2seq import Seq2Seq

START, END, UNKNOWN = "<s>", "</s>", "<unk>"


def write(model: Seq2Seq, folder: Path, *, start: int, end: int, quantization: str | None) -> list[str]:
    """Write the directory and return the names of its tokens."""
    config = model.config
    assert (config.activation, config.norm, config.source_vocab) == ("relu", "layer", None)
    assert config.positions in ("sinusoidal", "sinusoidal_halves")
    spec = TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.norm_first,
        activation=common_spec.Activation.RELU,
    )
    _embedding(spec.encoder, spec.encoder.embeddings[0], model.source, config.context)
    _embedding(spec.decoder, spec.decoder.embeddings, model.target, config.context)
    _stack(spec.encoder, model.encoder)
    _stack(spec.decoder, model.decoder)
    spec.decoder.projection.weight = _array(model.output.weight)
    if model.output.bias is not None:
        spec.decoder.projection.bias = _array(model.output.bias)
    names = [f"t{number}" for number in range(config.vocab)]
    names[start], names[end] = START, END
    unused = next(number for number in range(config.vocab) if number not in (start, end))
    names[unused] = UNKNOWN
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.add_attribute("bos_token", START)
    spec.config.eos_token, spec.config.unk_token, spec.config.decoder_start_token = END, UNKNOWN, START
    spec.config.add_source_eos = False
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))
    return names


def _embedding(side: object, spec: object, part: TextEmbedding, context: int) -> None:
    spec.weight = _array(part.tokens.weight)  # type: ignore[attr-defined]
    side.scale_embeddings = part.tokens.scale != 1.0  # type: ignore[attr-defined]
    assert part.positions is not None
    table = part.positions(torch.arange(context)[None])[0]
    side.position_encodings.encodings = _array(table)  # type: ignore[attr-defined]


def _stack(spec: object, stack: Stack) -> None:
    for layer, block in zip(spec.layer, stack.blocks, strict=True):  # type: ignore[attr-defined]
        attention: Attention = block.attention
        _linear(layer.self_attention.linear[0], attention.query, attention.key, attention.value)
        _linear(layer.self_attention.linear[1], attention.output)
        _norm(layer.self_attention.layer_norm, block.attention_residual.norm)
        if block.cross is not None:
            _linear(layer.attention.linear[0], block.cross.query)
            _linear(layer.attention.linear[1], block.cross.key, block.cross.value)
            _linear(layer.attention.linear[2], block.cross.output)
            _norm(layer.attention.layer_norm, block.cross_residual.norm)
        _linear(layer.ffn.linear_0, block.feedforward.up)
        _linear(layer.ffn.linear_1, block.feedforward.down)
        _norm(layer.ffn.layer_norm, block.feedforward_residual.norm)
    if stack.norm is not None:
        _norm(spec.layer_norm, stack.norm)  # type: ignore[attr-defined]


def _linear(spec: object, *parts: nn.Linear) -> None:
    spec.weight = np.concatenate([_array(part.weight) for part in parts])  # type: ignore[attr-defined]
    if parts[0].bias is not None:
        spec.bias = np.concatenate([_array(part.bias) for part in parts])  # type: ignore[attr-defined]


def _norm(spec: object, part: nn.Module) -> None:
    spec.gamma, spec.beta = _array(part.weight), _array(part.bias)  # type: ignore[attr-defined]


def _array(tensor: torch.Tensor | nn.Parameter) -> np.ndarray:
    return tensor.detach().float().numpy().copy()  # CTranslate2 modifies the array


def translator(folder: Path, *, threads: int, workers: int = 1, compute: str) -> ctranslate2.Translator:
    return ctranslate2.Translator(
        str(folder), device="cpu", inter_threads=workers, intra_threads=threads // workers, compute_type=compute
    )
