"""R-Drop's loss against the same written with torch's own functions, value and gradients."""

import pytest
import torch
import torch.nn.functional as F
from training_jobs import Epoch, job

from regard.training import losses
from regard.training.rdrop import rdrop_cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 7, 40])
def test_value_and_gradients(smoothing: float, bias: bool, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "SLICE_BYTES", 4 * 4 * 31 * 10)  # ten rows at a time
    torch.manual_seed(rows)
    leaves = [torch.randn(2 * rows, 8), torch.randn(31, 8), torch.randn(31) if bias else None]
    ours, theirs = ([None if t is None else t.clone().requires_grad_() for t in leaves] for _ in range(2))
    labels = torch.randint(31, (rows,))
    loss, likelihood = rdrop_cross_entropy(*ours, labels, smoothing, 5.0)  # type: ignore[arg-type]

    logits = F.linear(*theirs)  # type: ignore[arg-type]
    both = labels.repeat(2)
    a, b = logits.log_softmax(1).chunk(2)
    divergence = F.kl_div(a, b, log_target=True, reduction="sum") + F.kl_div(b, a, log_target=True, reduction="sum")
    expected = F.cross_entropy(logits, both, label_smoothing=smoothing, reduction="sum") / 2 + 5.0 / 2 * divergence / 2
    torch.testing.assert_close(loss.float(), expected)
    torch.testing.assert_close(-likelihood.float(), F.cross_entropy(logits, both, reduction="sum") / 2)
    (loss / 3).backward()
    (expected / 3).backward()
    for mine, other in zip(ours, theirs, strict=True):
        if mine is not None and other is not None:
            torch.testing.assert_close(mine.grad, other.grad)


def test_where_nothing_is_dropped_it_is_the_plain_loss(tmp_path) -> None:  # type: ignore[no-untyped-def]
    made = [job(tmp_path / str(strength), rdrop_alpha=strength).loss for strength in (0.0, 5.0)]
    batch = Epoch(0)[0]
    for loss in made:
        for part in loss.modules():
            if hasattr(part, "p"):
                part.p = 0.0
    (plain, likelihood), (twice, other) = (loss.train()(batch) for loss in made)
    torch.testing.assert_close(plain, twice)
    torch.testing.assert_close(likelihood, other)
    assert made[1].eval()(batch)[0] == made[0].eval()(batch)[0]
