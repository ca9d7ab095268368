"""The processes that torchrun starts: rank, wrapping of the model, collective operations. A single process skips all.

The only reader of RANK, LOCAL_RANK and WORLD_SIZE.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Literal, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from regard.blocks.block import Block
from regard.errors import TrainingError

COLLECTIVE_TIMEOUT = timedelta(hours=24)


class Workers:
    """The processes that train together; one, unless torchrun started more."""

    def __init__(self, parallel: Literal["ddp", "fsdp"] = "ddp") -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.count = int(os.environ.get("WORLD_SIZE", "1"))
        self.parallel = parallel
        self.single = self.count == 1
        self.is_main = self.rank == 0
        """The main process writes files and prints."""
        self.sharded = not self.single and parallel == "fsdp"

    @contextmanager
    def process_group(self, device: torch.device) -> Iterator[None]:
        """Join the other processes while the block runs."""
        if self.single:
            yield
            return
        if device.type == "cuda":
            torch.cuda.set_device(self.local_rank)  # or all processes would share the first GPU
        # The main process alone learns the tokenizer and reads the corpus, which can take hours. A lost process is
        # noticed without the timeout.
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=COLLECTIVE_TIMEOUT)
        try:
            yield
        except RuntimeError as error:
            # gloo and nccl report a lost peer as a RuntimeError in whatever was waiting for it
            if any(word in str(error) for word in ("Connection", "gloo", "NCCL", "peer")):
                raise TrainingError(
                    "another process was lost; continue from the last checkpoint with --resume"
                ) from error
            raise
        finally:
            dist.destroy_process_group()

    def exit(self, code: int) -> NoReturn:
        """End this process without Python's own cleanup.

        gloo's threads outlive the process group. One that frees a tensor while Python shuts down needs a lock that no
        longer exists, and aborts: one of five FSDP runs ended that way, with all of its work done.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def wrap(self, module: nn.Module) -> nn.Module:
        """Make backward passes average the gradients over all workers."""
        if self.single:
            return module
        if self.parallel == "ddp":
            return DistributedDataParallel(module)
        for part in module.modules():
            if isinstance(part, Block):
                fully_shard(part)
        fully_shard(module)
        return module

    @contextmanager
    def unsharded(self, module: nn.Module) -> Iterator[None]:
        """Gather full parameters on every worker while the block runs. All workers must enter it, and do the same
        inside."""
        shards = [part for part in module.modules() if isinstance(part, FSDPModule)]
        for part in shards:
            part.set_reshard_after_forward(False, recurse=False)  # or a block would drop them after its forward pass
            part.unshard()
        try:
            yield
        finally:
            for part in shards:
                part.set_reshard_after_forward(part is not module, recurse=False)
                part.reshard()

    def sum(self, numbers: Tensor) -> Tensor:
        """Sum over all workers. An infinity or NaN of one worker reaches all of them."""
        if not self.single:
            dist.all_reduce(numbers)
        return numbers

    def barrier(self) -> None:
        if not self.single:
            dist.barrier()


def full_tensor(tensor: Tensor) -> Tensor:
    """Gather a sharded tensor; all workers must call this together."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


@torch.no_grad()
def copy_tensors(tensors: Mapping[str, Tensor], destination: Mapping[str, Tensor]) -> None:
    """Copy full tensors into parameters or optimizer state, sharding them where the destination is sharded."""
    for name, target in destination.items():
        source = tensors[name].to(target.device, target.dtype)
        if isinstance(target, DTensor):
            source = distribute_tensor(source, target.device_mesh, target.placements)
        target.copy_(source)
