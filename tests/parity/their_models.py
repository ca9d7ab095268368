"""Tiny random models made by `transformers`: every variant that regard reads, one per line."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from torch import Tensor

VOCAB, PAD = 50, 0  # `ragged` never draws PAD
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,  # pairs of all three kinds: kept, blended, slowed
}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
TOKENS = {"pad_token_id": PAD, "bos_token_id": 1, "eos_token_id": 2}


def nothing(directory: Path) -> None:
    """Leave the directory as `save_pretrained` wrote it."""


@dataclass(frozen=True)
class Variant:
    family: str
    kind: type[Any]
    settings: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    """Arguments of the class."""
    retouch: Callable[[Path], None] = nothing
    """Change the saved directory to look like another one found in the wild."""


@dataclass(frozen=True)
class Pair:
    """One model twice: made by transformers, and loaded by regard from the directory it was saved in."""

    family: str
    theirs: Any
    ours: Any
    directory: Path


Both = Callable[..., Pair]
"""Type of the fixture: the name of a variant and an optional seed -> the pair."""


CONFIGS: dict[str, Callable[..., Any]] = {
    "marian": lambda **more: hf.MarianConfig(
        **{
            "vocab_size": VOCAB,
            "decoder_vocab_size": VOCAB,
            "d_model": 16,
            "encoder_layers": 2,
            "decoder_layers": 3,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 24,
            "decoder_ffn_dim": 24,
            "max_position_embeddings": 64,
            "activation_function": "swish",
            "scale_embedding": True,
            "pad_token_id": PAD,
            "eos_token_id": 2,
            "decoder_start_token_id": PAD,
            "forced_eos_token_id": None,
        }
        | more
    ),
    "bert": lambda **more: hf.BertConfig(**sizes(max_position_embeddings=40, type_vocab_size=3) | more),
    "roformer": lambda **more: hf.RoFormerConfig(**sizes(max_position_embeddings=40, embedding_size=16) | more),
    "gpt2": lambda **more: hf.GPT2Config(
        **{"vocab_size": VOCAB, "n_embd": 16, "n_layer": 3, "n_head": 4, "n_inner": 24, "n_positions": 40}
        | TOKENS
        | more
    ),
    "llama": lambda **more: hf.LlamaConfig(
        **sizes(max_position_embeddings=128, num_attention_heads=4, num_key_value_heads=2, hidden_size=32)
        | {"hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
        | TOKENS
        | more
    ),
    "vit": lambda **more: hf.ViTConfig(**sizes(image_size=12, patch_size=4, num_channels=2) | more),
}


def sizes(**more: Any) -> dict[str, Any]:
    return {
        "vocab_size": VOCAB,
        "hidden_size": 16,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 24,
        **more,
    }


def old_rope_spelling(directory: Path) -> None:
    """Write config.json as before transformers 5."""
    path = directory / "config.json"
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    if rope["rope_type"] == "linear":
        rope["type"] = rope.pop("rope_type")  # the oldest of all
    config["rope_scaling"] = rope
    path.write_text(json.dumps(config))


def as_on_the_hub(directory: Path) -> None:
    """Like gpt2's file on the hub: names without `transformer.`, and the causal masks of old versions."""
    from safetensors.torch import load_file, save_file

    path = directory / "model.safetensors"
    tensors = {name.removeprefix("transformer."): tensor for name, tensor in load_file(path).items()}
    for layer in range(3):
        tensors[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 40, 40).tril()
        tensors[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    save_file(tensors, path, metadata={"format": "pt"})


THREE_LABELS = {"id2label": {0: "no", 1: "perhaps", 2: "yes"}, "label2id": {"no": 0, "perhaps": 1, "yes": 2}}
UNSHARED = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 43}

