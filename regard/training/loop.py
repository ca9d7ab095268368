"""The training loop. It is a loop.

Each update is a function of the weights, the data and (seed, update): nothing else is random, so a run that was
killed at any instant goes on from its last checkpoint to the same weights, bit for bit.
"""

import hashlib
import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.blocks.bf16_linear import use_bf16_linear
from regard.data.batching import Batch
from regard.errors import TrainingError
from regard.training import checkpoint
from regard.training.checkpoint import Progress
from regard.training.distributed import Workers, whole
from regard.training.metrics_log import MetricsLog, Record
from regard.training.optim import learning_rate, make_optimizers
from regard.training.replicas import MOST, Replicas
from regard.training.settings import TrainSettings
from regard.training.stop_request import Asked, asked_to_stop
from regard.weights.tensors import parameters

RENEW = 64
"""Updates between two draws of the dropout strip."""

Batches = Callable[[int], Sequence[Any]]
"""The batches of an epoch, by number: a pure function of (seed, epoch)."""
Validate = Callable[[], Record]
"""Measures the model as it stands: `score` (larger is better) and whatever else it likes to say."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything that the loop is handed."""

    loss: nn.Module
    """The model with its loss: a batch in, (loss, log-likelihood) summed over its tokens out."""
    model: nn.Module
    batches: Batches
    validate: Validate
    settings: TrainSettings
    seed: int
    run: Path
    device: torch.device
    workers: Workers = field(default_factory=Workers)
    report: Callable[[Record], None] = lambda record: None
    """Where every line of the journal goes as well."""
    where: Callable[[int], str] = str
    """Where a row of the corpus came from, for people."""


def train(job: Job, *, resume: bool = False) -> Progress:
    """Train until the last update, until nothing improves any more, or until a signal asks to stop.

    The progress that comes back says which: `stopped_by` is the signal's number.
    """
    with asked_to_stop() as asked:
        run = _Run(job, resume)
        try:
            return run.go(asked)
        finally:
            run.close()


