"""Attention: each query gathers the values of the keys that match it.

    masks       which query may attend to which key
    attend      scaled dot-product attention: softmax(q kᵀ / sqrt(K) + bias) v, over the keys a query may attend to
    Attention   multi-head attention: queries, keys and values, in several heads at once

A mask has one meaning: `may_attend` is a bool, True = this query may attend to this key, everywhere, always. Masks
broadcast to (B, H, Q, S); `None` means that every query may attend to every key.

`attend` has two kernels and one signature. torch's fused kernel runs by default; given a `Trace`, the reference runs
instead, because only it has the weights to record. The output is the same.

B batch  L length  Q queries  S keys  D width  H heads  K head width
"""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.blocks.positions import Rotation, rotate
from regard.blocks.trace import Trace

if TYPE_CHECKING:
    from regard.blocks.kv_cache import DecoderKVCache, KVCache

# ---- masks: made here and nowhere else ----


def all_present(ids_BL: Tensor) -> Tensor:
    """No padding anywhere. -> (B, L)"""
    return torch.ones_like(ids_BL, dtype=torch.bool)


def padding_mask(present_BS: Tensor) -> Tensor | None:
    """No query attends to padding: `present` is True where a key is a real token. -> (B, 1, 1, S)

    None if nothing is padded, which is usual: attention without a mask is fastest.
    """
    return None if bool(present_BS.all()) else present_BS[:, None, None, :]


def causal_mask(queries: int, keys: int | None = None, *, device: torch.device | None = None) -> Tensor:
    """The causal mask: no query attends to a later key. -> (1, 1, Q, S)

    With a cache there are more keys than queries: the queries are the *last* positions, so the last query sees every
    key and the triangle is at the lower right.
    """
    keys = queries if keys is None else keys
    visible_QS = torch.ones(queries, keys, dtype=torch.bool, device=device)
    return visible_QS.tril(keys - queries)[None, None]


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """A query may attend only where every mask allows it."""
    result: Tensor | None = None
    for mask in masks:
        if mask is not None:
            result = mask if result is None else result & mask
    return result


def token_positions(present_BL: Tensor) -> Tensor:
    """The position of each real token, from 0; padding on either side is not counted."""
    return (present_BL.long().cumsum(-1) - 1).clamp(min=0)


def decoder_mask(cache: "DecoderKVCache | None", present_BL: Tensor) -> tuple[Tensor | None, Tensor]:
    """The mask for a decoder's new tokens, and the positions of all tokens so far.

    Without padding, the usual case, one new token may attend to every key and needs no mask.
    """
    present_BS = present_BL if cache is None else cache.extend(present_BL)
    new, keys = present_BL.shape[1], present_BS.shape[1]
    ahead = causal_mask(new, keys, device=present_BL.device) if new > 1 else None
    padded = padding_mask(present_BS)
    return combine_masks(ahead, padded), token_positions(present_BS)


# ---- scaled dot-product attention ----


def attend(
    q_BHQK: Tensor,
    k_BHSK: Tensor,
    v_BHSK: Tensor,
    may_attend: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    scale: float | None = None,
    trace: Trace | None = None,
) -> Tensor:
    """The weighted sum of the values for each query. -> (B, H, Q, K)

    Keys and values may have fewer heads than queries: each is then shared by H / kv_heads query heads.
    `bias` is added to the scores. A query that may attend to nothing gets zeros.
    """
    if trace is None:
        allowed = may_attend
        if bias is not None:
            allowed = bias if may_attend is None else bias.masked_fill(~may_attend, -torch.inf)
        grouped = q_BHQK.shape[1] != k_BHSK.shape[1]
        return F.scaled_dot_product_attention(
            q_BHQK, k_BHSK, v_BHSK, attn_mask=allowed, scale=scale, enable_gqa=grouped
        )
    weights_BHQS = attention_weights(q_BHQK, k_BHSK, may_attend, bias=bias, scale=scale)
    trace.note("weights", weights_BHQS)
    return weights_BHQS @ per_query_head(v_BHSK, q_BHQK.shape[1])


