"""Threads that learn from parts of a batch: together they are one model that learns from all of it."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from training_jobs import Epoch, job, weights

from regard.data.batching import Batch
from regard.training.loop import train
from regard.training.losses import TranslationLoss
from regard.training.thread_replicas import Replicas


@pytest.fixture
def loss(tmp_path) -> TranslationLoss:
    made = job(tmp_path / "run").loss
    assert isinstance(made, TranslationLoss)
    return made


def learn(module: nn.Module, batches: Sequence[Batch]) -> Tensor:
    module.eval()  # no dropout: what is compared is the sum
    total = torch.zeros((), dtype=torch.float64)
    for batch in batches:
        part, _ = module(batch)
        part.backward()
        total += part.detach()
    return total


def gradients(module: nn.Module) -> Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in module.parameters()])


@pytest.mark.parametrize("count", [2, 3])
def test_their_gradients_are_those_of_the_whole_batch(loss: TranslationLoss, count: int) -> None:
    batch = Epoch(0)[0]
    whole = learn(loss, [batch])
    expected = gradients(loss)
    loss.zero_grad()
    replicas = Replicas(loss, count)
    parts = replicas.run(learn, batch.split(count))
    replicas.close()
    torch.testing.assert_close(parts, whole)
    torch.testing.assert_close(gradients(loss), expected)


def test_a_change_of_the_model_is_a_change_of_all(loss: TranslationLoss) -> None:
    replicas = Replicas(loss, 2)
    optimizer = torch.optim.AdamW(loss.parameters(), lr=0.1, fused=True)
    replicas.run(learn, Epoch(0)[0].split(2))
    optimizer.step()
    for one, other in zip(*(module.parameters() for module in replicas.modules), strict=True):
        assert torch.equal(one, other)
        assert one.data_ptr() == other.data_ptr()
    replicas.close()


def test_fewer_parts_than_threads(loss: TranslationLoss) -> None:
    replicas = Replicas(loss, 3)
    alone = replicas.run(learn, [Epoch(0)[0]])
    replicas.close()
    torch.testing.assert_close(alone, learn(loss, [Epoch(0)[0]]))


def test_an_error_in_one_is_raised_and_leaves_no_gradients_behind(loss: TranslationLoss) -> None:
    replicas = Replicas(loss, 2)

    def fail(module: nn.Module, batches: Sequence[Batch]) -> Tensor:
        learn(module, batches)
        if module is replicas.modules[1]:
            raise MemoryError("not enough")
        return torch.zeros(())

    with pytest.raises(MemoryError, match="not enough"):
        replicas.run(fail, Epoch(0)[0].split(2))
    assert all(parameter.grad is None for parameter in replicas.modules[1].parameters())
    replicas.close()


def test_our_own_thread_keeps_all_cores(loss: TranslationLoss) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        Replicas(loss, 2).close()
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_number_of_them_gives_the_same_weights_twice(tmp_path, count: int) -> None:
    jobs = [job(tmp_path / str(number), replicas=count) for number in range(2)]
    for each in jobs:
        train(each)
    assert torch.equal(*(weights(each) for each in jobs))
