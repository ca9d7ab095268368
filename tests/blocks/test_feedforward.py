import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers.activations import ACT2FN

from regard.blocks.feedforward import ACTIVATIONS, FeedForward, SwiGLU

X = torch.linspace(-6, 6, 201)

TORCHS = {
    "relu": nn.ReLU(),
    "gelu": nn.GELU(),
    "gelu_tanh": nn.GELU(approximate="tanh"),
    "silu": nn.SiLU(),
    "tanh": nn.Tanh(),
}
TRANSFORMERS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu", "tanh": "tanh"}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_is_torchs(name: str) -> None:
    assert_close(ACTIVATIONS[name](X), TORCHS[name](X))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_is_that_of_transformers(name: str) -> None:
    assert_close(ACTIVATIONS[name](X), ACT2FN[TRANSFORMERS[name]](X))


def test_exact_and_approximate_gelu_are_not_the_same() -> None:
    assert (ACTIVATIONS["gelu"](X) - ACTIVATIONS["gelu_tanh"](X)).abs().max() > 1e-4


def test_opus_swish_is_silu() -> None:
    assert_close(ACTIVATIONS["silu"](X), ACT2FN["swish"](X))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_widen_activate_narrow(name: str) -> None:
    part, x = FeedForward(4, 10, name), torch.randn(2, 3, 4)
    inner = TORCHS[name](x @ part.up.weight.T + part.up.bias)
    assert_close(part(x), inner @ part.down.weight.T + part.down.bias)


def test_one_way_up_gates_the_other() -> None:
    part, x = SwiGLU(4, 10), torch.randn(2, 3, 4)
    gate, up = x @ part.gate.weight.T, x @ part.up.weight.T
    assert_close(part(x), (gate * gate.sigmoid() * up) @ part.down.weight.T)


@pytest.mark.parametrize(("part", "count"), [(FeedForward(4, 10), 94), (FeedForward(4, 10, bias=False), 80)])
def test_parameters_of_feedforward(part: nn.Module, count: int) -> None:
    assert sum(weight.numel() for weight in part.parameters()) == count


@pytest.mark.parametrize(("part", "count"), [(SwiGLU(4, 10), 120), (SwiGLU(4, 10, bias=True), 144)])
def test_parameters_of_swiglu(part: nn.Module, count: int) -> None:
    assert sum(weight.numel() for weight in part.parameters()) == count


@pytest.mark.parametrize("part", [FeedForward(4, 10, "gelu"), SwiGLU(4, 10)])
def test_each_position_is_alone(part: nn.Module) -> None:
    x = torch.randn(1, 3, 4)
    changed = x.clone()
    changed[:, 1] += 1
    assert torch.equal(part(changed)[:, [0, 2]], part(x)[:, [0, 2]])