class _Run:
    """One call of `train`: the loop and what it keeps at hand."""

    def __init__(self, job: Job, resume: bool) -> None:
        self.job, self.settings = job, job.settings
        if job.settings.dtype == "bfloat16" and job.device.type == "cpu":
            use_bf16_linear(job.model)
        self.module = job.workers.wrap(job.loss)
        self.optimizers = make_optimizers(job.model, job.settings)
        self.average = None
        if job.settings.moving_average:
            self.average = {name: parameter.detach().clone() for name, parameter in parameters(job.model).items()}
        self.folder = job.run / "state"
        self.progress = checkpoint.load(self.folder, job.model, self.optimizers, self.average) if resume else Progress()
        self.replicas = Replicas(self.module, self.replica_count())
        self.journal = MetricsLog(job.run, self.progress.update) if job.workers.first else None

    def close(self) -> None:
        self.replicas.close()
        if self.journal is not None:
            self.journal.close()

    def replica_count(self) -> int:
        if not self.job.workers.alone or self.job.device.type != "cpu":
            return 1
        return self.settings.replicas or min(torch.get_num_threads(), MOST)

    def go(self, asked: Asked) -> Progress:
        settings, progress = self.settings, self.progress
        started = time.perf_counter() - progress.seconds
        window = _Window()
        stream = self.stream()
        while progress.update < settings.updates and not self.given_up:
            chunk = list(islice(stream, settings.accumulate))
            progress.update += 1
            numbers = self.step(chunk)
            progress.seconds = time.perf_counter() - started
            window.add(numbers)
            if progress.update % settings.log_every == 0:
                self.say({"kind": "train", **window.summary(progress)})
            finished = progress.update == settings.updates
            stopping = self.total(float(asked.signal is not None)) > 0
            if stopping and asked.signal is None:  # another worker was asked
                asked.signal = signal.SIGTERM
            if finished or progress.update % settings.validate_every == 0:
                finished = self.validate() or finished
                self.save()
            elif stopping or (settings.save_every and progress.update % settings.save_every == 0):
                self.save()
            if finished or stopping:
                break
        progress.stopped_by = asked.signal
        return progress

    def stream(self) -> Iterator[Batch]:
        """Batches without end, from where we stand."""
        progress = self.progress
        while True:
            epoch = self.job.batches(progress.epoch)
            if len(epoch) == 0:
                raise TrainingError("there is no training data")
            while progress.batch < len(epoch):
                progress.batch += 1  # before it is learnt from: a checkpoint follows the whole update
                yield epoch[progress.batch - 1].to(self.job.device)
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def step(self, chunk: list[Batch]) -> "_Numbers":
        """One update from a few batches."""
        settings, update = self.settings, self.progress.update
        tokens = self.total(float(sum(batch.tokens for batch in chunk)))
        loss, likelihood = self.gradients(chunk, tokens)
        rate = learning_rate(settings, update)
        if not math.isfinite(loss):
            self.bad_loss(chunk, loss)
            self.progress.skipped += 1
            return _Numbers(loss, likelihood, tokens, rate, math.nan)
        longest = settings.clip or math.inf
        norm = float(whole(nn.utils.clip_grad_norm_(self.job.model.parameters(), longest)))
        if not math.isfinite(norm):
            self.bad_loss(chunk, norm)
            self.progress.skipped += 1
        else:
            for optimizer in self.optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = rate
                optimizer.step()
            self.move_average()
        self.progress.tokens += int(tokens)
        return _Numbers(loss, likelihood, tokens, rate, norm)

    def gradients(self, chunk: list[Batch], tokens: float) -> tuple[float, float]:
        """Loss and log-likelihood of a token, and the gradients in place. What does not fit memory is cut in two."""
        pieces = 1
        while True:
            self.draw()
            self.job.model.zero_grad(set_to_none=True)
            try:
                return self.attempt(chunk, pieces, tokens)
            except (RuntimeError, MemoryError) as error:
                if not _out_of_memory(error):
                    raise
                if not self.job.workers.alone:  # the others are in the middle of an exchange of gradients
                    fewer = "lower batch_tokens, and raise accumulate for as many an update"
                    raise TrainingError(
                        f"out of memory, and with several processes no batch is split: {fewer}"
                    ) from None
                pieces *= 2
                if pieces > max(len(batch.rows) for batch in chunk):
                    raise TrainingError("out of memory with a single pair; filter longer ones") from None
                self.say({"kind": "split", "update": self.progress.update, "pieces": pieces})

    def attempt(self, chunk: list[Batch], pieces: int, tokens: float) -> tuple[float, float]:
        workers = self.job.workers

        def learn(module: nn.Module, batches: Sequence[Batch]) -> Tensor:
            sums = torch.zeros(2, dtype=torch.float64, device=self.job.device)
            device = self.job.device.type
            half = torch.autocast(device, torch.bfloat16, enabled=self.settings.dtype == "bfloat16" and device != "cpu")
            module.train()
            for number, batch in enumerate(batches, 1):
                with workers.without_sync(module, last=number == len(batches)), half:
                    loss, likelihood = module(batch)
                    # workers' gradients are averaged; the loss is a mean over the tokens of all of them
                    (loss * (workers.count / tokens)).backward()
                sums += torch.stack((loss.detach(), likelihood))
            return sums

        parts = [part for batch in chunk for part in batch.split(pieces * len(self.replicas.modules))]
        loss_sum, likelihood_sum = workers.sum(self.replicas.learn(learn, parts)).tolist()
        return loss_sum / tokens, likelihood_sum / tokens

    def draw(self) -> None:
        """All that is random in this update, from (seed, update, worker)."""
        update, rank = self.progress.update, self.job.workers.rank
        torch.manual_seed(_number(self.job.seed, "update", update, rank))
        for number, strip in enumerate(self.replicas.strips):
            pattern = _number(self.job.seed, "strip", update // RENEW, rank, number)
            strip.begin(pattern, places=_number(self.job.seed, "places", update, rank, number))

    @torch.no_grad()
    def move_average(self) -> None:
        if self.average is None:
            return
        # a young average follows quickly: after n updates it looks back over about n / 10 of them
        decay = min(self.settings.moving_average, (1 + self.progress.update) / (10 + self.progress.update))
        weights = parameters(self.job.model)
        torch._foreach_lerp_(list(self.average.values()), [weights[name] for name in self.average], 1 - decay)

    def validate(self) -> bool:
        """Measure, remember the best, and say whether to stop."""
        progress = self.progress
        record: Record = {}
        workers = self.job.workers
        if workers.first or workers.sharded:  # a shard alone cannot be asked anything
            with self.averaged(), workers.gathered(self.module):
                self.job.model.eval()
                record = self.job.validate()
        score = self.total(float(record.get("score", 0.0)) if workers.first else 0.0)
        progress.score = score if math.isfinite(score) else None
        if math.isfinite(score) and (progress.best is None or score > progress.best):
            progress.best, progress.best_update, progress.waited = score, progress.update, 0
        else:
            progress.waited += 1
        self.say({"kind": "valid", "update": progress.update, "epoch": progress.epoch, **record})
        return self.given_up

    @property
    def given_up(self) -> bool:
        """Whether nothing has improved for as long as the recipe waits."""
        return self.settings.stop_on != "none" and self.progress.waited >= max(self.settings.patience, 1)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The model with its averaged weights, for as long as the block runs."""
        if self.average is None:
            yield
            return
        weights = parameters(self.job.model)
        own = {name: parameter.detach().clone() for name, parameter in weights.items()}
        with torch.no_grad():
            for name, parameter in weights.items():
                parameter.copy_(self.average[name])
            try:
                yield
            finally:
                for name, parameter in weights.items():
                    parameter.copy_(own[name])

    def save(self) -> None:
        workers = self.job.workers
        checkpoint.save(self.folder, self.progress, self.job.model, self.optimizers, self.average, writes=workers.first)
        if workers.first:
            checkpoint.prune(self.folder, self.settings.average, best=self.settings.average_best)
        self.progress.score = None
        workers.wait()

    def bad_loss(self, chunk: list[Batch], value: float) -> None:
        where = f"update {self.progress.update}, epoch {self.progress.epoch}"
        pairs = ", ".join(self.job.where(row) for batch in chunk for row in batch.rows.tolist()[:8])
        if self.settings.bad_loss == "stop":
            raise TrainingError(f"the loss is {value} in {where}, in a batch with the pairs {pairs} …")
        self.say({"kind": "skipped", "update": self.progress.update, "loss": str(value), "pairs": pairs})

    def total(self, number: float) -> float:
        return float(self.job.workers.sum(torch.tensor([number], dtype=torch.float64, device=self.job.device)))

    def say(self, record: Record) -> None:
        if self.journal is not None:
            self.journal.write(record)
            self.job.report(record)


@dataclass(frozen=True)
class _Numbers:
    loss: float
    likelihood: float
    tokens: float
    rate: float
    norm: float


class _Window:
    """The updates since the last line of the log."""

    def __init__(self) -> None:
        self.numbers: list[_Numbers] = []
        self.started = time.perf_counter()

    def add(self, numbers: _Numbers) -> None:
        self.numbers.append(numbers)

    def summary(self, progress: Progress) -> Record:
        seconds = time.perf_counter() - self.started
        learnt = [number for number in self.numbers if math.isfinite(number.loss)]  # the others were skipped
        tokens = sum(number.tokens for number in learnt)
        record = {
            "update": progress.update,
            "epoch": progress.epoch,
            "loss": sum(number.loss * number.tokens for number in learnt) / tokens if tokens else math.nan,
            "nll": -sum(number.likelihood * number.tokens for number in learnt) / tokens if tokens else math.nan,
            "rate": self.numbers[-1].rate,
            "norm": self.numbers[-1].norm,
            "tokens_per_second": tokens / seconds,
            "seconds": progress.seconds,
        }
        self.numbers, self.started = [], time.perf_counter()
        return record


def _out_of_memory(error: Exception) -> bool:
    said = str(error)
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in said


def _number(*parts: object) -> int:
    """A number of 63 bits that depends on all the parts, and looks random."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "little") >> 1
