"""torchrun's processes: who we are, how the model is wrapped, what is agreed on. Alone, all of it is nothing.

The only reader of RANK, LOCAL_RANK and WORLD_SIZE.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any, Literal, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from regard.blocks.block import Block
from regard.errors import TrainingError

PATIENCE = timedelta(hours=24)


class Workers:
    """The processes that train together; one, unless torchrun started more."""

    def __init__(self, parallel: Literal["ddp", "fsdp"] = "ddp") -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.count = int(os.environ.get("WORLD_SIZE", "1"))
        self.parallel = parallel

    @property
    def first(self) -> bool:
        """The one that writes files and talks."""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        return self.count == 1

    @contextmanager
    def meet(self, device: torch.device) -> Iterator[None]:
        """Join the others for as long as the block runs."""
        if self.alone:
            yield
            return
        if device.type == "cuda":
            torch.cuda.set_device(self.local_rank)  # or all of them would share the first
        # the first one alone learns the tokenizer and reads the corpus, which takes hours; a lost one is noticed anyway
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
        try:
            yield
        except RuntimeError as error:
            # gloo and nccl report a lost peer as a RuntimeError in whatever was waiting for it
            if any(word in str(error) for word in ("Connection", "gloo", "NCCL", "peer")):
                raise TrainingError("another process was lost; go on from the last checkpoint with --resume") from error
            raise
        finally:
            dist.destroy_process_group()

    def leave(self, code: int) -> NoReturn:
        """End this process as it is, without Python's own clean-up.

        gloo's threads live on after the group is gone. One that lets go of a tensor while Python shuts down wants a
        lock that is no more, and aborts: one of five runs with FSDP ended so, with all of its work done.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module, such that its gradients are averaged over the workers."""
        if self.alone:
            return module
        if self.parallel == "ddp":
            return DistributedDataParallel(module)
        for part in module.modules():
            if isinstance(part, Block):
                fully_shard(part)
        fully_shard(module)
        return module

    @property
    def sharded(self) -> bool:
        return not self.alone and self.parallel == "fsdp"

    @contextmanager
    def gathered(self, module: nn.Module) -> Iterator[None]:
        """The module with whole parameters everywhere, for as long as the block runs. Every worker must take part, and
        do the same inside."""
        shards = [part for part in module.modules() if isinstance(part, FSDPModule)]
        for part in shards:
            part.set_reshard_after_forward(False, recurse=False)  # or a block would drop them once it is passed through
            part.unshard()
        try:
            yield
        finally:
            for part in shards:
                part.set_reshard_after_forward(part is not module, recurse=False)
                part.reshard()

    def sum(self, numbers: Tensor) -> Tensor:
        """Added up over all workers; infinities and NaN of one are everyone's."""
        if not self.alone:
            dist.all_reduce(numbers)
        return numbers

    def wait(self) -> None:
        if not self.alone:
            dist.barrier()

    def without_sync(self, module: nn.Module, last: bool) -> Any:
        """Gradients are exchanged once an update, with its last batch."""
        if isinstance(module, DistributedDataParallel) and not last:
            return module.no_sync()
        return nullcontext()


def whole(tensor: Tensor) -> Tensor:
    """A tensor with all of its shards; every worker must ask at once."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


@torch.no_grad()
def fill_from(tensors: Mapping[str, Tensor], destination: Mapping[str, Tensor]) -> None:
    """Copy whole tensors into parameters or moments, sharding them where those are sharded."""
    for name, target in destination.items():
        source = tensors[name].to(target.device, target.dtype)
        if isinstance(target, DTensor):
            source = distribute_tensor(source, target.device_mesh, target.placements)
        target.copy_(source)
