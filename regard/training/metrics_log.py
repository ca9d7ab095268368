"""The metrics of a run: log.jsonl, and TensorBoard files if TensorBoard is installed."""

import json
import math
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import OutputError
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
    """One JSON object per line, flushed after each: nothing is lost when the run is killed.

    `sync` before a checkpoint: after a power cut, the log has all lines up to the checkpoint that the run resumes from.
    """

    def __init__(self, run: Path, update: int) -> None:
        """Continue after `update`: lines of later updates, which will be repeated, are dropped."""
        self._run, self._path = run, run / LOG_FILE
        kept = [record for record in read_log(run) if record["update"] <= update]
        write_text(self._path, "".join(json.dumps(record) + "\n" for record in kept))
        self._file = self._path.open("a", encoding="utf-8")
        with self._output_error():
            self._board = _tensorboard(run, update)

    def write(self, record: Record) -> None:
        # JSON has no NaN. ASCII only, so that no reader takes a character of a sample for a line break.
        finite = {name: None if _is_nonfinite(value) else value for name, value in record.items()}
        with self._output_error():
            self._file.write(json.dumps(finite) + "\n")
            self._file.flush()
            if self._board is not None:
                self._board.write(record)

    def sync(self) -> None:
        """Flush to disk, if the run is still there: a file that was removed can be written to all the same."""
        with self._output_error():
            os.fsync(self._file.fileno())
            there = os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        if not there:
            raise OutputError(
                f"{self._path}: was replaced while {self._run} was trained; only one process may write it"
            )

    @contextmanager
    def _output_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            gone = "" if self._run.is_dir() else "; was the run removed or renamed?"
            raise OutputError(f"{self._path}: cannot be written ({error.strerror}){gone}") from None

    def close(self) -> None:
        for file in (self._file, self._board):
            if file is not None:
                with suppress(OSError):  # only what could not be written is left, and its error is on its way
                    file.close()


def read_log(run: Path) -> list[Record]:
    """The records of a run's log. A line that was cut off, by a kill or a power cut, is ignored."""
    path = run / LOG_FILE
    records = []
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and type(record.get("update")) is int:
            records.append(record)
    return records


def _is_nonfinite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


class _TensorBoard:
    """A file of events, written at once: SummaryWriter has a thread, which prints a traceback when the disk is full."""

    def __init__(self, folder: Path, update: int) -> None:
        """Continue after `update`: TensorBoard hides the events of later updates."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(exist_ok=True)
        name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}.{os.getpid()}.{update}"
        self._file = (folder / name).open("ab")
        self._records, self._event = RecordWriter(self._file), Event
        self._add(file_version="brain.Event:2")
        self._add(step=update + 1, session_log=SessionLog(status=SessionLog.START))

    def write(self, record: Record) -> None:
        values = [
            {"tag": f"{record['kind']}/{name}", "simple_value": value}
            for name, value in record.items()
            if isinstance(value, float)
        ]
        self._add(step=record["update"], summary={"value": values})
        self._file.flush()

    def _add(self, **fields: Any) -> None:
        self._records.write(self._event(wall_time=time.time(), **fields).SerializeToString())

    def close(self) -> None:
        self._file.close()


def _tensorboard(run: Path, update: int) -> _TensorBoard | None:
    try:
        return _TensorBoard(run / "tensorboard", update)
    except ImportError:  # it comes with the extra `plot`
        return None
