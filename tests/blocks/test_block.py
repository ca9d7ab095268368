import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.blocks.attention import Attention, causal_mask, padding_mask
from regard.blocks.block import AddAndNorm, Block
from regard.blocks.feedforward import FeedForward
from regard.blocks.kv_cache import GrowingKVCache
from regard.blocks.norms import LayerNorm
from regard.blocks.trace import Trace


def make(*, norm_first: bool, cross: bool = False) -> Block:
    def residual() -> AddAndNorm:
        norm = LayerNorm(8)
        norm.weight.data, norm.bias.data = torch.randn(8), torch.randn(8)
        return AddAndNorm(norm, norm_first=norm_first)

    return Block(
        Attention(8, 2),
        residual(),
        FeedForward(8, 16, "relu"),
        residual(),
        Attention(8, 2) if cross else None,
        residual() if cross else None,
    )


def torchs(block: Block, *, norm_first: bool) -> nn.Module:
    """torch's Transformer layer with the same weights."""
    layer: nn.Module
    options = {"dim_feedforward": 16, "dropout": 0.0, "batch_first": True, "norm_first": norm_first}
    layer = nn.TransformerDecoderLayer(8, 2, **options) if block.cross else nn.TransformerEncoderLayer(8, 2, **options)
    parts = [(block.attention, layer.self_attn)]
    norms = [block.attention_residual, block.feedforward_residual]
    if block.cross:
        parts.append((block.cross, layer.multihead_attn))
        norms.insert(1, block.cross_residual)
    for ours, theirs in parts:
        projections = (ours.query, ours.key, ours.value)
        theirs.in_proj_weight.data = torch.cat([part.weight.data for part in projections])
        theirs.in_proj_bias.data = torch.cat([part.bias.data for part in projections])
        theirs.out_proj.load_state_dict(ours.output.state_dict())
    for i, residual in enumerate(norms):
        getattr(layer, f"norm{i + 1}").load_state_dict(residual.norm.state_dict())
    layer.linear1.load_state_dict(block.feedforward.up.state_dict())
    layer.linear2.load_state_dict(block.feedforward.down.state_dict())
    return layer  # left in training mode, which has no fast path; dropout is 0


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_block_is_torchs_encoder_layer(norm_first: bool) -> None:
    block, x_BLD = make(norm_first=norm_first), torch.randn(2, 5, 8)
    assert_close(block(x_BLD), torchs(block, norm_first=norm_first)(x_BLD))


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_block_with_cross_attention_is_torchs_decoder_layer(norm_first: bool) -> None:
    block = make(norm_first=norm_first, cross=True)
    x_BLD, memory_BSD = torch.randn(2, 5, 8), torch.randn(2, 7, 8)
    present = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])
    ours = block(x_BLD, causal_mask(5), memory_BSD=memory_BSD, may_attend_memory=padding_mask(present))
    theirs = torchs(block, norm_first=norm_first)(
        x_BLD, memory_BSD, tgt_mask=~causal_mask(5)[0, 0], memory_key_padding_mask=~present
    )
    assert_close(ours, theirs)


class Layer:
    """One block's caches."""

    def __init__(self) -> None:
        self.self_attention, self.cross_attention = GrowingKVCache(), GrowingKVCache()


@pytest.mark.parametrize("norm_first", [False, True])
@torch.no_grad()
def test_the_block_token_by_token(norm_first: bool) -> None:
    block, cache = make(norm_first=norm_first, cross=True), Layer()
    x_BLD, memory_BSD = torch.randn(2, 5, 8), torch.randn(2, 7, 8)
    assert block.cross is not None
    cache.cross_attention.append(*block.cross.keys_values(memory_BSD))
    steps = [block(x_BLD[:, t : t + 1], cache=cache) for t in range(5)]
    assert_close(torch.cat(steps, dim=1), block(x_BLD, causal_mask(5), memory_BSD=memory_BSD))
    assert (cache.self_attention.length, cache.cross_attention.length) == (5, 7)


def test_rows_that_share_a_memory() -> None:
    """Several rows per memory give the same output as one copy of the memory per row."""
    block, x_RLD, memory_BSD = make(norm_first=True, cross=True), torch.randn(6, 5, 8), torch.randn(2, 7, 8)
    present = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])
    copies_RSD, copies_of_present = (each.repeat_interleave(3, 0) for each in (memory_BSD, present))
    shared = block(x_RLD, memory_BSD=memory_BSD, may_attend_memory=padding_mask(present))
    copied = block(x_RLD, memory_BSD=copies_RSD, may_attend_memory=padding_mask(copies_of_present))
    assert_close(shared, copied)


def test_pre_norm_leaves_a_path_that_nothing_rescales() -> None:
    residual, x = AddAndNorm(LayerNorm(4), norm_first=True), torch.randn(1, 2, 4) * 10
    assert torch.equal(residual(x, torch.zeros_like), x)


def test_post_norm_norms_the_sum() -> None:
    norm, x = LayerNorm(4), torch.randn(1, 2, 4)
    assert_close(AddAndNorm(norm, norm_first=False)(x, lambda y: 2 * y), norm(3 * x))


def test_dropout_falls_on_the_part_and_only_while_training() -> None:
    residual, x = AddAndNorm(nn.Identity(), norm_first=True, dropout=0.5), torch.ones(1, 1, 1000)
    assert set(residual(x, torch.ones_like).unique().tolist()) == {1.0, 3.0}
    assert torch.equal(residual.eval()(x, torch.ones_like), 2 * x)


def test_cross_attention_comes_with_its_residual() -> None:
    def residual() -> AddAndNorm:
        return AddAndNorm(LayerNorm(8), norm_first=False)

    with pytest.raises(AssertionError, match="comes with its residual"):
        Block(Attention(8, 2), residual(), FeedForward(8, 16), residual(), Attention(8, 2))


def test_a_trace_holds_what_each_part_left() -> None:
    block, trace, x_BLD = make(norm_first=False), Trace(), torch.randn(2, 5, 8)
    out = block(x_BLD, trace=trace)
    assert_close(trace["after_feedforward"], out)
    assert_close(trace["after_attention"], block.attention_residual(x_BLD, block.attention))
    assert "attention.weights" in trace
