"""Llama: pre-norm with RMSNorm, rotary positions, SwiGLU, grouped keys and values."""

from collections.abc import Iterable, Mapping
from typing import Any

from regard.errors import ConfigError
from regard.models.config import BlockConfig, DecoderConfig, RotaryScaling
from regard.weights.maps.config_fields import (
    architecture,
    decimal,
    hf_labels,
    labels,
    must_be,
    number,
    optional_number,
    switch,
)
from regard.weights.maps.table import HFModelType, Row, part, row


def read_settings(raw: Mapping[str, object], names: Iterable[str]) -> DecoderConfig:
    must_be(raw, "hidden_act", "silu", "regard's Llama has SwiGLU")
    classifier = architecture(raw).endswith("ForSequenceClassification")
    rotary = rotary_settings(raw)
    bias = switch(raw, "attention_bias", False)
    return DecoderConfig(
        vocab=number(raw, "vocab_size"),
        width=number(raw, "hidden_size"),
        layers=number(raw, "num_hidden_layers"),
        heads=number(raw, "num_attention_heads"),
        kv_heads=optional_number(raw, "num_key_value_heads"),
        head_width=optional_number(raw, "head_dim"),
        inner=number(raw, "intermediate_size"),
        context=number(raw, "max_position_embeddings", 2048),
        positions="rotary",
        rotary_base=decimal(rotary, "rope_theta", 10000.0),
        rotary_scaling=rotary_scaling(rotary),
        activation="swiglu",
        norm="rms",
        norm_first=True,
        norm_eps=decimal(raw, "rms_norm_eps", 1e-6),
        attention_bias=bias,
        attention_output_bias=bias,
        feedforward_bias=switch(raw, "mlp_bias", False),
        tied=switch(raw, "tie_word_embeddings", False),
        head="classifier" if classifier else "lm",
        labels=labels(raw) if classifier else (),
    )


def rotary_settings(raw: Mapping[str, object]) -> dict[str, Any]:
    """`rope_parameters` since transformers 5; before, `rope_theta` and an optional `rope_scaling`."""
    table: dict[str, Any] = {}
    if raw.get("rope_theta") is not None:
        table["rope_theta"] = raw["rope_theta"]
    for key in ("rope_scaling", "rope_parameters"):
        found = raw.get(key)
        if isinstance(found, dict):
            table |= found
    return table


def rotary_scaling(rotary: Mapping[str, Any]) -> RotaryScaling | None:
    kind = rotary.get("rope_type", rotary.get("type", "default"))
    if kind == "default":
        return None
    if kind == "linear":
        return RotaryScaling(kind="linear", factor=decimal(rotary, "factor", 1.0))
    if kind == "llama3":
        return RotaryScaling(
            kind="llama3",
            factor=decimal(rotary, "factor", 8.0),
            low=decimal(rotary, "low_freq_factor", 1.0),
            high=decimal(rotary, "high_freq_factor", 4.0),
            original_context=number(rotary, "original_max_position_embeddings", 8192),
        )
    raise ConfigError(f"config.json: unknown rope type '{kind}'; supported are default, linear, llama3")


def write_settings(config: BlockConfig) -> dict[str, object]:
    assert isinstance(config, DecoderConfig)
    rotary: dict[str, object] = {"rope_type": "default", "rope_theta": config.rotary_base}
    if (scaling := config.rotary_scaling) is not None:
        rotary |= {"rope_type": scaling.kind, "factor": scaling.factor}
        if scaling.kind == "llama3":
            rotary |= {
                "low_freq_factor": scaling.low,
                "high_freq_factor": scaling.high,
                "original_max_position_embeddings": scaling.original_context,
            }
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM" if config.head == "lm" else "LlamaForSequenceClassification"],
        "vocab_size": config.vocab,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads or config.heads,
        "head_dim": config.per_head_width,
        "intermediate_size": config.inner,
        "max_position_embeddings": config.context,
        "hidden_act": "silu",
        "rms_norm_eps": config.norm_eps,
        "attention_bias": config.attention_bias,
        "mlp_bias": config.feedforward_bias,
        "tie_word_embeddings": config.tied,
        "rope_parameters": rotary,
        # the same for versions before transformers 5
        "rope_theta": config.rotary_base,
        "rope_scaling": None if config.rotary_scaling is None else rotary,
        **hf_labels(config.labels),
    }


def rows(config: BlockConfig) -> list[Row]:
    assert isinstance(config, DecoderConfig)
    shared = config.tied and config.head == "lm"
    layer, block = "model.layers.*", "stack.blocks.*"
    return [
        row("embedding.tokens.weight", "model.embed_tokens.weight", copies=("lm_head.weight",) if shared else ()),
        *part(f"{block}.attention_residual.norm", f"{layer}.input_layernorm"),
        *part(f"{block}.attention.query", f"{layer}.self_attn.q_proj"),
        *part(f"{block}.attention.key", f"{layer}.self_attn.k_proj"),
        *part(f"{block}.attention.value", f"{layer}.self_attn.v_proj"),
        *part(f"{block}.attention.output", f"{layer}.self_attn.o_proj"),
        *part(f"{block}.feedforward_residual.norm", f"{layer}.post_attention_layernorm"),
        *part(f"{block}.feedforward.gate", f"{layer}.mlp.gate_proj"),
        *part(f"{block}.feedforward.up", f"{layer}.mlp.up_proj"),
        *part(f"{block}.feedforward.down", f"{layer}.mlp.down_proj"),
        row("stack.norm.weight", "model.norm.weight"),
        row("output.weight", "lm_head.weight" if config.head == "lm" else "score.weight"),
    ]


LLAMA = HFModelType(
    "llama",
    DecoderConfig,
    read_settings,
    write_settings,
    rows,
    prefix="model.",
    ignored=("model.layers.*.self_attn.rotary_emb.inv_freq",),  # the frequencies, in old files
)
