import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from regard.blocks.attention import Attention, causal_mask, padding_mask
from regard.blocks.kv_cache import GrowingKVCache
from regard.blocks.positions import Rotary
from regard.blocks.trace import Trace


def as_torch_has_it(attention: Attention) -> nn.MultiheadAttention:
    theirs = nn.MultiheadAttention(attention.query.in_features, attention.heads, batch_first=True)
    parts = (attention.query, attention.key, attention.value)
    theirs.in_proj_weight.data = torch.cat([part.weight.data for part in parts])
    theirs.in_proj_bias.data = torch.cat([part.bias.data for part in parts])
    theirs.out_proj.weight.data, theirs.out_proj.bias.data = attention.output.weight.data, attention.output.bias.data
    return theirs


def test_self_attention_is_torchs_multi_head_attention() -> None:
    attention, x_BLD = Attention(12, 3), torch.randn(2, 5, 12)
    trace = Trace()
    out = attention(x_BLD, causal_mask(5), trace=trace)
    hidden = ~causal_mask(5)[0, 0]  # True means hidden over there
    expected, weights = as_torch_has_it(attention)(x_BLD, x_BLD, x_BLD, attn_mask=hidden, average_attn_weights=False)
    assert_close(out, expected)
    assert_close(trace["weights"], weights)


def test_cross_attention_is_torchs_multi_head_attention() -> None:
    attention, x_BLD, memory_BSD = Attention(12, 3), torch.randn(2, 4, 12), torch.randn(2, 6, 12)
    present = torch.tensor([[True] * 6, [True] * 3 + [False] * 3])
    expected, _ = as_torch_has_it(attention)(x_BLD, memory_BSD, memory_BSD, key_padding_mask=~present)
    assert_close(attention(x_BLD, padding_mask(present), memory_BSD=memory_BSD), expected)


@pytest.mark.parametrize(("kv_heads", "rows"), [(None, 20), (4, 20), (2, 10), (1, 5)])
def test_key_value_heads_can_be_fewer(kv_heads: int | None, rows: int) -> None:
    attention = Attention(16, 4, kv_heads=kv_heads, head_width=5)
    assert attention.query.weight.shape == (20, 16)
    assert attention.key.weight.shape == attention.value.weight.shape == (rows, 16)
    assert attention(torch.randn(2, 3, 16)).shape == (2, 3, 16)


def test_shared_heads_are_full_heads_with_repeated_weights() -> None:
    grouped, full, x_BLD = Attention(8, 4, kv_heads=2), Attention(8, 4), torch.randn(2, 5, 8)
    state = grouped.state_dict()
    for name in ("key", "value"):
        state[f"{name}.weight"] = state[f"{name}.weight"].view(2, 2, 8).repeat_interleave(2, 0).flatten(0, 1)
        state[f"{name}.bias"] = state[f"{name}.bias"].view(2, 2).repeat_interleave(2, 0).flatten()
    full.load_state_dict(state)
    assert_close(grouped(x_BLD), full(x_BLD))


def test_heads_that_cannot_be_shared_evenly_are_refused() -> None:
    with pytest.raises(AssertionError, match="evenly"):
        Attention(8, 4, kv_heads=3)


def test_each_bias_can_be_left_out() -> None:
    attention = Attention(8, 2, bias=False)
    assert attention.query.bias is attention.key.bias is attention.value.bias is None
    assert attention.output.bias is not None
    assert Attention(8, 2, output_bias=False).output.bias is None


@torch.no_grad()
def steps(attention: Attention, x_BLD: Tensor, rotary: Rotary | None = None) -> Tensor:
    cache, outs = GrowingKVCache(), []
    for t in range(x_BLD.shape[1]):
        rotation = None if rotary is None else rotary(torch.tensor([[t]]))
        outs.append(attention(x_BLD[:, t : t + 1], rotation=rotation, cache=cache))
    return torch.cat(outs, dim=1)


def test_self_attention_token_by_token_is_look_ahead_all_at_once() -> None:
    attention, x_BLD = Attention(8, 4, kv_heads=2), torch.randn(2, 7, 8)
    assert_close(steps(attention, x_BLD), attention(x_BLD, causal_mask(7)))


def test_cached_keys_keep_the_rotation_of_their_own_position() -> None:
    attention, rotary, x_BLD = Attention(8, 2), Rotary(4), torch.randn(2, 7, 8)
    whole = attention(x_BLD, causal_mask(7), rotation=rotary(torch.arange(7)[None]))
    assert_close(steps(attention, x_BLD, rotary), whole)
    assert (whole - attention(x_BLD, causal_mask(7))).abs().max() > 0.01


@torch.no_grad()
def test_cross_attention_projects_its_memory_once() -> None:
    attention, memory_BSD, cache = Attention(8, 2), torch.randn(2, 5, 8), GrowingKVCache()
    calls: list[int] = []
    attention.key.register_forward_hook(lambda *_: calls.append(1))
    x_BLD = torch.randn(2, 3, 8)
    expected = attention(x_BLD, memory_BSD=memory_BSD)
    cache.append(*attention.keys_values(memory_BSD))
    calls.clear()
    outs = [attention.from_cache(x_BLD[:, t : t + 1], cache) for t in range(3)]
    assert_close(torch.cat(outs, dim=1), expected)
    assert not calls
    assert cache.length == 5


def test_a_trace_holds_each_head_apart() -> None:
    trace = Trace()
    Attention(8, 4, kv_heads=2, head_width=3)(torch.randn(2, 5, 8), trace=trace)
    shapes = {name: tuple(trace[name].shape) for name in trace}
    assert shapes == {"queries": (2, 4, 5, 3), "keys": (2, 2, 5, 3), "values": (2, 2, 5, 3), "weights": (2, 4, 5, 5)}
