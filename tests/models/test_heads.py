import pytest
import torch
from small_configs import encoder
from torch import nn
from torch.testing import assert_close

from regard.models.heads import MaskedLanguageHead, Pooler, first_token, last_token, mean_pool

STATES = torch.arange(24.0).view(2, 4, 3)
LEFT_AND_RIGHT = torch.tensor([[False, True, True, True], [True, True, False, False]])


def test_the_first_and_last_real_token_on_either_side() -> None:
    assert torch.equal(first_token(STATES, LEFT_AND_RIGHT), STATES[[0, 1], [1, 0]])
    assert torch.equal(last_token(STATES, LEFT_AND_RIGHT), STATES[[0, 1], [3, 1]])


def test_the_mean_is_of_real_tokens() -> None:
    expected = torch.stack((STATES[0, 1:].mean(0), STATES[1, :2].mean(0)))
    assert_close(mean_pool(STATES, LEFT_AND_RIGHT), expected)


def test_the_mean_of_no_tokens_is_zeros() -> None:
    assert torch.equal(mean_pool(STATES, torch.zeros(2, 4, dtype=torch.bool)), torch.zeros(2, 3))


@pytest.mark.parametrize(("name", "activation"), [("tanh", nn.Tanh()), ("gelu", nn.GELU()), ("relu", nn.ReLU())])
def test_a_pooler_is_one_more_layer(name: str, activation: nn.Module) -> None:
    part, x_BD = Pooler(3, name), torch.randn(2, 3)
    assert_close(part(x_BD), activation(x_BD @ part.dense.weight.T + part.dense.bias))


@pytest.mark.parametrize(("name", "activation"), [("gelu", nn.GELU()), ("swiglu", nn.SiLU())])
def test_the_masked_language_head(name: str, activation: nn.Module) -> None:
    head, x = MaskedLanguageHead(encoder(activation=name)), torch.randn(1, 2, 8)
    assert_close(head(x), head.output(head.norm(activation(head.dense(x)))))
