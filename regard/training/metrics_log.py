"""The metrics of a run: log.jsonl, and TensorBoard files if TensorBoard is installed."""

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.io import write_text

if TYPE_CHECKING:
    from regard.training.checkpoint import Progress

LOG_FILE = "log.jsonl"
Record = dict[str, Any]


@dataclass(frozen=True)
class UpdateMetrics:
    """The numbers of one update. Loss and log-likelihood are means per token."""

    loss: float
    log_likelihood: float
    tokens: float
    lr: float
    grad_norm: float


class MetricsWindow:
    """The updates since the last line of the log, averaged into one record."""

    def __init__(self) -> None:
        self._updates: list[UpdateMetrics] = []
        self._started = time.perf_counter()

    def add(self, metrics: UpdateMetrics) -> None:
        self._updates.append(metrics)

    def summary(self, progress: "Progress") -> Record:
        """`loss` is the loss being minimized, with label smoothing; `nll` is comparable with the validation loss."""
        seconds = time.perf_counter() - self._started
        trained = [update for update in self._updates if math.isfinite(update.loss)]  # the others were skipped
        tokens = sum(update.tokens for update in trained)
        record = {
            "update": progress.update,
            "epoch": progress.epoch,
            "loss": sum(update.loss * update.tokens for update in trained) / tokens if tokens else math.nan,
            "nll": -sum(update.log_likelihood * update.tokens for update in trained) / tokens if tokens else math.nan,
            "rate": self._updates[-1].lr,
            "norm": self._updates[-1].grad_norm,
            "tokens_per_second": tokens / seconds,
            "seconds": progress.seconds,
        }
        self._updates, self._started = [], time.perf_counter()
        return record


class MetricsLog:
    """One JSON object per line, flushed after each: nothing is lost when the run is killed."""

    def __init__(self, run: Path, update: int) -> None:
        """Continue after `update`: lines of later updates, which will be repeated, are dropped."""
        self._path = run / LOG_FILE
        kept = [record for record in read_log(run) if record.get("update", 0) <= update]
        write_text(self._path, "".join(json.dumps(record) + "\n" for record in kept))
        self._file = self._path.open("a", encoding="utf-8")
        self._board = _tensorboard(run, update)

    def write(self, record: Record) -> None:
        # JSON has no NaN. ASCII only, so that no reader takes a character of a sample for a line break.
        finite = {name: None if _is_nonfinite(value) else value for name, value in record.items()}
        self._file.write(json.dumps(finite) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in record.items():
                if isinstance(value, float):
                    self._board.add_scalar(f"{record['kind']}/{name}", value, record["update"])

    def close(self) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_log(run: Path) -> list[Record]:
    """The records of a run's log. A last line that was cut off by a kill is ignored."""
    try:
        lines = (run / LOG_FILE).read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    records = []
    for line in lines:
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


def _is_nonfinite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _tensorboard(run: Path, update: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:  # it comes with the extra `plot`
        return None
    return SummaryWriter(str(run / "tensorboard"), purge_step=update + 1)
