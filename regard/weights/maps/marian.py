"""Marian (OPUS-MT): the paper's model, with sines before cosines in its positions and a bias on the logits."""

from collections.abc import Iterable, Mapping
from typing import Literal

from regard.models.config import BlockConfig, Seq2SeqConfig
from regard.weights.maps.config_fields import (
    activation,
    decimal,
    hf_activation,
    must_be,
    number,
    optional_number,
    same_number,
    switch,
)
from regard.weights.maps.table import HFModelType, Row, part, row, shaped


def read_settings(raw: Mapping[str, object], names: Iterable[str]) -> Seq2SeqConfig:
    must_be(raw, "normalize_before", False, "regard's Marian is post-norm")
    must_be(raw, "normalize_embedding", False, "regard's Marian has no norm on its embeddings")
    must_be(raw, "add_final_layer_norm", False, "regard's Marian has no norm after its last block")
    must_be(raw, "static_position_embeddings", True, "regard's Marian has sinusoidal positions")
    shared = switch(raw, "share_encoder_decoder_embeddings", True)
    source_vocab = number(raw, "vocab_size")
    return Seq2SeqConfig(
        vocab=source_vocab if shared else optional_number(raw, "decoder_vocab_size") or source_vocab,
        source_vocab=None if shared else source_vocab,
        width=number(raw, "d_model"),
        heads=same_number(raw, "encoder_attention_heads", "decoder_attention_heads"),
        inner=same_number(raw, "encoder_ffn_dim", "decoder_ffn_dim"),
        encoder_layers=number(raw, "encoder_layers"),
        decoder_layers=number(raw, "decoder_layers"),
        context=number(raw, "max_position_embeddings", 1024),
        positions="sinusoidal_halves",
        activation=activation(raw, "activation_function", "gelu"),
        tied=_tied(shared, switch(raw, "tie_word_embeddings", True)),
        scale_embeddings=switch(raw, "scale_embedding", False),
        output_bias="final_logits_bias" in set(names),
        dropout=decimal(raw, "dropout", 0.1),
    )


def _tied(shared: bool, output_tied: bool) -> Literal["none", "target", "all"]:
    if shared and output_tied:
        return "all"
    return "target" if output_tied else "none"


def write_settings(config: BlockConfig) -> dict[str, object]:
    assert isinstance(config, Seq2SeqConfig)
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "vocab_size": config.vocab if config.source_vocab is None else config.source_vocab,
        "decoder_vocab_size": config.vocab,
        "d_model": config.width,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.inner,
        "decoder_ffn_dim": config.inner,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "max_position_embeddings": config.context,
        "activation_function": hf_activation(config.activation),
        "share_encoder_decoder_embeddings": config.tied == "all",
        "tie_word_embeddings": config.tied != "none",
        "scale_embedding": config.scale_embeddings,
        "dropout": config.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
    }


def rows(config: BlockConfig) -> list[Row]:
    assert isinstance(config, Seq2SeqConfig)
    return [
        *embedding_rows(config),
        *block_rows("encoder.blocks.*", "model.encoder.layers.*"),
        *block_rows("decoder.blocks.*", "model.decoder.layers.*"),
        *attention_rows("decoder.blocks.*.cross", "model.decoder.layers.*.encoder_attn"),
        *part("decoder.blocks.*.cross_residual.norm", "model.decoder.layers.*.encoder_attn_layer_norm"),
        row("output.bias", "final_logits_bias", shaped((config.vocab,), (1, config.vocab))),
    ]


def embedding_rows(config: Seq2SeqConfig) -> list[Row]:
    source, target = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
    match config.tied:
        case "all":
            return [row("source.tokens.weight", "model.shared.weight", copies=(source, target, "lm_head.weight"))]
        case "target":
            return [
                row("source.tokens.weight", source, copies=("model.shared.weight",)),
                row("target.tokens.weight", target, copies=("lm_head.weight",)),
            ]
        case "none":
            return [
                row("source.tokens.weight", source, copies=("model.shared.weight",)),
                row("target.tokens.weight", target),
                row("output.weight", "lm_head.weight"),
            ]


def block_rows(regard: str, hf: str) -> list[Row]:
    return [
        *attention_rows(f"{regard}.attention", f"{hf}.self_attn"),
        *part(f"{regard}.attention_residual.norm", f"{hf}.self_attn_layer_norm"),
        *part(f"{regard}.feedforward.up", f"{hf}.fc1"),
        *part(f"{regard}.feedforward.down", f"{hf}.fc2"),
        *part(f"{regard}.feedforward_residual.norm", f"{hf}.final_layer_norm"),
    ]


def attention_rows(regard: str, hf: str) -> list[Row]:
    return [
        *part(f"{regard}.query", f"{hf}.q_proj"),
        *part(f"{regard}.key", f"{hf}.k_proj"),
        *part(f"{regard}.value", f"{hf}.v_proj"),
        *part(f"{regard}.output", f"{hf}.out_proj"),
    ]


MARIAN = HFModelType(
    "marian",
    Seq2SeqConfig,
    read_settings,
    write_settings,
    rows,
    ignored=(
        "model.encoder.embed_positions.weight",  # sines and cosines, which are computed
        "model.decoder.embed_positions.weight",
    ),
)
