"""The training loop.

Each update is a function of the weights, the data and (seed, update). Nothing else is random, so a run that is killed
at any moment resumes from its last checkpoint and reaches the same weights, bit for bit.
"""

import hashlib
import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard.blocks.bf16_linear import use_bf16_linear
from regard.data.batching import Batch
from regard.errors import TrainingError
from regard.training import checkpoint
from regard.training.checkpoint import Progress
from regard.training.distributed import Workers, full_tensor
from regard.training.metrics_log import MetricsLog, MetricsWindow, Record, UpdateMetrics
from regard.training.moving_average import MovingAverage
from regard.training.optim import make_optimizers
from regard.training.settings import TrainSettings
from regard.training.stop_request import StopRequest, stop_on_signal
from regard.training.thread_replicas import MAX_REPLICAS, Replicas

MASK_POOL_UPDATES = 64
"""Updates for which one pool of dropout masks is used."""

Batches = Callable[[int], Sequence[Any]]
"""Epoch number -> its batches: a pure function of (seed, epoch)."""
Validate = Callable[[], Record]
"""Evaluates the current model. The record holds `score` (larger is better) and any other metrics."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """The inputs of the loop."""

    loss: nn.Module
    """The model with its loss: batch -> (loss, log-likelihood), summed over its tokens."""
    model: nn.Module
    batches: Batches
    validate: Validate
    settings: TrainSettings
    seed: int
    run: Path
    device: torch.device
    workers: Workers = field(default_factory=Workers)
    report: Callable[[Record], None] = lambda record: None
    """Called with every record of the log."""
    on_update: Callable[[int], None] = lambda update: None
    """Called after every update, with its number."""
    locate: Callable[[int], str] = str
    """Row of the corpus -> its file and line, for error messages."""


def train(job: Job, *, resume: bool = False) -> Progress:
    """Train until the last update, until validation stops improving, or until a signal asks to stop.

    `stopped_by` of the returned progress is the number of that signal.
    """
    settings, workers = job.settings, job.workers
    with stop_on_signal() as stop, _Run(job, resume) as run:
        progress = run.progress
        for batches in run.updates():
            tokens = run.total(float(sum(batch.tokens for batch in batches)))
            pieces = 1  # doubled when a batch does not fit into memory
            while True:
                run.seed_update()
                job.model.zero_grad(set_to_none=True)
                parts = [part for batch in batches for part in batch.split(pieces * len(run.replicas.modules))]
                try:
                    sums = run.replicas.run(partial(forward_backward, job=job, scale=workers.count / tokens), parts)
                    break
                except (RuntimeError, MemoryError) as error:
                    pieces = run.more_pieces(pieces, batches, error)
            loss, log_likelihood = ((sums if workers.single else workers.sum(sums)) / tokens).tolist()

            norm = nn.utils.clip_grad_norm_(job.model.parameters(), settings.clip or math.inf)
            norm = norm if workers.single else full_tensor(norm)
            lr = learning_rate(settings, progress.update)
            metrics = UpdateMetrics(loss, log_likelihood, tokens, lr, float(norm))
            if math.isfinite(loss) and math.isfinite(metrics.grad_norm):
                run.optimizer_step(metrics)
            else:
                run.on_nonfinite(batches, metrics)

            run.log(metrics)
            stopping = run.should_stop(stop)
            if progress.update == settings.updates or progress.update % settings.validate_every == 0:
                run.validate()
                run.save()
            elif stopping or (settings.save_every and progress.update % settings.save_every == 0):
                run.save()
            if stopping:
                break
        progress.stopped_by = stop.signal
        return progress


def forward_backward(module: nn.Module, batches: Sequence[Batch], *, job: Job, scale: float) -> Tensor:
    """Add the gradients of some batches to the module; return the sums of loss and log-likelihood.

    Every replica calls this in its own thread. Workers average their gradients, while the loss is a mean over the
    tokens of all workers: `scale` is workers / tokens.
    """
    sums = torch.zeros(2, dtype=torch.float64, device=job.device)
    bf16 = job.settings.dtype == "bfloat16" and job.device.type != "cpu"  # on a CPU the linear layers do it
    module.train()
    for number, batch in enumerate(batches, 1):
        last = number == len(batches)  # DDP exchanges gradients once per update, with its last batch
        no_sync = module.no_sync() if isinstance(module, DistributedDataParallel) and not last else nullcontext()
        with no_sync, torch.autocast(job.device.type, torch.bfloat16, enabled=bf16):
            loss, log_likelihood = module(batch)
            (loss * scale).backward()
        sums += torch.stack((loss.detach(), log_likelihood))
    return sums


def learning_rate(settings: TrainSettings, update: int) -> float:
    """The learning rate of an update, counted from 1. A pure function, so checkpoints need no scheduler state."""
    if update < settings.warmup:
        return settings.lr * update / settings.warmup
    warmup, last = max(settings.warmup, 1), settings.updates
    match settings.schedule:
        case "constant":
            share = 1.0
        case "inverse_sqrt":
            # the paper's width^-0.5 * min(n^-0.5, n * w^-1.5), scaled so that its peak, at n = w, is `lr`. The paper's
            # own peak is (width * warmup)^-0.5: 7e-4 for a width of 512 and 4,000 updates of warm-up.
            share = math.sqrt(warmup / max(update, 1))
        case "cosine":
            done = (update - settings.warmup) / max(last - settings.warmup, 1)
            share = _between(settings.lr_floor, 0.5 * (1 + math.cos(math.pi * min(done, 1.0))))
        case "wsd":
            left = (last - update) / settings.decay
            share = _between(settings.lr_floor, min(max(left, 0.0), 1.0))
    return settings.lr * share


def _between(floor: float, share: float) -> float:
    return floor + (1 - floor) * share


def is_finished(settings: TrainSettings, progress: Progress) -> bool:
    """Whether the last update is done, or validation has not improved for `patience` validations."""
    out_of_patience = settings.stop_on != "none" and progress.waited >= max(settings.patience, 1)
    return progress.update >= settings.updates or out_of_patience


class _Run:
    """The state of one call of `train`: optimizers, replicas, progress, log."""

    def __init__(self, job: Job, resume: bool) -> None:
        self.job, self.settings = job, job.settings
        if job.settings.dtype == "bfloat16" and job.device.type == "cpu":
            use_bf16_linear(job.model)
        self.module = job.workers.wrap(job.loss)
        self.optimizers = make_optimizers(job.model, job.settings)
        decay = job.settings.moving_average
        self.average = MovingAverage(job.model, decay) if decay else None
        self.folder = job.run / "state"
        self.progress = Progress()
        if resume:
            main = job.workers.is_main
            self.progress = checkpoint.load(self.folder, job.model, self.optimizers, self.averaged, writes=main)
        self.started = time.perf_counter() - self.progress.seconds
        self.replicas = Replicas(self.module, self.replica_count())
        self.window = MetricsWindow()
        self.log_file = MetricsLog(job.run, self.progress.update) if job.workers.is_main else None

    def __enter__(self) -> "_Run":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.replicas.close()
        if self.log_file is not None:
            self.log_file.close()

    @property
    def averaged(self) -> dict[str, Tensor] | None:
        return None if self.average is None else self.average.tensors

    def replica_count(self) -> int:
        if not self.job.workers.single or self.job.device.type != "cpu":
            return 1
        return self.settings.replicas or min(torch.get_num_threads(), MAX_REPLICAS)

    def updates(self) -> Iterator[list[Batch]]:
        """The batches of each update, until the run is finished."""
        stream = self.stream()
        while not is_finished(self.settings, self.progress):
            batches = list(islice(stream, self.settings.accumulate))
            self.progress.update += 1
            yield batches

    def stream(self) -> Iterator[Batch]:
        """Batches without end, from the current position."""
        progress = self.progress
        while True:
            epoch = self.job.batches(progress.epoch)
            if len(epoch) == 0:
                raise TrainingError("there is no training data: every pair was filtered out")
            while progress.batch < len(epoch):
                progress.batch += 1  # before it is used: a checkpoint follows the whole update
                yield epoch[progress.batch - 1].to(self.job.device)
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def seed_update(self) -> None:
        """Seed all that is random in this update, from (seed, update, worker)."""
        seed, update, rank = self.job.seed, self.progress.update, self.job.workers.rank
        torch.manual_seed(_hash(seed, "update", update, rank))
        for number, pool in enumerate(self.replicas.mask_pools):
            pattern = _hash(seed, "strip", update // MASK_POOL_UPDATES, rank, number)
            pool.reseed(pattern, offsets=_hash(seed, "places", update, rank, number))

    def more_pieces(self, pieces: int, batches: list[Batch], error: Exception) -> int:
        """Cut the batches into twice as many pieces after running out of memory. Other errors are raised again."""
        if not (isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)):
            raise error
        if not self.job.workers.single:  # the others are in the middle of exchanging gradients
            raise TrainingError(
                "out of memory, and batches are not split with several processes: lower batch_tokens, and raise "
                "accumulate to keep the tokens per update"
            ) from None
        if 2 * pieces > max(len(batch.rows) for batch in batches):
            raise TrainingError("out of memory with a single pair: lower [data] max_tokens") from None
        self.write({"kind": "split", "update": self.progress.update, "pieces": 2 * pieces})
        return 2 * pieces

    def optimizer_step(self, metrics: UpdateMetrics) -> None:
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = metrics.lr
            optimizer.step()
        if self.average is not None:
            self.average.update(self.progress.update)
        self.progress.tokens += int(metrics.tokens)

    def on_nonfinite(self, batches: list[Batch], metrics: UpdateMetrics) -> None:
        """Stop, or skip the update, as the recipe says."""
        name, value = ("gradient norm", metrics.grad_norm) if math.isfinite(metrics.loss) else ("loss", metrics.loss)
        where = f"update {self.progress.update}, epoch {self.progress.epoch}"
        pairs = ", ".join(self.job.locate(row) for batch in batches for row in batch.rows.tolist()[:8])
        if self.settings.on_nonfinite == "stop":
            raise TrainingError(f"the {name} is {value} in {where}, in a batch with the pairs {pairs} …")
        self.write({"kind": "skipped", "update": self.progress.update, "loss": str(value), "pairs": pairs})
        self.progress.skipped += 1

    def log(self, metrics: UpdateMetrics) -> None:
        progress = self.progress
        progress.seconds = time.perf_counter() - self.started
        self.window.add(metrics)
        if progress.update % self.settings.log_every == 0:
            self.write({"kind": "train", **self.window.summary(progress)})
        if self.log_file is not None:
            self.job.on_update(progress.update)

    def should_stop(self, stop: StopRequest) -> bool:
        """Whether any worker received a signal."""
        stopping = self.total(float(stop.signal is not None)) > 0
        if stopping and stop.signal is None:  # another worker received it
            stop.ask(signal.SIGTERM)
        return stopping

    def validate(self) -> None:
        """Validate the model and remember the best score."""
        progress, workers = self.progress, self.job.workers
        record: Record = {}
        if workers.is_main or workers.sharded:  # sharded weights need all workers
            swapped_in = self.average.swapped_in() if self.average else nullcontext()
            with swapped_in, workers.unsharded(self.module):
                self.job.model.eval()
                record = self.job.validate()
        score = self.total(float(record.get("score", 0.0)) if workers.is_main else 0.0)
        progress.score = score if math.isfinite(score) else None
        if math.isfinite(score) and (progress.best is None or score > progress.best):
            progress.best, progress.best_update, progress.waited = score, progress.update, 0
        else:
            progress.waited += 1
        self.write({"kind": "valid", "update": progress.update, "epoch": progress.epoch, **record})

    def save(self) -> None:
        model, workers = self.job.model, self.job.workers
        if self.log_file is not None:
            self.log_file.sync()
        checkpoint.save(self.folder, self.progress, model, self.optimizers, self.averaged, writes=workers.is_main)
        if workers.is_main:
            checkpoint.prune(self.folder, self.settings.average, best=self.settings.average_best)
        self.progress.score = None
        workers.barrier()

    def total(self, number: float) -> float:
        """The sum of a number over all workers."""
        if self.job.workers.single:
            return number
        return float(self.job.workers.sum(torch.tensor([number], dtype=torch.float64, device=self.job.device)))

    def write(self, record: Record) -> None:
        if self.log_file is not None:
            self.log_file.write(record)
            self.job.report(record)


def _hash(*parts: object) -> int:
    """A pseudo-random 63-bit number that depends on all parts."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "little") >> 1
