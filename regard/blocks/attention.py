"""Multi-head attention: each query gathers the values of the keys that match it, in several heads at once.

One class for every kind: self-attention (`memory` is None) and cross-attention; as many key/value heads as query
heads (multi-head), one (multi-query) or some (grouped-query). The head width need not be width / heads.

B batch  Q queries  S keys  D width  H heads  K head width
"""

from torch import Tensor, nn

from regard.blocks.attend import attend
from regard.blocks.kv_cache import KVCache
from regard.blocks.positions import Rotation, rotate
from regard.blocks.trace import Trace


class Attention(nn.Module):
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
        cache: KVCache | None = None,
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

    def from_cache(self, x_BQD: Tensor, cache: KVCache) -> Tensor:
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
