"""Checkpoints of transformers as found in the wild: sharded, in half precision, with old names."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from parity_checks import same_model
from safetensors.torch import load_file, save_file
from their_models import VARIANTS, Both, make
from torch import Tensor

import regard

EVERY_FAMILY = ["marian", "bert, masked words", "roformer, masked words", "gpt2", "llama", "vit, classifier"]


@pytest.mark.parametrize("name", EVERY_FAMILY)
def test_shards(both: Both, name: str, tmp_path: Path) -> None:
    pair = both(name)
    pair.theirs.save_pretrained(tmp_path, max_shard_size="4KB")
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 2
    same_model(regard.load(tmp_path, device="cpu"), pair.ours)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", EVERY_FAMILY)
def test_half_precision(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    theirs = make(VARIANTS[name]).to(dtype)
    theirs.save_pretrained(tmp_path / "half")
    assert any(tensor.dtype == dtype for tensor in load_file(tmp_path / "half" / "model.safetensors").values())
    theirs.float().save_pretrained(tmp_path / "whole")  # what was lost is lost, so both hold the same numbers
    same_model(regard.load(tmp_path / "half", device="cpu"), regard.load(tmp_path / "whole", device="cpu"))


def old_norm_names(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """TensorFlow's names of norms, as in the first BERTs."""

    def old(name: str) -> str:
        return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    return {old(name): tensor for name, tensor in tensors.items()}


def copies_of_the_shared(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tied tensors stored once per name, as before safetensors."""
    embedding = tensors["bert.embeddings.word_embeddings.weight"]
    return tensors | {
        "cls.predictions.decoder.weight": embedding.clone(),
        "cls.predictions.decoder.bias": tensors["cls.predictions.bias"].clone(),
    }


def every_marian_name(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    names = ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")
    shared = next(tensors[f"{name}.weight"] for name in names if f"{name}.weight" in tensors)
    positions = {f"model.{side}.embed_positions.weight": torch.zeros(64, 16) for side in ("encoder", "decoder")}
    return tensors | {f"{name}.weight": shared.clone() for name in names} | positions


def position_ids(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return tensors | {"bert.embeddings.position_ids": torch.arange(40)[None]}


def bare_position_ids(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return tensors | {"embeddings.position_ids": torch.arange(40)[None]}


def look_ahead_masks(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    masks = {f"transformer.h.{i}.attn.bias": torch.ones(1, 1, 40, 40, dtype=torch.bool) for i in range(3)}
    return tensors | masks | {"transformer.h.0.attn.masked_bias": torch.tensor(-1e4)}


def frequencies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return tensors | {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": torch.ones(4) for i in range(3)}


@pytest.mark.parametrize(
    ("name", "age"),
    [
        ("bert, masked words", old_norm_names),
        ("bert, classifier", old_norm_names),
        ("bert, masked words", copies_of_the_shared),
        ("bert, masked words", position_ids),
        ("bert, bare", bare_position_ids),
        ("roformer, masked words", old_norm_names),
        ("marian", every_marian_name),
        ("gpt2", look_ahead_masks),
        ("gpt2, as on the hub", lambda tensors: tensors),
        ("llama", frequencies),
    ],
)
def test_old_files(
    both: Both, name: str, age: Callable[[dict[str, Tensor]], dict[str, Tensor]], tmp_path: Path
) -> None:
    pair = both(name)
    aged = age(load_file(pair.directory / "model.safetensors"))
    save_file(aged, tmp_path / "model.safetensors")  # no metadata either: old files have none
    for file in pair.directory.glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    same_model(regard.load(tmp_path, device="cpu"), pair.ours)
