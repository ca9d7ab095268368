"""ViT: a pre-norm encoder over patches."""

from collections.abc import Iterable, Mapping

from regard.models.config import BlockConfig, VisionConfig
from regard.weights.maps.config_fields import (
    activation,
    architecture,
    decimal,
    hf_activation,
    hf_labels,
    labels,
    number,
    switch,
)
from regard.weights.maps.table import HFModelType, Row, part, row, shaped


def read_settings(raw: Mapping[str, object], names: Iterable[str]) -> VisionConfig:
    return VisionConfig(
        width=number(raw, "hidden_size"),
        layers=number(raw, "num_hidden_layers"),
        heads=number(raw, "num_attention_heads"),
        inner=number(raw, "intermediate_size"),
        image=number(raw, "image_size", 224),
        patch=number(raw, "patch_size", 16),
        channels=number(raw, "num_channels", 3),
        activation=activation(raw, "hidden_act", "gelu"),
        norm_first=True,
        norm_eps=decimal(raw, "layer_norm_eps", 1e-12),
        attention_bias=switch(raw, "qkv_bias", True),
        dropout=decimal(raw, "hidden_dropout_prob", 0.0),
        labels=labels(raw) if architecture(raw) == "ViTForImageClassification" else (),
    )


def write_settings(config: BlockConfig) -> dict[str, object]:
    assert isinstance(config, VisionConfig)
    return {
        "model_type": "vit",
        "architectures": ["ViTForImageClassification" if config.labels else "ViTModel"],
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.inner,
        "image_size": config.image,
        "patch_size": config.patch,
        "num_channels": config.channels,
        "hidden_act": hf_activation(config.activation),
        "layer_norm_eps": config.norm_eps,
        "qkv_bias": config.attention_bias,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": 0.0,  # regard drops no attention weights
        **hf_labels(config.labels),
    }


def rows(config: BlockConfig) -> list[Row]:
    assert isinstance(config, VisionConfig)
    positions = (config.image // config.patch) ** 2 + 1
    layer, block = "vit.encoder.layer.*", "stack.blocks.*"
    return [
        row("class_token", "vit.embeddings.cls_token", shaped((config.width,), (1, 1, config.width))),
        row(
            "positions.weight",
            "vit.embeddings.position_embeddings",
            shaped((positions, config.width), (1, positions, config.width)),
        ),
        *part("patches.projection", "vit.embeddings.patch_embeddings.projection"),
        *part(f"{block}.attention_residual.norm", f"{layer}.layernorm_before"),
        *part(f"{block}.attention.query", f"{layer}.attention.attention.query"),
        *part(f"{block}.attention.key", f"{layer}.attention.attention.key"),
        *part(f"{block}.attention.value", f"{layer}.attention.attention.value"),
        *part(f"{block}.attention.output", f"{layer}.attention.output.dense"),
        *part(f"{block}.feedforward_residual.norm", f"{layer}.layernorm_after"),
        *part(f"{block}.feedforward.up", f"{layer}.intermediate.dense"),
        *part(f"{block}.feedforward.down", f"{layer}.output.dense"),
        *part("stack.norm", "vit.layernorm"),
        *part("classifier", "classifier"),
    ]


VIT = HFModelType(
    "vit",
    VisionConfig,
    read_settings,
    write_settings,
    rows,
    prefix="vit.",
    ignored=(
        "pooler.dense.weight",  # an extra layer on the class token of a ViT without a head, unused by the classifier
        "pooler.dense.bias",
    ),
)
