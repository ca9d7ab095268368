"""llama2.c's .bin format, written here from a Llama of transformers."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from parity_checks import same_model
from their_models import CONFIGS, draw, ragged
from torch import Tensor

import regard


def neighbours(weight: Tensor, heads: int) -> Tensor:
    """Rows of a query or key projection as Meta's checkpoints have them: a pair is 2i and 2i + 1, not i and i + K/2."""
    width = weight.shape[0] // heads
    rows = [
        head * width + pair + half for head in range(heads) for pair in range(width // 2) for half in (0, width // 2)
    ]
    return weight[rows]


def write_bin(path: Path, model: Any) -> None:
    config, state = model.config, model.state_dict()
    heads, kv_heads, layers = config.num_attention_heads, config.num_key_value_heads, config.num_hidden_layers
    context, pairs = config.max_position_embeddings, config.head_dim // 2
    vocab = config.vocab_size if config.tie_word_embeddings else -config.vocab_size
    numbers = (config.hidden_size, config.intermediate_size, layers, heads, kv_heads, vocab, context)

    def each(name: str) -> list[Tensor]:
        return [state[f"model.layers.{i}.{name}.weight"] for i in range(layers)]

    tensors = [
        state["model.embed_tokens.weight"],
        *each("input_layernorm"),
        *(neighbours(weight, heads) for weight in each("self_attn.q_proj")),
        *(neighbours(weight, kv_heads) for weight in each("self_attn.k_proj")),
        *each("self_attn.v_proj"),
        *each("self_attn.o_proj"),
        *each("post_attention_layernorm"),
        *each("mlp.gate_proj"),
        *each("mlp.down_proj"),
        *each("mlp.up_proj"),
        state["model.norm.weight"],
        torch.full((2, context, pairs), torch.nan),  # the angles' cosines and sines, which no one should need
        *([] if config.tie_word_embeddings else [state["lm_head.weight"]]),
    ]
    with path.open("wb") as file:
        file.write(struct.pack("<7i", *numbers))
        for tensor in tensors:
            file.write(tensor.numpy().astype(np.dtype("<f4")).tobytes())


@torch.inference_mode()
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_llama2c(shared: bool, kv_heads: int, tmp_path: Path) -> None:
    theirs = hf.LlamaForCausalLM(CONFIGS["llama"](tie_word_embeddings=shared, num_key_value_heads=kv_heads)).eval()
    draw(theirs, seed=3)
    write_bin(tmp_path / "stories.bin", theirs)
    ours = regard.load(tmp_path / "stories.bin", device="cpu")
    ids_BL, _ = ragged([40, 40])
    assert (ours.network(ids_BL) - theirs(ids_BL).logits).abs().max() <= 1e-5
    assert (ours.logits(ids_BL[0].tolist()) - theirs(ids_BL[:1]).logits[0]).abs().max() <= 1e-5
    assert not ours.has_tokenizer
    for style in ("regard", "huggingface"):
        ours.save(tmp_path / style, style)
        same_model(regard.load(tmp_path / style, device="cpu"), ours)
