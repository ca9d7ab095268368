"""The compiled kernels against torch."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.blocks.feedforward import ACTIVATIONS
from regard.inference.native import kernels, torch_kernels

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no compiler, or a CPU without AVX2")
same_each_time = settings(deadline=None, derandomize=True, max_examples=60)
SEEDS = st.integers(0, 10**6)


def int8(qweight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor) -> kernels.NativeLinear:
    return torch_kernels.linear_from_int8(torch_kernels.pack_int8(qweight, scales), bias)


def weights(outputs: int, width: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    qweight = torch.randint(-64, 65, (outputs, width), generator=random, dtype=torch.int8)
    return qweight, torch.rand(outputs, generator=random) + 0.5, torch.randn(outputs, generator=random)


@same_each_time
@given(st.integers(1, 30), st.integers(1, 200), st.integers(1, 150), st.booleans(), SEEDS)
def test_int8_linear_is_the_exact_product_of_the_quantised_numbers(
    rows: int, width: int, outputs: int, relu: bool, seed: int
) -> None:
    qweight, scales, bias = weights(outputs, width, seed)
    x = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))
    low = x.amin(1, keepdim=True).clamp(max=0.0)
    scale = (x.amax(1, keepdim=True).clamp(min=0.0) - low) / 127
    zero_point = (-low / scale).round()
    sums = (((x / scale).round() + zero_point).clamp(0, 127) - zero_point).double() @ qweight.T.double()
    expected = (sums * scale * scales + bias).float()
    out = torch_kernels.linear(x, int8(qweight, scales, bias), activation="relu" if relu else "none")
    # a number halfway between two whole ones may be rounded either way: one unit of one product
    assert_close(out, expected.relu() if relu else expected, atol=float(scale.max() * 64 * 1.5), rtol=1e-5)
    assert (out - (expected.relu() if relu else expected)).abs().median() < 1e-4


@same_each_time
@given(st.integers(1, 40), st.integers(1, 60), SEEDS)
def test_a_row_has_the_same_result_in_any_batch(rows: int, outputs: int, seed: int) -> None:
    qweight, scales, bias = weights(outputs, 64, seed)
    x = torch.randn(rows, 64, generator=torch.Generator().manual_seed(seed))
    for layer in (int8(qweight, scales, bias), torch_kernels.linear_from_floats(qweight.float(), bias)):
        together = torch_kernels.linear(x, layer)
        alone = torch.cat([torch_kernels.linear(row[None], layer) for row in x])
        assert torch.equal(together, alone)


@same_each_time
@given(
    st.integers(1, 100),
    st.sampled_from([1, 32, 100, 512, 1100]),
    st.integers(1, 40),
    st.sampled_from(["none", "relu", "silu", "gelu", "gelu_tanh"]),
    st.booleans(),
    SEEDS,
)
def test_float_linear_matches_torch(
    rows: int, width: int, outputs: int, activation: str, bias: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    part, x = torch.nn.Linear(width, outputs, bias=bias), torch.randn(rows, width)
    layer = torch_kernels.linear_from_floats(part.weight.detach(), part.bias.detach() if bias else None)
    expected = part(x) if activation == "none" else ACTIVATIONS[activation](part(x))
    assert_close(torch_kernels.linear(x, layer, activation=activation), expected.detach(), atol=1e-5, rtol=1e-4)


@same_each_time
@given(st.integers(1, 100), st.sampled_from([1, 32, 100, 512]), st.integers(1, 150), st.booleans(), SEEDS)
def test_packed_floats_give_bit_equal_results(rows: int, width: int, outputs: int, bias: bool, seed: int) -> None:
    torch.manual_seed(seed)
    part, x = torch.nn.Linear(width, outputs, bias=bias), torch.randn(rows, width)
    numbers, more = part.weight.detach().numpy(), part.bias.detach().numpy() if bias else None
    in_place = torch_kernels.linear(x, kernels.NativeLinear.from_floats(numbers, more))
    assert torch.equal(torch_kernels.linear(x, kernels.NativeLinear.from_frozen_floats(numbers, more)), in_place)


def test_a_row_of_zeros_gives_the_bias() -> None:
    qweight, scales, bias = weights(9, 32, 1)
    assert torch.equal(torch_kernels.linear(torch.zeros(2, 32), int8(qweight, scales, bias)), bias.expand(2, 9))


@same_each_time
@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 40), st.sampled_from([8, 16, 24, 32, 40, 64]), SEEDS)
def test_attention_matches_torch_at_given_keys_and_at_the_first_keys(
    slots: int, width: int, places: int, head: int, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    keys, values = (torch.randn(slots, 2, 64, head, generator=random)[:, :, :places] for _ in range(2))
    rows = slots * width
    q = torch.randn(rows, 4, head, generator=random)
    of_slot = torch.arange(slots).repeat_interleave(width)
    chosen = torch.stack([torch.randperm(places, generator=random)[: (places + 1) // 2] for _ in range(rows)])
    mask = torch.zeros(rows, places, dtype=torch.bool).scatter_(1, chosen, True)
    found = torch_kernels.attention(q, keys, values, of_slot.int(), chosen.int(), None)
    expected = F.scaled_dot_product_attention(
        q[:, :, None], keys[of_slot], values[of_slot], attn_mask=mask[:, None, None], enable_gqa=True
    )
    assert_close(found, expected[:, :, 0], atol=2e-6, rtol=1e-5)
    lengths = torch.randint(1, places + 1, (slots,), generator=random)
    first = torch.arange(places) < lengths[of_slot][:, None]
    found = torch_kernels.attention(q, keys, values, of_slot.int(), None, lengths.int())
    expected = F.scaled_dot_product_attention(
        q[:, :, None], keys[of_slot], values[of_slot], attn_mask=first[:, None, None], enable_gqa=True
    )
    assert_close(found, expected[:, :, 0], atol=2e-6, rtol=1e-5)


@same_each_time
@given(st.integers(1, 5), st.integers(1, 700), st.integers(1, 9), st.integers(2, 1000), SEEDS)
def test_topk_matches_a_stable_sort_and_logsumexp(rows: int, vocab: int, count: int, kinds: int, seed: int) -> None:
    """Few distinct numbers, so that many are equal."""
    count = min(count, vocab)
    logits = torch.randint(kinds, (rows, vocab), generator=torch.Generator().manual_seed(seed)) / 50.0
    maximum, log_sum, values, tokens = torch_kernels.topk(logits, count)
    expected, places = logits.sort(dim=1, descending=True, stable=True)
    assert torch.equal(values, expected[:, :count])
    assert torch.equal(tokens, places[:, :count])
    assert_close(maximum + log_sum, logits.logsumexp(-1))


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", [0, 3, 99])
def test_logits_that_are_not_finite_have_no_logsumexp(broken: float, place: int) -> None:
    logits = torch.zeros(1, 100)
    logits[0, place] = broken
    maximum, log_sum, _, _ = torch_kernels.topk(logits, 3)
    assert not (maximum + log_sum).isfinite().all()
