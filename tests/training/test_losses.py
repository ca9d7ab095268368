"""The sliced loss against torch's own, value and gradients."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.cpu import capabilities
from regard.training import losses
from regard.training.losses import projected_cross_entropy, projected_log_probs
from regard.training.rdrop import rdrop_cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_value_and_gradients(smoothing: float, bias: bool, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "SLICE_BYTES", 4 * 31 * 10)  # ten rows at a time
    torch.manual_seed(rows)
    leaves = [torch.randn(rows, 8), torch.randn(31, 8), torch.randn(31) if bias else None]
    ours, theirs = ([None if t is None else t.clone().requires_grad_() for t in leaves] for _ in range(2))
    labels = torch.randint(31, (rows,))
    loss, likelihood = projected_cross_entropy(*ours, labels, smoothing)  # type: ignore[arg-type]
    logits = F.linear(*theirs)  # type: ignore[arg-type]
    expected = F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss.float(), expected)
    torch.testing.assert_close(-likelihood.float(), F.cross_entropy(logits, labels, reduction="sum"))
    (loss / 3).backward()
    (expected / 3).backward()
    for mine, other in zip(ours, theirs, strict=True):
        if mine is not None and other is not None:
            torch.testing.assert_close(mine.grad, other.grad)


def test_it_never_holds_more_than_a_slice_of_the_logits() -> None:
    seen = []
    for part in losses.slices(100_000, 50_000):
        seen.append((part.stop - part.start) * 50_000 * 4)
    assert max(seen) <= losses.SLICE_BYTES
    assert losses.slices(10, 1 << 30)[0] == slice(0, 1)


@pytest.mark.parametrize("rows", [7, 200])
def test_products_in_half_precision(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the loss, of R-Drop's and of likelihoods: as in float32, to the bits that there are."""
    if not capabilities.prepare().bfloat16:
        pytest.skip("bfloat16 gives no right results on this CPU")
    monkeypatch.setattr(losses, "SLICE_BYTES", 4 * 31 * 70)  # 64 rows at a time
    torch.manual_seed(rows)
    leaves = [torch.randn(2 * rows, 8), torch.randn(31, 8), torch.randn(31)]
    labels, worth = torch.randint(31, (2 * rows,)), torch.randn(2 * rows)
    ways: list[Callable[..., Tensor]] = [
        lambda *of, bf16: projected_cross_entropy(*of, labels, 0.1, bf16=bf16)[0],
        lambda *of, bf16: rdrop_cross_entropy(*of, labels[:rows], 0.1, 5.0, bf16=bf16)[0],
        lambda *of, bf16: (projected_log_probs(*of, labels, bf16=bf16) * worth).sum(),
    ]
    for way in ways:
        seen = []
        for bf16 in (False, True):
            of = [leaf.clone().requires_grad_() for leaf in leaves]
            loss = way(*of, bf16=bf16)
            loss.backward()  # type: ignore[no-untyped-call]
            seen.append([loss.detach().float(), *(leaf.grad for leaf in of)])
        for whole, found in zip(*seen, strict=True):
            assert whole is not None
            assert found is not None
            assert 0 < (found - whole).norm() < 0.02 * whole.norm()
