"""Settings -> the parts that the families share: the embedding of text, and [ the block ] x N.

This is the only place that turns the names in the settings into parts.
"""

import math

from torch import nn

from regard.blocks.attention import Attention
from regard.blocks.block import AddAndNorm, Block, Stack
from regard.blocks.embeddings import Learned, Sinusoidal, TextEmbedding, TokenEmbedding
from regard.blocks.feedforward import FeedForward, SwiGLU
from regard.blocks.norms import LayerNorm, RMSNorm
from regard.blocks.positions import Alibi, Rescale, Rotary, linear_rescale, llama3_rescale
from regard.models.config import BlockConfig, Positions, RotaryScaling, TextConfig


def make_block(config: BlockConfig, *, cross: bool = False) -> Block:
    return Block(
        make_attention(config),
        make_residual(config),
        make_feedforward(config),
        make_residual(config),
        make_attention(config) if cross else None,
        make_residual(config) if cross else None,
    )


def make_attention(config: BlockConfig) -> Attention:
    return Attention(
        config.width,
        config.heads,
        kv_heads=config.kv_heads,
        head_width=config.head_width,
        bias=config.attention_bias,
        output_bias=config.attention_output_bias,
    )


def make_residual(config: BlockConfig) -> AddAndNorm:
    return AddAndNorm(make_norm(config), norm_first=config.norm_first, dropout=config.dropout)


def make_feedforward(config: BlockConfig) -> nn.Module:
    if config.activation == "swiglu":
        return SwiGLU(config.width, config.inner, bias=config.feedforward_bias)
    return FeedForward(config.width, config.inner, config.activation, bias=config.feedforward_bias)


def make_norm(config: BlockConfig) -> nn.Module:
    return (RMSNorm if config.norm == "rms" else LayerNorm)(config.width, eps=config.norm_eps)


def make_tokens(config: BlockConfig, vocab: int, *, scaled: bool) -> TokenEmbedding:
    return TokenEmbedding(vocab, config.width, scale=math.sqrt(config.width) if scaled else 1.0)


def make_added_positions(config: BlockConfig, positions: Positions, context: int) -> nn.Module | None:
    """The positions added to the embeddings; None for rotary and ALiBi, which act in attention."""
    match positions:
        case "sinusoidal":
            return Sinusoidal(config.width)
        case "sinusoidal_halves":
            return Sinusoidal(config.width, interleaved=False)
        case "learned":
            return Learned(context, config.width)
        case _:
            return None


def make_stack(
    config: BlockConfig,
    layers: int,
    positions: Positions,
    *,
    cross: bool = False,
    rotary_base: float = 10000.0,
    rotary_scaling: RotaryScaling | None = None,
) -> Stack:
    rotary = alibi = None
    if positions == "rotary":
        rotary = Rotary(config.per_head_width, base=rotary_base, rescale=make_rescale(rotary_scaling))
    if positions == "alibi":
        alibi = Alibi(config.heads)
    blocks = [make_block(config, cross=cross) for _ in range(layers)]
    return Stack(blocks, norm=make_norm(config) if config.norm_first else None, rotary=rotary, alibi=alibi)


def make_embedding(config: TextConfig, *, segments: int = 0) -> TextEmbedding:
    """The text embedding of an encoder or a decoder."""
    return TextEmbedding(
        make_tokens(config, config.vocab, scaled=config.scale_embeddings),
        make_added_positions(config, config.positions, config.context),
        segments=TokenEmbedding(segments, config.width) if segments else None,
        norm=make_norm(config) if config.embedding_norm else None,
        dropout=config.dropout,
    )


def make_text_stack(config: TextConfig) -> Stack:
    return make_stack(
        config,
        config.layers,
        config.positions,
        rotary_base=config.rotary_base,
        rotary_scaling=config.rotary_scaling,
    )


def make_rescale(scaling: RotaryScaling | None) -> Rescale | None:
    if scaling is None:
        return None
    if scaling.kind == "linear":
        return linear_rescale(scaling.factor)
    return llama3_rescale(scaling.factor, scaling.low, scaling.high, scaling.original_context)
