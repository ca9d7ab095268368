"""Data parallelism across threads: every thread trains a replica of the model on its own part of the batch.

torch spreads one operation at a time over the cores, and between two operations the cores wait for each other. For
small models this waiting is a third of the time. Here every core runs the whole model on its part of the batch, and
the threads synchronize once per update to add up their gradients: always in the same order, so the sum is the same
every time.
"""

import copy
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from regard.blocks.dropout import MaskPool, share_mask_pool
from regard.cpu.threads import ThreadPool
from regard.data.batching import Batch

MAX_REPLICAS = 8
"""Default limit: every replica has its own gradients, and a part of a batch should stay a large matrix."""

Task = Callable[[nn.Module, Sequence[Batch]], Tensor]
"""Adds the gradients of some batches to a module's parameters. The tensors that replicas return are summed."""


class Replicas:
    """Modules that share their parameters; each has its own gradients and its own dropout masks."""

    def __init__(self, module: nn.Module, count: int) -> None:
        self.modules = [module, *(_replica(module) for _ in range(count - 1))]
        self.mask_pools: list[MaskPool] = [share_mask_pool(each) for each in self.modules]
        self._pool = ThreadPool(count) if count > 1 else None

    def run(self, task: Task, batches: Sequence[Batch]) -> Tensor:
        """Run the task on every batch once, leaving the summed gradients in the first module's parameters."""
        count = len(self.modules)
        if self._pool is None:
            return task(self.modules[0], batches)
        parts = [batches[number::count] for number in range(count)]
        busy = [(module, part) for module, part in zip(self.modules, parts, strict=True) if part]
        done = self._pool.run_all([partial(task, module, part) for module, part in busy])
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
            for total, parameter in zip(first, other, strict=True):
                if total.grad is None:  # the tokens of this thread did not use the parameter
                    total.grad = parameter.grad
                elif parameter.grad is not None:
                    total.grad += parameter.grad

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()


def _replica(module: nn.Module) -> nn.Module:
    replica = copy.deepcopy(module)
    for parameter, shared in zip(replica.parameters(), module.parameters(), strict=True):
        parameter.data = shared.data
    return replica
