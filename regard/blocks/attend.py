"""Scaled dot-product attention: softmax(q kᵀ / sqrt(K) + bias) v, over the keys that a query may attend to.

Two kernels, one signature. torch's fused kernel runs by default; given a `Trace`, the reference runs instead,
because only it has the weights to record. The output is the same.

B batch  H heads  Q queries  S keys  K head width
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.blocks.trace import Trace


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
