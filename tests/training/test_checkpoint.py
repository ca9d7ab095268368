"""Checkpoints that are damaged, and ones that only cannot be read now."""

import shutil
import sys
from pathlib import Path

import pytest
import torch
from training_jobs import job, weights

from regard.errors import OutputError, TrainingError
from regard.training import checkpoint
from regard.training.loop import train

UNREADABLE = "/proc/self/mem"
"""A regular file whose first byte gives an I/O error."""
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="needs a file that gives an I/O error")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@needs_proc
@pytest.mark.parametrize("name", [checkpoint.WEIGHTS, checkpoint.MOMENTS, checkpoint.PROGRESS, checkpoint.MANIFEST])
def test_a_read_error_takes_no_checkpoint(tmp_path: Path, name: str) -> None:
    straight = job(tmp_path / "straight")
    train(straight)
    train(job(tmp_path / "run", updates=8))
    folder, file = tmp_path / "run" / "state", tmp_path / "run" / "state" / "00000008" / name
    before = files(folder)
    file.rename(tmp_path / "kept")
    file.symlink_to(UNREADABLE)
    with pytest.raises(TrainingError, match=r"00000008: cannot be read \(Input/output error\); nothing was"):
        train(job(tmp_path / "run"), resume=True)
    file.unlink()
    (tmp_path / "kept").rename(file)
    assert files(folder) == before
    resumed = job(tmp_path / "run")
    train(resumed, resume=True)
    assert torch.equal(weights(resumed), weights(straight))


@needs_proc
def test_nothing_is_removed_while_a_score_cannot_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It may be the best one."""
    train(job(tmp_path / "run", average=3))
    folder = tmp_path / "run" / "state"
    progress = folder / "00000004" / checkpoint.PROGRESS
    progress.unlink()
    progress.symlink_to(UNREADABLE)
    checkpoint.prune(folder, 1, best=False)
    assert len(checkpoint.checkpoints(folder)) == 3
    assert "no checkpoint is removed" in caplog.text
    with pytest.raises(TrainingError, match="cannot be read"):
        checkpoint.chosen(folder, 3, best=False)


def test_a_damaged_checkpoint_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    train(job(tmp_path / "run"))
    folder = tmp_path / "run" / "state"
    file = folder / "00000012" / checkpoint.MOMENTS
    for _ in range(2):  # the second time, another one has that name already
        file.write_bytes(file.read_bytes()[:-1])
        before = files(folder / "00000012")
        train(job(tmp_path / "run"), resume=True)
        assert files(folder / "damaged.00000012") == before
        assert checkpoint.newest(folder) == folder / "00000012"
        assert "00000012: skipped, moments.safetensors is damaged" in caplog.text
        assert "00000012: kept as damaged.00000012" in caplog.text


def test_only_the_main_worker_touches_the_folder(tmp_path: Path) -> None:
    made = job(tmp_path / "run")
    train(made)
    folder = tmp_path / "run" / "state"
    (folder / "00000012" / checkpoint.WEIGHTS).write_bytes(b"")
    (folder / ".00000016.0a1b2c3d").mkdir()
    before = files(folder)
    assert checkpoint.load(folder, made.model, (), None, writes=False).update == 8
    assert files(folder) == before
    assert (folder / ".00000016.0a1b2c3d").is_dir()


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"weights.safetensors": 1, "moments.safetensors": null, "progress.json": []}',
        '{"weights.safetensors": "", "moments.safetensors": "", "progress.json": "", "a\\u0000b": ""}',
        '{"weights.safetensors": "", "moments.safetensors": "", "progress.json": "", "../../x": ""}',
    ],
)
def test_a_manifest_that_says_nothing(tmp_path: Path, manifest: str) -> None:
    train(job(tmp_path / "run", updates=4))
    path = tmp_path / "run" / "state" / "00000004"
    (path / checkpoint.MANIFEST).write_text(manifest)
    assert checkpoint.damage(path) is not None


@pytest.mark.parametrize("progress", ["[]", "3", '{"score": "high"}', "[" * 100_000, "\ud800"])
def test_a_score_that_is_none_is_in_no_mean(tmp_path: Path, progress: str) -> None:
    train(job(tmp_path / "run", average=2))
    folder = tmp_path / "run" / "state"
    (folder / "00000008" / checkpoint.PROGRESS).write_bytes(progress.encode("utf-8", "surrogatepass"))
    assert folder / "00000008" not in checkpoint.chosen(folder, 3, best=True)


def test_a_run_that_was_removed_does_not_come_back_in_part(tmp_path: Path) -> None:
    made = job(tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    progress = checkpoint.Progress(update=1)
    with pytest.raises(OutputError, match="was the run removed or renamed"):
        checkpoint.save(tmp_path / "run" / "state", progress, made.model, (), None, writes=True)
    assert not (tmp_path / "run").exists()
