"""Int8 linear layers on the native kernels compute what blocks/int8.py computes."""

import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.blocks.int8 import Int8Linear
from regard.inference.native import kernels
from regard.inference.native_int8 import NativeInt8Linear, use_native_linear

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no compiler, or a CPU without the kernels")


@pytest.fixture
def part() -> Int8Linear:
    torch.manual_seed(1)
    return Int8Linear.of(nn.Linear(96, 50))


def test_it_is_the_reference(part: Int8Linear) -> None:
    x = torch.randn(9, 96)
    native = NativeInt8Linear(part.weight, part.bias)
    assert_close(native(x), part(x), atol=2e-2, rtol=0)  # a number halfway between two steps may go either way
    assert (native(x) - part(x)).abs().median() < 1e-6


def test_a_row_is_the_same_in_any_batch(part: Int8Linear) -> None:
    native, x = NativeInt8Linear(part.weight, part.bias), torch.randn(20, 96)
    wild = torch.cat((x, 1000 * x))
    assert torch.equal(native(wild)[:20], native(x))
    assert torch.equal(torch.cat([native(row[None]) for row in x]), native(x))


def test_every_int8_layer_is_swapped_and_copies_work(part: Int8Linear) -> None:
    model = nn.Sequential(part, nn.ReLU(), Int8Linear.of(nn.Linear(50, 7)))
    x = torch.randn(3, 96)
    expected = model(x)
    use_native_linear(model)
    assert isinstance(model[0], NativeInt8Linear)
    assert isinstance(model[2], NativeInt8Linear)
    assert_close(model(x), expected, atol=5e-2, rtol=0)
    assert torch.equal(copy.deepcopy(model)(x), model(x))
