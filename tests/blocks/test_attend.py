import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.blocks.attention import attend, attention_weights, causal_mask, padding_mask, per_query_head
from regard.blocks.trace import Trace


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def both(q: Tensor, k: Tensor, v: Tensor, may_attend: Tensor | None = None, **more: object) -> Tensor:
    """The fused result, after checking that the traced one is equal."""
    fused = attend(q, k, v, may_attend, **more)
    assert_close(attend(q, k, v, may_attend, trace=Trace(), **more), fused)
    return fused


def test_one_key_is_taken_whole() -> None:
    v = random(2, 3, 1, 4)
    out = both(random(2, 3, 5, 4, seed=1), random(2, 3, 1, 4, seed=2), v)
    assert_close(out, v.expand(2, 3, 5, 4))


def test_equal_keys_give_the_mean_of_their_values() -> None:
    v = random(1, 1, 4, 3)
    out = both(random(1, 1, 2, 3, seed=1), torch.ones(1, 1, 4, 3), v)
    assert_close(out, v.mean(2, keepdim=True).expand(1, 1, 2, 3))


@pytest.mark.parametrize("kv_heads", [1, 2, 6])
def test_query_heads_share_key_value_heads_in_order(kv_heads: int) -> None:
    q, k, v = random(2, 6, 3, 4), random(2, kv_heads, 5, 4, seed=1), random(2, kv_heads, 5, 4, seed=2)
    out = both(q, k, v)
    for head in range(6):
        shared = head * kv_heads // 6
        alone = both(q[:, head : head + 1], k[:, shared : shared + 1], v[:, shared : shared + 1])
        assert_close(out[:, head : head + 1], alone)


def test_per_query_head_repeats_each_head_beside_itself() -> None:
    assert per_query_head(torch.tensor([1, 2]).view(1, 2, 1, 1), 4).flatten().tolist() == [1, 1, 2, 2]


def test_bias_is_added_to_the_scores() -> None:
    q, k, v, bias = random(1, 2, 3, 4), random(1, 2, 5, 4, seed=1), random(1, 2, 5, 4, seed=2), random(1, 2, 3, 5)
    expected = (q @ k.mT / 2 + bias).softmax(-1) @ v
    assert_close(both(q, k, v, bias=bias), expected)


def test_scale_replaces_the_square_root_of_the_head_width() -> None:
    q, k, v = random(1, 2, 3, 4), random(1, 2, 5, 4, seed=1), random(1, 2, 5, 4, seed=2)
    assert_close(both(q, k, v, scale=0.3), (q @ k.mT * 0.3).softmax(-1) @ v)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_a_query_that_may_look_at_nothing_gets_zeros(biased: bool, kv_heads: int) -> None:
    q, k, v = random(2, 4, 3, 8), random(2, kv_heads, 5, 8, seed=1), random(2, kv_heads, 5, 8, seed=2)
    may_attend = torch.ones(2, 1, 3, 5, dtype=torch.bool)
    may_attend[0, :, 1] = False
    out = both(q, k, v, may_attend, bias=random(2, 4, 3, 5, seed=3) if biased else None)
    assert (out[0, :, 1] == 0.0).all()
    assert (out[0, :, 0] != 0.0).all()


def test_a_mask_of_one_row_serves_all_queries_and_heads() -> None:
    q, k, v = random(2, 2, 3, 4), random(2, 2, 4, 4, seed=1), random(2, 2, 4, 4, seed=2)
    present = torch.tensor([[True, True, False, False], [True, True, True, True]])
    out = both(q, k, v, padding_mask(present))
    assert_close(out[:1], both(q[:1], k[:1, :, :2], v[:1, :, :2]))
    assert_close(out[1:], both(q[1:], k[1:], v[1:]))


def test_a_hidden_key_has_no_influence_however_large() -> None:
    q, k, v = random(1, 1, 3, 4), random(1, 1, 3, 4, seed=1), random(1, 1, 3, 4, seed=2)
    loud_k, loud_v = k.clone(), v.clone()
    loud_k[:, :, 2], loud_v[:, :, 2] = 1e4, 1e4
    ahead = causal_mask(3)
    assert torch.equal(attend(q, loud_k, loud_v, ahead)[:, :, :2], attend(q, k, v, ahead)[:, :, :2])


def test_weights_sum_to_one_or_to_zero_where_all_is_hidden() -> None:
    may_attend = causal_mask(3).clone()
    may_attend[..., 1, :] = False
    weights = attention_weights(random(1, 2, 3, 4), random(1, 2, 3, 4, seed=1), may_attend)
    assert_close(weights.sum(-1), torch.tensor([1.0, 0.0, 1.0]).expand(1, 2, 3))


def test_large_scores_do_not_overflow() -> None:
    q = random(1, 1, 2, 4) * 1e4
    assert both(q, q, random(1, 1, 2, 4, seed=1)).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_float32_bias_leaves_the_number_format_of_the_model(dtype: torch.dtype) -> None:
    q, k, v = (random(1, 2, 3, 4, seed=i).to(dtype) for i in range(3))
    bias = random(1, 2, 3, 3)
    fused, traced = attend(q, k, v, bias=bias), attend(q, k, v, bias=bias, trace=Trace())
    assert fused.dtype == traced.dtype == dtype
    assert_close(traced, fused, atol=0.02, rtol=0.02)  # a bfloat16 has 8 bits


def test_looking_is_written_down_only_in_the_trace_that_was_given() -> None:
    q, trace = random(1, 2, 3, 4), Trace()
    attend(q, q, q, trace=trace)
    assert list(trace) == ["weights"]
    assert_close(trace["weights"], attention_weights(q, q))
