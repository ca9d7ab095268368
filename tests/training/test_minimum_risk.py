"""Minimum risk: the loss against the same written plainly, and what it does to a model."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from training_jobs import Epoch, job, weights

from regard.data.batching import Batch
from regard.errors import ConfigError
from regard.models.seq2seq import Seq2Seq
from regard.training import losses
from regard.training.loop import Job, train
from regard.training.losses import TranslationLoss, projected_log_probs
from regard.training.minimum_risk import RewardedBatches, Sample, risk, with_rewards
from regard.training.settings import TrainSettings


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 7, 40])
def test_likelihoods_and_their_gradients(bias: bool, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "SLICE_BYTES", 4 * 31 * 10)  # ten rows at a time
    torch.manual_seed(rows)
    leaves = [torch.randn(rows, 8), torch.randn(31, 8), torch.randn(31) if bias else None]
    ours, theirs = ([None if t is None else t.clone().requires_grad_() for t in leaves] for _ in range(2))
    labels, reward = torch.randint(31, (rows,)), torch.randn(rows)
    own = projected_log_probs(*ours, labels)  # type: ignore[arg-type]
    expected = -F.cross_entropy(F.linear(*theirs), labels, reduction="none")  # type: ignore[arg-type]
    torch.testing.assert_close(own, expected)
    (own * reward).sum().backward()
    (expected * reward).sum().backward()
    for mine, other in zip(ours, theirs, strict=True):
        if mine is not None and other is not None:
            torch.testing.assert_close(mine.grad, other.grad)


def test_risk_of_two() -> None:
    """Two translations with three tokens and one, both with a mean of log 1/2: their chances are even."""
    own = torch.tensor([[[0.5, 0.5, 0.5], [0.5, 1.0, 1.0], [1.0, 1.0, 1.0]]]).log()
    present = torch.tensor([[[True, True, True], [True, False, False], [False, False, False]]])
    found = risk(own, present, torch.tensor([[1.0, 0.4, 0.0]]))
    torch.testing.assert_close(found, torch.tensor([0.3]))


def test_probability_moves_to_the_better_one() -> None:
    own = torch.tensor([[[0.5], [0.25]]]).log().requires_grad_()
    risk(own, torch.ones(1, 2, 1, dtype=torch.bool), torch.tensor([[0.2, 0.9]])).sum().backward()
    assert own.grad is not None
    assert own.grad[0, 0, 0] > 0 > own.grad[0, 1, 0]


def right_and_wrong(sources: list[list[int]], targets: list[list[int]]) -> list[list[Sample]]:
    """The target and the source itself; for every other source, the target alone."""
    return [
        [(target, 1.0), ([*source, 2], 0.0)][: 2 - number % 2]
        for number, (source, target) in enumerate(zip(sources, targets, strict=True))
    ]


def test_samples_stay_with_their_source() -> None:
    batch = Epoch(0)[0]
    whole = with_rewards(batch, right_and_wrong, start=1, pad=0)
    for part in (whole, *whole.split(3)):
        assert part.tokens == int(part.target_present_BL.sum())
        for row, labels in enumerate(part.labels_BL):
            there = part.target_present_BL[row]
            assert torch.equal(part.sample_labels_BKL[row, 0][part.sample_present_BKL[row, 0]], labels[there])
            assert torch.equal(part.samples_BKL[row, 0][part.sample_present_BKL[row, 0]], part.target_BL[row][there])
        assert part.reward_BK.tolist() == [[1.0, 0.0]] * len(part.rows)
    assert whole.sample_present_BKL[:, 1].any(1).tolist() == [True, False] * 3
    assert torch.equal(torch.cat([part.rows for part in whole.split(3)]), batch.rows)


def test_the_loss_is_that_of_the_logits(tmp_path: Path) -> None:
    """Of one source after the other, with nothing padded."""
    made = job(tmp_path / "run", mrt_weight=0.4)
    model, loss = made.model.eval(), made.loss.eval()
    assert isinstance(model, Seq2Seq)
    batch = Epoch(0)[0]
    found, likelihood = loss(with_rewards(batch, right_and_wrong, start=1, pad=0))
    plain, same = loss(batch)
    torch.testing.assert_close(likelihood, same)

    expected = 0.6 * plain
    for row in range(len(batch.rows)):
        source = batch.source_BS[row][batch.source_present_BS[row]][None]
        target = batch.labels_BL[row][batch.target_present_BL[row]].tolist()
        scores, rewards = [], []
        for tokens, reward in right_and_wrong(source.tolist() * 2, [target] * 2)[row % 2]:
            logits = model(source, torch.tensor([[1, *tokens[:-1]]]))[0]
            scores.append(-F.cross_entropy(logits, torch.tensor(tokens)))
            rewards.append(1 - reward)
        mean_length = sum(
            len(tokens) for tokens, _ in right_and_wrong(source.tolist() * 2, [target] * 2)[row % 2]
        ) / len(scores)
        chances = (torch.stack(scores) * mean_length).softmax(0)
        expected = expected + 0.4 * len(target) * (chances * torch.tensor(rewards)).sum()
    torch.testing.assert_close(found.float(), expected.float())
    found.backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


def greedily(model: torch.nn.Module) -> Callable[[list[list[int]], list[list[int]]], list[list[Sample]]]:
    """What depends on the weights of the moment: the likeliest token at each place, and the second."""

    def sample(sources: list[list[int]], targets: list[list[int]]) -> list[list[Sample]]:
        model.eval()
        found: list[list[Sample]] = []
        for source, target in zip(sources, targets, strict=True):
            with torch.no_grad():
                logits = model(torch.tensor([source]), torch.tensor([[1, *target[:-1]]]))[0]
            guesses = logits.topk(2, dim=1).indices.T.tolist()
            rewards = [sum(a == b for a, b in zip(guess, target, strict=True)) / len(target) for guess in guesses]
            found.append(list(zip(guesses, rewards, strict=True)))
        return found

    return sample


def rewarded_job(run: Path, **changes: Any) -> Job:
    made = job(run, **changes)
    sample = greedily(made.model)
    return replace(made, batches=lambda epoch: RewardedBatches(Epoch(epoch), sample, start=1, pad=0))


@pytest.mark.parametrize("changes", [{}, {"replicas": 2, "accumulate": 2}])
def test_stopped_and_resumed_is_straight_through(tmp_path: Path, changes: dict[str, Any]) -> None:
    straight = rewarded_job(tmp_path / "straight", mrt_weight=0.5, **changes)
    train(straight)
    train(rewarded_job(tmp_path / "run", mrt_weight=0.5, updates=8, **changes))
    resumed = rewarded_job(tmp_path / "run", mrt_weight=0.5, **changes)
    train(resumed, resume=True)
    assert torch.equal(weights(resumed), weights(straight))


def test_the_risk_falls(tmp_path: Path) -> None:
    made = job(tmp_path / "run", mrt_weight=0.999, updates=40)
    batches: list[Batch] = [with_rewards(batch, right_and_wrong, start=1, pad=0) for batch in Epoch(0)]

    def risks() -> float:
        assert isinstance(made.loss, TranslationLoss)
        made.loss.eval()
        return sum(float(made.loss(batch)[0].detach()) for batch in batches)

    before = risks()
    train(replace(made, batches=lambda epoch: batches))
    assert risks() < 0.2 * before


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"mrt_weight": 1.0}, "mrt_weight"), ({"mrt_samples": 1}, "mrt_samples"), ({"rdrop_alpha": 5.0}, "rdrop_alpha")],
)
def test_what_cannot_be(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        TrainSettings(**{"updates": 1, "mrt_weight": 0.5} | changes)  # type: ignore[arg-type]
