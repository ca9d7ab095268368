"""Write a pre-norm translation model of regard as a directory of transformers, for benchmarks/decoding.py.

Marian in transformers is post-norm. M2M100 is the same model with pre-norm, except for its sinusoids, whose
wavelengths differ slightly: `read` replaces them with those of the model.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import M2M100Config, M2M100ForConditionalGeneration

from regard.blocks.sinusoids import sinusoids
from regard.models.config import GenerationConfig, Seq2SeqConfig
from regard.models.seq2seq import Seq2Seq

PARTS = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.out_proj",
    "attention_residual.norm": "self_attn_layer_norm",
    "cross.query": "encoder_attn.q_proj",
    "cross.key": "encoder_attn.k_proj",
    "cross.value": "encoder_attn.v_proj",
    "cross.output": "encoder_attn.out_proj",
    "cross_residual.norm": "encoder_attn_layer_norm",
    "feedforward.up": "fc1",
    "feedforward.down": "fc2",
    "feedforward_residual.norm": "final_layer_norm",
}


def write(model: Seq2Seq, folder: Path, generation: GenerationConfig) -> None:
    config = model.config
    assert (config.norm_first, config.tied, config.positions) == (True, "all", "sinusoidal_halves")
    assert (config.activation, config.norm, config.norm_eps) == ("relu", "layer", 1e-5)
    assert config.scale_embeddings
    assert not config.output_bias
    theirs = M2M100ForConditionalGeneration(
        M2M100Config(
            **sizes(config),
            pad_token_id=generation.pad,
            eos_token_id=generation.end[0],
            bos_token_id=generation.start,
            decoder_start_token_id=generation.start,
        )
    )
    left = theirs.load_state_dict(_renamed(dict(model.named_parameters())), strict=False)
    assert not left.unexpected_keys
    # other names of the tied matrix
    assert all(name.endswith(("embed_tokens.weight", "lm_head.weight")) for name in left.missing_keys)
    theirs.save_pretrained(folder)


def sizes(config: Seq2SeqConfig) -> dict[str, Any]:
    """The settings under the names of transformers."""
    return {
        "vocab_size": config.vocab,
        "d_model": config.width,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.inner,
        "decoder_ffn_dim": config.inner,
        "max_position_embeddings": config.context,
        "activation_function": "relu",
        "scale_embedding": True,
    }


def _renamed(ours: dict[str, Tensor]) -> dict[str, Tensor]:
    theirs: dict[str, Tensor] = {}
    for name, tensor in ours.items():
        side, _, rest = name.partition(".")
        if side == "source":
            theirs["model.shared.weight"] = tensor
        elif rest.startswith("norm."):
            theirs[f"model.{side}.layer_{rest}"] = tensor
        else:
            _, number, *part, kind = name.split(".")[1:]
            theirs[f"model.{side}.layers.{number}.{PARTS['.'.join(part)]}.{kind}"] = tensor
    return theirs


def read(folder: Path) -> M2M100ForConditionalGeneration:
    model = M2M100ForConditionalGeneration.from_pretrained(folder).eval()
    for side in (model.model.encoder, model.model.decoder):
        positions = side.embed_positions
        first = positions.padding_idx + 1
        table = sinusoids(len(positions.weights) - first, positions.embedding_dim, interleaved=False)
        positions.weights[first:] = torch.from_numpy(np.ascontiguousarray(table))
    return model