VARIANTS: dict[str, Variant] = {
    "marian": Variant("marian", hf.MarianMTModel),
    "marian, relu": Variant("marian", hf.MarianMTModel, {"activation_function": "relu", "scale_embedding": False}),
    "marian, two vocabularies": Variant("marian", hf.MarianMTModel, UNSHARED),
    "bert, masked words": Variant("bert", hf.BertForMaskedLM),
    "bert, classifier": Variant("bert", hf.BertForSequenceClassification, THREE_LABELS),
    "bert, bare": Variant("bert", hf.BertModel),
    "bert, bare without a pooler": Variant("bert", hf.BertModel, extra={"add_pooling_layer": False}),
    "bert, pre-training": Variant("bert", hf.BertForPreTraining, {"hidden_act": "gelu_new", "layer_norm_eps": 1e-6}),
    "roformer, masked words": Variant("roformer", hf.RoFormerForMaskedLM),
    "roformer, classifier": Variant("roformer", hf.RoFormerForSequenceClassification, {"hidden_act": "relu"}),
    "roformer, bare": Variant("roformer", hf.RoFormerModel),
    "gpt2": Variant("gpt2", hf.GPT2LMHeadModel),
    "gpt2, untied": Variant("gpt2", hf.GPT2LMHeadModel, {"tie_word_embeddings": False}),
    "gpt2, as on the hub": Variant("gpt2", hf.GPT2LMHeadModel, retouch=as_on_the_hub),
    "gpt2, classifier": Variant("gpt2", hf.GPT2ForSequenceClassification, THREE_LABELS),
    "llama": Variant("llama", hf.LlamaForCausalLM),
    "llama, a head each": Variant("llama", hf.LlamaForCausalLM, {"num_key_value_heads": 4}),
    "llama, tied": Variant("llama", hf.LlamaForCausalLM, {"tie_word_embeddings": True}),
    "llama, linear": Variant("llama", hf.LlamaForCausalLM, {"rope_parameters": LINEAR}),
    "llama, llama3": Variant("llama", hf.LlamaForCausalLM, {"rope_parameters": LLAMA3}),
    "llama, linear of old": Variant(
        "llama", hf.LlamaForCausalLM, {"rope_parameters": LINEAR}, retouch=old_rope_spelling
    ),
    "llama, llama3 of old": Variant(
        "llama", hf.LlamaForCausalLM, {"rope_parameters": LLAMA3}, retouch=old_rope_spelling
    ),
    "llama, biases": Variant("llama", hf.LlamaForCausalLM, {"attention_bias": True, "mlp_bias": True}),
    "llama, head width": Variant("llama", hf.LlamaForCausalLM, {"head_dim": 6}),
    "llama, classifier": Variant("llama", hf.LlamaForSequenceClassification, THREE_LABELS),
    "vit, classifier": Variant("vit", hf.ViTForImageClassification, THREE_LABELS),
    "vit, bare": Variant("vit", hf.ViTModel, {"qkv_bias": False}),
}


def make(variant: Variant, seed: int = 0) -> Any:
    """The model in float32 and evaluation mode, with weights large enough for a difference to show."""
    model = variant.kind(CONFIGS[variant.family](**variant.settings), **variant.extra).float().eval()
    draw(model, seed)
    return model


@torch.no_grad()
def draw(model: Any, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    size = 0.8 * model.config.hidden_size**-0.5  # 0.2 at a width of 16
    drawn = dict(model.named_parameters())
    drawn |= {name: buffer for name, buffer in model.named_buffers() if name == "final_logits_bias"}
    for name, tensor in drawn.items():
        if "embed_positions" in name:  # sines and cosines, not trained
            continue
        around = 1.0 if tensor.dim() == 1 and name.endswith("weight") else 0.0  # norms
        tensor.copy_(around + size * torch.randn(tensor.shape, generator=random))


def ragged(lengths: list[int], *, left: bool = False, vocab: int = VOCAB, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random ids of these lengths, padded to (B, L), and the mask of real tokens."""
    random = torch.Generator().manual_seed(seed)
    ids_BL = torch.full((len(lengths), max(lengths)), PAD)
    present_BL = torch.zeros_like(ids_BL, dtype=torch.bool)
    for row, length in enumerate(lengths):
        place = slice(max(lengths) - length, None) if left else slice(0, length)
        ids_BL[row, place] = torch.randint(3, vocab, (length,), generator=random)
        present_BL[row, place] = True
    return ids_BL, present_BL
