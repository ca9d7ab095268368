"""RoFormer: BERT with rotary positions. It rotates neighbouring features, regard the two halves of a head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from regard.models.config import BlockConfig, EncoderConfig
from regard.weights.maps.bert import block_rows, embedding_rows, encoder_settings, masked_lm_rows, which_head
from regard.weights.maps.config_fields import activation, decimal, labels, must_be, number
from regard.weights.maps.table import HFModelType, Row, pairs_to_halves, part

if TYPE_CHECKING:
    from torch import Tensor


def read_settings(raw: Mapping[str, object], names: Iterable[str]) -> EncoderConfig:
    must_be(raw, "rotary_value", False, "regard rotates queries and keys only")
    must_be(raw, "is_decoder", False, "regard's RoFormer is an encoder")
    width, head = number(raw, "hidden_size"), which_head(raw)
    if raw.get("embedding_size") is not None:
        must_be(raw, "embedding_size", width, "regard's RoFormer has embeddings of the model's width")
    act = activation(raw, "hidden_act", "gelu")
    return EncoderConfig(
        vocab=number(raw, "vocab_size"),
        width=width,
        layers=number(raw, "num_hidden_layers"),
        heads=number(raw, "num_attention_heads"),
        inner=number(raw, "intermediate_size"),
        context=number(raw, "max_position_embeddings"),
        positions="rotary",
        segments=number(raw, "type_vocab_size", 2),
        activation=act,
        norm_eps=decimal(raw, "layer_norm_eps", 1e-12),
        embedding_norm=True,
        dropout=decimal(raw, "hidden_dropout_prob", 0.1),
        head=head,
        # the dense layer of its classifier is BERT's pooler with another activation
        pooler=act if head == "classifier" else "none",
        labels=labels(raw) if head == "classifier" else (),
    )


def write_settings(config: BlockConfig) -> dict[str, object]:
    assert isinstance(config, EncoderConfig)
    kind = {"none": "Model", "masked_lm": "ForMaskedLM", "classifier": "ForSequenceClassification"}[config.head]
    return encoder_settings(config) | {
        "model_type": "roformer",
        "architectures": [f"RoFormer{kind}"],
        "embedding_size": config.width,
        "rotary_value": False,
    }


def rows(config: BlockConfig) -> list[Row]:
    pairs = pairs_to_halves(config.heads)
    return [
        *embedding_rows("roformer"),
        *part("stack.blocks.*.attention.query", "roformer.encoder.layer.*.attention.self.query", pairs),
        *part("stack.blocks.*.attention.key", "roformer.encoder.layer.*.attention.self.key", pairs),
        *block_rows("roformer"),
        *masked_lm_rows(),
        *part("pooler.dense", "classifier.dense"),
        *part("classifier", "classifier.out_proj"),
    ]


def computed(config: BlockConfig) -> dict[str, Tensor]:
    from regard.blocks.embeddings import sinusoidal

    assert isinstance(config, EncoderConfig)
    prefix = "" if config.head == "none" else "roformer."
    return {
        f"{prefix}encoder.embed_positions.weight": sinusoidal(config.context, config.per_head_width, interleaved=False)
    }


ROFORMER = HFModelType(
    "roformer",
    EncoderConfig,
    read_settings,
    write_settings,
    rows,
    prefix="roformer.",
    ignored=(
        "roformer.encoder.embed_positions.weight",  # sines and cosines, which are computed
        "encoder.embed_positions.weight",
    ),
    computed=computed,
)
