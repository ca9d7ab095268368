import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.blocks.norms import LayerNorm, RMSNorm


@pytest.mark.parametrize("eps", [1e-6, 1e-5, 0.1])
def test_rms_norm_is_torchs(eps: float) -> None:
    ours, theirs = RMSNorm(6, eps=eps), nn.RMSNorm(6, eps=eps)
    weight = torch.randn(6)
    ours.weight.data, theirs.weight.data = weight, weight
    x = torch.randn(2, 3, 6) * 5
    assert_close(ours(x), theirs(x))


def test_rms_norm_takes_no_mean_off() -> None:
    assert_close(RMSNorm(4)(torch.full((1, 4), 3.0)), torch.ones(1, 4))
    assert_close(LayerNorm(4)(torch.full((1, 4), 3.0)), torch.zeros(1, 4))


def test_rms_norm_of_zeros_is_zeros() -> None:
    assert torch.equal(RMSNorm(4)(torch.zeros(1, 4)), torch.zeros(1, 4))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_does_not_overflow(dtype: torch.dtype) -> None:
    x = torch.tensor([[300.0, -300.0, 300.0, -300.0]], dtype=dtype)  # 300² is above float16's largest number
    out = RMSNorm(4).to(dtype)(x)
    assert out.dtype == dtype
    assert_close(out, x / 300, atol=1e-2, rtol=0.0)  # a bfloat16 has 8 bits


@pytest.mark.parametrize("norm", [RMSNorm(6), LayerNorm(6)])
def test_a_token_is_normed_without_its_neighbours(norm: nn.Module) -> None:
    x = torch.randn(4, 3, 6)
    assert torch.equal(norm(x[1:2, 1:2]), norm(x)[1:2, 1:2])


@pytest.mark.parametrize("norm", [RMSNorm(6), LayerNorm(6)])
def test_the_size_of_a_vector_is_forgotten(norm: nn.Module) -> None:
    x = torch.randn(2, 6) + 1
    assert_close(norm(x * 1000), norm(x), atol=1e-4, rtol=0.0)  # eps weighs less on the larger one