def attention_weights(
    q_BHQK: Tensor,
    k_BHSK: Tensor,
    may_attend: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """The reference: the weight of each key for each query. Rows sum to 1, or to 0 if every key is masked."""
    scale = q_BHQK.shape[-1] ** -0.5 if scale is None else scale
    scores_BHQS = (q_BHQK * scale) @ per_query_head(k_BHSK, q_BHQK.shape[1]).mT
    if bias is not None:
        scores_BHQS = scores_BHQS + bias
    if may_attend is None:
        return scores_BHQS.softmax(-1).to(q_BHQK.dtype)  # a float32 bias makes the scores float32
    weights_BHQS = scores_BHQS.masked_fill(~may_attend, -torch.inf).softmax(-1).to(q_BHQK.dtype)
    # softmax over -inf only is 0/0: such a row gets zeros, as in the fused kernel
    return weights_BHQS.masked_fill(~may_attend, 0.0)


def per_query_head(x_BHSK: Tensor, heads: int) -> Tensor:
    """Repeat shared key/value heads, one for every query head."""
    return x_BHSK.repeat_interleave(heads // x_BHSK.shape[1], dim=1)


# ---- multi-head attention ----


class Attention(nn.Module):
    """Multi-head attention of every kind.

    Self-attention (`memory` is None) or cross-attention; as many key/value heads as query heads (multi-head), one
    (multi-query) or some (grouped-query). The head width need not be width / heads.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        head_width: int | None = None,
        bias: bool = True,
        output_bias: bool = True,
    ) -> None:
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        head_width = width // heads if head_width is None else head_width
        assert heads % kv_heads == 0, f"{heads} query heads cannot share {kv_heads} key/value heads evenly"
        self.heads, self.kv_heads, self.head_width = heads, kv_heads, head_width
        self.query = nn.Linear(width, heads * head_width, bias)
        self.key = nn.Linear(width, kv_heads * head_width, bias)
        self.value = nn.Linear(width, kv_heads * head_width, bias)
        self.output = nn.Linear(heads * head_width, width, output_bias)

    def forward(
        self,
        x_BQD: Tensor,
        may_attend: Tensor | None = None,
        *,
        memory_BSD: Tensor | None = None,
        rotation: Rotation | None = None,
        bias: Tensor | None = None,
        cache: "KVCache | None" = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """Each token attends to its own sequence, or to `memory` where it is given.

        `rotation` turns queries and keys of self-attention; `bias` is added to the scores. A cache keeps the keys
        and values of self-attention between calls.
        """
        q_BHQK = self.split_heads(self.query(x_BQD), self.heads)
        k_BHSK, v_BHSK = self.keys_values(x_BQD if memory_BSD is None else memory_BSD)
        if rotation is not None:
            q_BHQK, k_BHSK = rotate(q_BHQK, rotation), rotate(k_BHSK, rotation)
        if trace:
            trace.note("queries", q_BHQK)
        if cache is not None:
            gathered_BHQK = cache.attend(q_BHQK, (k_BHSK, v_BHSK), may_attend, bias=bias, trace=trace)
        else:
            if trace:
                trace.note("keys", k_BHSK)
                trace.note("values", v_BHSK)
            gathered_BHQK = attend(q_BHQK, k_BHSK, v_BHSK, may_attend, bias=bias, trace=trace)
        return self._merged(gathered_BHQK)

    def from_cache(self, x_BQD: Tensor, cache: "KVCache") -> Tensor:
        """Cross-attention to a memory whose keys and values are cached: only the queries are computed."""
        return self._merged(cache.attend(self.split_heads(self.query(x_BQD), self.heads), None))

    def _merged(self, heads_BHQK: Tensor) -> Tensor:
        out_BQD: Tensor = self.output(heads_BHQK.transpose(1, 2).flatten(2))
        return out_BQD

    def keys_values(self, source_BSD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values, split into heads. -> 2 x (B, H, S, K)"""
        return (
            self.split_heads(self.key(source_BSD), self.kv_heads),
            self.split_heads(self.value(source_BSD), self.kv_heads),
        )

    def split_heads(self, x_BLD: Tensor, heads: int) -> Tensor:
        batch, length, _ = x_BLD.shape
        return x_BLD.view(batch, length, heads, self.head_width).transpose(1, 2)
