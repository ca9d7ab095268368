"""A batch in parts, each learnt from by a thread of its own.

torch spreads one operation at a time over the cores, and between two of them the cores wait for each other. For small
models that waiting is a third of the time. Here every core runs the whole model on its own part of the batch instead,
and they meet once an update, to add up their gradients: always in the same order, so the sum is the same every time.
"""

import copy
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from regard.blocks.dropout import MaskPool, share_mask_pool
from regard.cpu.thread_pool import ThreadPool
from regard.data.batching import Batch

MOST = 8
"""Replicas at most, by default: each has gradients of its own, and a part of a batch should stay a large matrix."""

Learn = Callable[[nn.Module, Sequence[Batch]], Tensor]
"""Adds the gradients of some batches to a module's parameters; the numbers that come back are added up."""


class Replicas:
    """Modules that share their parameters, and have each its own gradients and its own dropout."""

    def __init__(self, module: nn.Module, count: int) -> None:
        self.modules = [module, *(_twin(module) for _ in range(count - 1))]
        self.strips: list[MaskPool] = [share_mask_pool(each) for each in self.modules]
        self.crew = ThreadPool(count) if count > 1 else None

    def learn(self, task: Learn, batches: Sequence[Batch]) -> Tensor:
        """Do the task with every batch once; the gradients are then where the first module's parameters are."""
        count = len(self.modules)
        if self.crew is None:
            return task(self.modules[0], batches)
        parts = [batches[number::count] for number in range(count)]
        busy = [(module, part) for module, part in zip(self.modules, parts, strict=True) if part]
        done = self.crew.run_all([partial(task, module, part) for module, part in busy])
        failed = [error for error in (each.exception() for each in done) if error is not None]
        try:
            if failed:
                raise failed[0]
            self._add_gradients([module for module, _ in busy])
        finally:
            for module in self.modules[1:]:
                module.zero_grad(set_to_none=True)
        return torch.stack([each.result() for each in done]).sum(0)

    def _add_gradients(self, modules: list[nn.Module]) -> None:
        first, *others = (list(module.parameters()) for module in modules)
        for other in others:
            for own, more in zip(first, other, strict=True):
                if own.grad is None:  # a part that this thread's tokens did not pass
                    own.grad = more.grad
                elif more.grad is not None:
                    own.grad += more.grad

    def close(self) -> None:
        if self.crew is not None:
            self.crew.close()


def _twin(module: nn.Module) -> nn.Module:
    twin = copy.deepcopy(module)
    for own, shared in zip(twin.parameters(), module.parameters(), strict=True):
        own.data = shared.data
    return twin
