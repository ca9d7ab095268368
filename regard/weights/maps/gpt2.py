"""GPT-2: pre-norm, learned positions. Linear weights are transposed; query, key and value are one tensor."""

from collections.abc import Iterable, Mapping

from regard.models.config import BlockConfig, DecoderConfig
from regard.weights.maps.config_fields import (
    activation,
    architecture,
    decimal,
    hf_activation,
    hf_labels,
    labels,
    must_be,
    number,
    optional_number,
    switch,
)
from regard.weights.maps.table import TRANSPOSED, HFModelType, Row, part, row, thirds

QUERY_KEY_VALUE = ("stack.blocks.*.attention.query", "stack.blocks.*.attention.key", "stack.blocks.*.attention.value")


def read_settings(raw: Mapping[str, object], names: Iterable[str]) -> DecoderConfig:
    must_be(raw, "scale_attn_weights", True, "regard scales scores by 1 / sqrt(head width)")
    must_be(raw, "scale_attn_by_inverse_layer_idx", False, "regard scales every layer the same way")
    must_be(raw, "add_cross_attention", False, "regard's GPT-2 has no cross-attention")
    width = number(raw, "n_embd")
    classifier = architecture(raw).endswith("ForSequenceClassification")
    return DecoderConfig(
        vocab=number(raw, "vocab_size"),
        width=width,
        layers=number(raw, "n_layer"),
        heads=number(raw, "n_head"),
        inner=optional_number(raw, "n_inner") or 4 * width,
        context=number(raw, "n_positions"),
        activation=activation(raw, "activation_function", "gelu_new"),
        norm_first=True,
        norm_eps=decimal(raw, "layer_norm_epsilon", 1e-5),
        dropout=decimal(raw, "resid_pdrop", 0.1),
        tied=switch(raw, "tie_word_embeddings", True),
        head="classifier" if classifier else "lm",
        labels=labels(raw) if classifier else (),
    )


def write_settings(config: BlockConfig) -> dict[str, object]:
    assert isinstance(config, DecoderConfig)
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel" if config.head == "lm" else "GPT2ForSequenceClassification"],
        "vocab_size": config.vocab,
        "n_embd": config.width,
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_inner": config.inner,
        "n_positions": config.context,
        "activation_function": hf_activation(config.activation),
        "layer_norm_epsilon": config.norm_eps,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,  # regard drops no attention weights
        "tie_word_embeddings": config.tied,
        **hf_labels(config.labels),
    }


def rows(config: BlockConfig) -> list[Row]:
    assert isinstance(config, DecoderConfig)
    shared = config.tied and config.head == "lm"
    return [
        row(
            "embedding.tokens.weight",
            "transformer.wte.weight",
            copies=("lm_head.weight",) if shared else (),
        ),
        row("embedding.positions.weight", "transformer.wpe.weight"),
        *part("stack.blocks.*.attention_residual.norm", "transformer.h.*.ln_1"),
        Row(
            tuple(f"{name}.weight" for name in QUERY_KEY_VALUE),
            "transformer.h.*.attn.c_attn.weight",
            thirds(transposed=True),
        ),
        Row(
            tuple(f"{name}.bias" for name in QUERY_KEY_VALUE),
            "transformer.h.*.attn.c_attn.bias",
            thirds(transposed=False),
        ),
        *part("stack.blocks.*.attention.output", "transformer.h.*.attn.c_proj", TRANSPOSED),
        *part("stack.blocks.*.feedforward_residual.norm", "transformer.h.*.ln_2"),
        *part("stack.blocks.*.feedforward.up", "transformer.h.*.mlp.c_fc", TRANSPOSED),
        *part("stack.blocks.*.feedforward.down", "transformer.h.*.mlp.c_proj", TRANSPOSED),
        *part("stack.norm", "transformer.ln_f"),
        row("output.weight", "lm_head.weight" if config.head == "lm" else "score.weight"),
    ]


GPT2 = HFModelType(
    "gpt2",
    DecoderConfig,
    read_settings,
    write_settings,
    rows,
    prefix="transformer.",
    ignored=(
        "transformer.h.*.attn.bias",  # the causal mask as a tensor, in old files
        "transformer.h.*.attn.masked_bias",
        "h.*.attn.bias",
        "h.*.attn.masked_bias",
    ),
)
