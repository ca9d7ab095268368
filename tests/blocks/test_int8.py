"""Int8 linear parts: close to the linear part they stand for, the same with and without the compiled loop."""

import pytest
import torch
from torch import nn

from regard.blocks.int8 import Int8Linear
from regard.models.config import Seq2SeqConfig
from regard.models.initialize import initialize
from regard.models.seq2seq import Seq2Seq
from regard.weights.quantize import quantize


@pytest.fixture
def linear() -> nn.Linear:
    torch.manual_seed(1)
    return nn.Linear(96, 50)


def test_it_is_close_to_what_it_stands_for(linear: nn.Linear) -> None:
    x = torch.randn(4, 7, 96)
    out, expected = Int8Linear.of(linear)(x), linear(x)
    assert out.shape == expected.shape
    # 64 steps of a weight's size and 127 of an input's range: 0.6 and 1.4 in 10,000 of the output's square
    assert (out - expected).square().mean() < 3e-4 * expected.square().mean()


def test_a_row_does_not_know_its_neighbours(linear: nn.Linear) -> None:
    part, x = Int8Linear.of(linear), torch.randn(20, 96)
    wild = torch.cat((x, 1000 * x))
    assert torch.equal(part(wild)[:20], part(x))
    assert torch.equal(torch.cat([part(row[None]) for row in x]), part(x))


def test_nothing_in_is_the_bias_out(linear: nn.Linear) -> None:
    assert torch.equal(Int8Linear.of(linear)(torch.zeros(1, 96))[0], linear.bias)


def test_every_linear_part_of_a_model_is_swapped_and_little_changes() -> None:
    model = Seq2Seq(Seq2SeqConfig(vocab=90, width=32, heads=4, inner=64, encoder_layers=2, decoder_layers=2))
    initialize(model, seed=1)
    model.eval()
    source, target = torch.randint(90, (3, 8)), torch.randint(90, (3, 5))
    with torch.inference_mode():
        expected = model(source, target)
        out = quantize(model)(source, target)
    assert not any(isinstance(part, nn.Linear) for part in model.modules())
    assert (out - expected).square().mean() < 1e-3 * expected.square().mean()
