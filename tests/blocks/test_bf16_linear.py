"""bfloat16 products compared with float32 products."""

import pytest
import torch
from torch import Tensor, nn

from regard.blocks.bf16_linear import ROW_MULTIPLE, BF16Linear, to_bf16, use_bf16_linear
from regard.cpu import capabilities

pytestmark = pytest.mark.skipif(
    not capabilities.prepare().bfloat16, reason="bfloat16 gives no right results on this CPU"
)


def relative(found: Tensor | None, expected: Tensor | None) -> float:
    assert found is not None
    assert expected is not None
    assert found.dtype == expected.dtype
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("rows", [1, ROW_MULTIPLE - 1, ROW_MULTIPLE, ROW_MULTIPLE + 1])
def test_rows_are_filled_up(rows: int) -> None:
    x = torch.randn(rows, 3)
    half = to_bf16(x)
    assert half.shape == (ROW_MULTIPLE if rows <= ROW_MULTIPLE else 2 * ROW_MULTIPLE, 3)
    assert torch.equal(half[:rows], x.bfloat16())
    assert not half[rows:].any()
    room = torch.full((3 * ROW_MULTIPLE, 3), torch.nan, dtype=torch.bfloat16)
    assert torch.equal(to_bf16(x, room), half)
    assert to_bf16(x, room).data_ptr() == room.data_ptr()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 32), (5, 13, 32), (2, 32, 32), (3, 43, 32)])
def test_values_and_gradients(bias: bool, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    plain = nn.Linear(32, 48, bias)
    x = torch.randn(shape)
    worth = torch.randn(*shape[:-1], 48)
    seen = []
    for linear in (plain, BF16Linear.of(plain)):
        plain.zero_grad()
        leaf = x.clone().requires_grad_()
        out = linear(leaf)
        (out * worth).sum().backward()
        seen.append([out.detach(), leaf.grad, *(parameter.grad for parameter in plain.parameters())])
    for expected, found in zip(*seen, strict=True):
        assert relative(found, expected) < 0.01  # a bfloat16 has 8 bits


def test_a_model_has_the_same_parameters_and_is_used_in_float32() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 4, bias=False)))
    before = dict(model.named_parameters())
    x = torch.randn(3, 8)
    expected = model(x)
    use_bf16_linear(model)
    after = dict(model.named_parameters())
    assert all(after[name] is before[name] for name in after | before)
    assert [type(part) for part in model.modules() if isinstance(part, nn.Linear)] == [BF16Linear] * 2
    assert not torch.equal(model(x), expected)
    assert torch.equal(model.eval()(x), expected)
