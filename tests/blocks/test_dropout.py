"""Dropout with pooled masks behaves as dropout drawn element by element."""

import pytest
import torch

from regard.blocks.dropout import Dropout, MaskPool, share_mask_pool
from regard.models import build
from regard.models.presets import PRESETS


def test_it_drops_the_right_share_and_keeps_the_sum() -> None:
    torch.manual_seed(0)
    dropped = Dropout(0.3)(torch.ones(200, 1000))
    assert float((dropped == 0).float().mean()) == pytest.approx(0.3, abs=0.01)
    assert float(dropped.mean()) == pytest.approx(1.0, abs=0.015)
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.7])


def test_nothing_happens_outside_training_or_without_a_probability() -> None:
    x = torch.randn(3, 5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_the_same_seed_gives_the_same_masks_and_another_gives_others() -> None:
    def draw(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return torch.stack([part(torch.ones(64)) for _ in range(4)])

    part = Dropout(0.5)
    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))
    assert not torch.equal(draw(1)[0], draw(1)[1])


def test_a_pool_is_a_function_of_its_two_seeds() -> None:
    def masks(pattern: int, offsets: int) -> torch.Tensor:
        pool = MaskPool()
        pool.reseed(pattern, offsets)
        torch.manual_seed(0)
        return torch.stack([pool.mask(torch.empty(1000), 0.5) for _ in range(2)])

    assert torch.equal(masks(3, 1), masks(3, 1))
    assert not torch.equal(masks(3, 1), masks(4, 1))
    assert not torch.equal(masks(3, 1), masks(3, 2))
    assert not torch.equal(*masks(3, 1))


def test_adding_is_dropping_and_adding() -> None:
    part, x, y = Dropout(0.4), torch.randn(2, 7), torch.randn(2, 7)
    torch.manual_seed(5)
    one = part.add(x, y)
    torch.manual_seed(5)
    two = x + part(y)
    torch.testing.assert_close(one, two)


def test_gradients_pass_where_something_was_kept() -> None:
    x = torch.ones(1000, requires_grad=True)
    out = Dropout(0.5)(x)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())


def test_a_tensor_larger_than_the_smallest_row() -> None:
    assert Dropout(0.1)(torch.ones(1 << 21)).shape == (1 << 21,)


def test_one_pool_for_a_whole_model() -> None:
    model = build(PRESETS["transformer-tiny"])
    pool = share_mask_pool(model)
    parts = [part for part in model.modules() if isinstance(part, Dropout)]
    assert len(parts) > 10
    assert all(part.mask_pool is pool for part in parts)
