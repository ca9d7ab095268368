"""The Transformer block, the only one in regard, and the stack of N blocks.

    x ──► attention ──► add & norm ──► (cross-attention ──► add & norm) ──► feed-forward ──► add & norm ──►

It is built from parts: translation, BERT, GPT, Llama and ViT differ only in the parts that they pass in.

B batch  L length  S keys: earlier tokens too, or the memory  D width
"""

from collections.abc import Callable, Iterable

from torch import Tensor, nn

from regard.blocks.attention import Attention
from regard.blocks.dropout import Dropout
from regard.blocks.kv_cache import LayerKVCache, StackKVCache
from regard.blocks.positions import Alibi, Rotary, Rotation
from regard.blocks.trace import Trace


class AddAndNorm(nn.Module):
    """The residual connection around a part, with the norm after the sum or before the part.

    Post-norm, norm(x + part(x)): the paper and BERT. Pre-norm, x + part(norm(x)): GPT-2, Llama and ViT. It leaves a
    residual path that nothing rescales, and trains without warm-up.
    """

    def __init__(self, norm: nn.Module, *, norm_first: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm, self.norm_first = norm, norm_first
        self.dropout = Dropout(dropout)

    def forward(self, x_BLD: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            return self.dropout.add(x_BLD, part(self.norm(x_BLD)))
        normed: Tensor = self.norm(self.dropout.add(x_BLD, part(x_BLD)))
        return normed


class Block(nn.Module):
    """Self-attention, optional cross-attention to a memory, and feed-forward, each with its residual."""

    def __init__(
        self,
        attention: nn.Module,
        attention_residual: AddAndNorm,
        feedforward: nn.Module,
        feedforward_residual: AddAndNorm,
        cross: Attention | None = None,
        cross_residual: AddAndNorm | None = None,
    ) -> None:
        super().__init__()
        assert (cross is None) == (cross_residual is None), "cross-attention comes with its residual"
        self.attention, self.attention_residual = attention, attention_residual
        self.cross, self.cross_residual = cross, cross_residual
        self.feedforward, self.feedforward_residual = feedforward, feedforward_residual

    def forward(
        self,
        x_BLD: Tensor,
        may_attend: Tensor | None = None,
        *,
        rotation: Rotation | None = None,
        bias: Tensor | None = None,
        memory_BSD: Tensor | None = None,
        may_attend_memory: Tensor | None = None,
        cache: LayerKVCache | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        def self_attention(x: Tensor) -> Tensor:
            out: Tensor = self.attention(
                x,
                may_attend,
                rotation=rotation,
                bias=bias,
                cache=None if cache is None else cache.self_attention,
                trace=trace and trace.inside("attention"),
            )
            return out

        def cross_attention(x: Tensor) -> Tensor:
            assert self.cross is not None
            if cache is not None and cache.cross_attention is not None:
                cached: Tensor = self.cross.from_cache(x, cache.cross_attention)
                return cached
            assert memory_BSD is not None
            # rows that share a memory are adjacent and attend to it as one long row: its keys are computed once
            out: Tensor = self.cross(
                x.reshape(memory_BSD.shape[0], -1, x.shape[2]),
                may_attend_memory,
                memory_BSD=memory_BSD,
                trace=trace and trace.inside("cross"),
            )
            return out.view_as(x)

        x_BLD = self.attention_residual(x_BLD, self_attention)
        if trace:
            trace.note("after_attention", x_BLD)
        if self.cross_residual is not None:
            x_BLD = self.cross_residual(x_BLD, cross_attention)
            if trace:
                trace.note("after_cross", x_BLD)
        x_BLD = self.feedforward_residual(x_BLD, self.feedforward)
        if trace:
            trace.note("after_feedforward", x_BLD)
        return x_BLD


class Stack(nn.Module):
    """[ the block ] x N, and a final norm where the blocks are pre-norm."""

    def __init__(
        self,
        blocks: Iterable[Block],
        *,
        norm: nn.Module | None = None,
        rotary: Rotary | None = None,
        alibi: Alibi | None = None,
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm
        self.rotary, self.alibi = rotary, alibi

    def forward(
        self,
        x_BLD: Tensor,
        may_attend: Tensor | None = None,
        *,
        positions_BS: Tensor | None = None,
        memory_BSD: Tensor | None = None,
        may_attend_memory: Tensor | None = None,
        cache: StackKVCache | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """`positions` are those of all keys; the queries are the last of them (all of them without a cache)."""
        rotation = bias = None
        if positions_BS is not None:
            positions_BL = positions_BS[:, -x_BLD.shape[1] :]
            rotation = None if self.rotary is None else self.rotary(positions_BL)
            bias = None if self.alibi is None else self.alibi(positions_BL, positions_BS)
        for i, block in enumerate(self.blocks):
            x_BLD = block(
                x_BLD,
                may_attend,
                rotation=rotation,
                bias=bias,
                memory_BSD=memory_BSD,
                may_attend_memory=may_attend_memory,
                cache=None if cache is None else cache.layers[i],
                trace=trace and trace.inside(f"blocks.{i}"),
            )
        if self.norm is not None:
            x_BLD = self.norm(x_BLD)
        if trace:
            trace.note("output", x_BLD)
        return x_BLD
