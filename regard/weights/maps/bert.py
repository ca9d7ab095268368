"""BERT: learned positions, segments, post-norm; heads for masked tokens and for classes."""

from collections.abc import Iterable, Mapping
from typing import Literal

from regard.errors import ConfigError
from regard.models.config import BlockConfig, EncoderConfig
from regard.weights.maps.config_fields import (
    activation,
    architecture,
    decimal,
    hf_activation,
    hf_labels,
    labels,
    must_be,
    number,
)
from regard.weights.maps.table import HFModelType, Row, part, row

Head = Literal["none", "masked_lm", "classifier"]


def read_settings(raw: Mapping[str, object], names: Iterable[str]) -> EncoderConfig:
    must_be(raw, "position_embedding_type", "absolute", "regard's BERT has absolute positions")
    must_be(raw, "is_decoder", False, "regard's BERT is an encoder")
    head = which_head(raw)
    # transformers' classifier always has a pooler, and would initialize a missing one randomly
    pooled = head == "classifier" or any(name.endswith("pooler.dense.weight") for name in names)
    return EncoderConfig(
        vocab=number(raw, "vocab_size"),
        width=number(raw, "hidden_size"),
        layers=number(raw, "num_hidden_layers"),
        heads=number(raw, "num_attention_heads"),
        inner=number(raw, "intermediate_size"),
        context=number(raw, "max_position_embeddings"),
        segments=number(raw, "type_vocab_size", 2),
        activation=activation(raw, "hidden_act", "gelu"),
        norm_eps=decimal(raw, "layer_norm_eps", 1e-12),
        embedding_norm=True,
        dropout=decimal(raw, "hidden_dropout_prob", 0.1),
        head=head,
        pooler="tanh" if pooled else "none",
        labels=labels(raw) if head == "classifier" else (),
    )


def write_settings(config: BlockConfig) -> dict[str, object]:
    assert isinstance(config, EncoderConfig)
    kind = {"none": "BertModel", "masked_lm": "BertForMaskedLM", "classifier": "BertForSequenceClassification"}
    return encoder_settings(config) | {"model_type": "bert", "architectures": [kind[config.head]]}


def encoder_settings(config: EncoderConfig) -> dict[str, object]:
    """The keys that BERT and RoFormer share."""
    if not config.segments:  # transformers always adds the embedding of segment 0
        raise ConfigError("segments = 0")
    return {
        "vocab_size": config.vocab,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.inner,
        "max_position_embeddings": config.context,
        "type_vocab_size": config.segments,
        "hidden_act": hf_activation(config.activation),
        "layer_norm_eps": config.norm_eps,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": 0.0,  # regard drops no attention weights
        **hf_labels(config.labels),
    }


def which_head(raw: Mapping[str, object]) -> Head:
    kind = architecture(raw)
    if kind.endswith(("ForMaskedLM", "ForPreTraining")):
        return "masked_lm"
    return "classifier" if kind.endswith("ForSequenceClassification") else "none"


def rows(config: BlockConfig) -> list[Row]:
    return [
        *embedding_rows("bert"),
        row("embedding.positions.weight", "bert.embeddings.position_embeddings.weight"),
        *part("stack.blocks.*.attention.query", "bert.encoder.layer.*.attention.self.query"),
        *part("stack.blocks.*.attention.key", "bert.encoder.layer.*.attention.self.key"),
        *block_rows("bert"),
        *part("pooler.dense", "bert.pooler.dense"),
        *masked_lm_rows(),
        *part("classifier", "classifier"),
    ]


def embedding_rows(name: str) -> list[Row]:
    return [
        row(
            "embedding.tokens.weight",
            f"{name}.embeddings.word_embeddings.weight",
            copies=("cls.predictions.decoder.weight",),
        ),
        row("embedding.segments.weight", f"{name}.embeddings.token_type_embeddings.weight"),
        *part("embedding.norm", f"{name}.embeddings.LayerNorm"),
    ]


def block_rows(name: str) -> list[Row]:
    """A block without its queries and keys, which RoFormer reorders."""
    layer = f"{name}.encoder.layer.*"
    return [
        *part("stack.blocks.*.attention.value", f"{layer}.attention.self.value"),
        *part("stack.blocks.*.attention.output", f"{layer}.attention.output.dense"),
        *part("stack.blocks.*.attention_residual.norm", f"{layer}.attention.output.LayerNorm"),
        *part("stack.blocks.*.feedforward.up", f"{layer}.intermediate.dense"),
        *part("stack.blocks.*.feedforward.down", f"{layer}.output.dense"),
        *part("stack.blocks.*.feedforward_residual.norm", f"{layer}.output.LayerNorm"),
    ]


def masked_lm_rows() -> list[Row]:
    return [
        *part("masked_lm.dense", "cls.predictions.transform.dense"),
        *part("masked_lm.norm", "cls.predictions.transform.LayerNorm"),
        row("masked_lm.output.bias", "cls.predictions.bias", copies=("cls.predictions.decoder.bias",)),
    ]


BERT = HFModelType(
    "bert",
    EncoderConfig,
    read_settings,
    write_settings,
    rows,
    prefix="bert.",
    ignored=(
        "bert.embeddings.position_ids",  # 0, 1, 2 … as a tensor, in old files
        "embeddings.position_ids",
        "cls.seq_relationship.weight",  # next-sentence prediction, the second pre-training task, unused in fine-tuning
        "cls.seq_relationship.bias",
    ),
)
