"""Muon's step, held to what a singular value decomposition says of it."""

import pytest
import torch
from torch import nn

from regard.cpu import capabilities
from regard.training.muon import ADAMW_STEP_SIZE, MOMENTUM, Muon, orthogonal
from regard.training.optim import make_optimizers
from regard.training.settings import TrainSettings


@pytest.mark.parametrize(("dtype", "bits"), [(torch.float32, 1e-4), (torch.bfloat16, 0.05)])
@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (48, 12), (12, 48)])
def test_the_directions_stay_and_their_lengths_become_one(
    rows: int, columns: int, dtype: torch.dtype, bits: float
) -> None:
    if dtype == torch.bfloat16 and not capabilities.prepare().bfloat16:
        pytest.skip("bfloat16 gives no right results on this CPU")
    random = torch.Generator().manual_seed(1)
    bases = [torch.linalg.qr(torch.randn(5, size, min(rows, columns), generator=random)).Q for size in (rows, columns)]
    lengths = torch.rand(5, 1, min(rows, columns), generator=random) + 0.05  # all of them but the very small ones
    found = orthogonal(bases[0] * lengths @ bases[1].mT, dtype)
    assert found.dtype == torch.float32
    inside = bases[0].mT @ found @ bases[1]
    along = inside.diagonal(dim1=1, dim2=2)
    assert 0.6 < along.min() <= along.max() < 1.25
    assert (inside - torch.diag_embed(along)).abs().max() < bits


def test_each_matrix_is_stepped_as_if_it_were_alone() -> None:
    random = torch.Generator().manual_seed(2)
    matrices = [nn.Parameter(torch.randn(6, 4, generator=random)) for _ in range(3)]
    alone = [nn.Parameter(matrix.detach().clone()) for matrix in matrices]
    together = Muon(matrices, lr=0.1)
    each = [Muon([matrix], lr=0.1) for matrix in alone]
    for _ in range(3):
        for one, other in zip(matrices, alone, strict=True):
            one.grad = torch.randn(6, 4, generator=random)
            other.grad = one.grad.clone()
        together.step()
        for optimizer in each:
            optimizer.step()
    for one, other in zip(matrices, alone, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_its_first_step() -> None:
    """Momentum, Nesterov's look ahead, decay and length, written out."""
    before, gradient = torch.eye(3), torch.diag(torch.tensor([3.0, 2.0, 1.0]))
    matrix = nn.Parameter(before.clone())
    matrix.grad = gradient.clone()
    Muon([matrix], lr=0.5, weight_decay=0.2).step()
    momentum = (1 - MOMENTUM) * gradient
    ahead = (1 - MOMENTUM) * gradient + MOMENTUM * momentum
    expected = before * (1 - 0.5 * 0.2) - 0.5 * ADAMW_STEP_SIZE * 3**0.5 * orthogonal(ahead[None])[0]
    assert torch.allclose(matrix.detach(), expected, atol=1e-6)


def test_embeddings_and_norms_are_adamws() -> None:
    model = nn.ModuleDict({"words": nn.Embedding(5, 4), "linear": nn.Linear(4, 3), "norm": nn.LayerNorm(4)})
    muon, adamw = make_optimizers(model, TrainSettings(updates=1, optimizer="muon", weight_decay=0.1))
    assert [tuple(p.shape) for p in muon.param_groups[0]["params"]] == [(3, 4)]
    assert sum(p.numel() for p in adamw.param_groups[0]["params"]) == 5 * 4 + 3 + 4 + 4
