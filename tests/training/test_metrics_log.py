"""log.jsonl after a kill, on a full disk, in a run that was removed; and TensorBoard's files."""

import json
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from regard.errors import OutputError
from regard.training.metrics_log import MetricsLog, read_log


@pytest.mark.parametrize(
    "torn",
    [b'{"kind": "train", "upd', b"\0" * 50, b"7", b"[]", b'{"update": "9"}', b'{"kind": "valid"}', b"[" * 100_000],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_torn_line_is_dropped_and_the_next_one_is_whole(tmp_path: Path, torn: bytes, place: int) -> None:
    lines = [b'{"kind": "train", "update": 1}', b'{"kind": "train", "update": 2}']
    lines.insert(place, torn)
    (tmp_path / "log.jsonl").write_bytes(b"\n".join(lines))
    log = MetricsLog(tmp_path, 2)
    log.write({"kind": "train", "update": 3})
    log.sync()
    log.close()
    written = [json.loads(line)["update"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert written == [1, 2, 3] == [record["update"] for record in read_log(tmp_path)]


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_line_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    """And the half of it that was written is gone after the next start."""
    log = MetricsLog(tmp_path, 0)
    log.write({"kind": "train", "update": 1})
    whole = (tmp_path / "log.jsonl").read_bytes()
    message = r"log\.jsonl: cannot be written \(File too large\)$"
    with no_file_longer_than(len(whole) + 9):
        with pytest.raises(OutputError, match=message):
            log.write({"kind": "train", "update": 2})
        log.close()
    assert (tmp_path / "log.jsonl").read_bytes() == whole + b'{"kind": '
    MetricsLog(tmp_path, 2).close()
    assert (tmp_path / "log.jsonl").read_bytes() == whole


def test_a_log_that_is_a_device_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").symlink_to(os.devnull)
    assert read_log(tmp_path) == []


@pytest.mark.parametrize("gone", ["removed", "renamed", "replaced"])
def test_a_run_that_is_gone_is_noticed(tmp_path: Path, gone: str) -> None:
    run = tmp_path / "run"
    run.mkdir()
    log = MetricsLog(run, 0)
    log.write({"kind": "train", "update": 1})
    log.sync()
    if gone == "replaced":
        (run / "log.jsonl").unlink()
        (run / "log.jsonl").touch()
    elif gone == "removed":
        shutil.rmtree(run)
    else:
        run.rename(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="replaced while" if gone == "replaced" else "was the run removed or renamed"):
        log.sync()
    log.close()


def test_tensorboard_reads_the_metrics(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for update, loss in ((0, 3.5), (1, 2.5)):
        log = MetricsLog(tmp_path, update)
        log.write({"kind": "train", "update": update + 1, "loss": loss, "norm": math.nan})
        log.close()
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("train/loss")] == [(1, 3.5), (2, 2.5)]
