"""A run in the hands of two processes, and what a killed one leaves."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from training_jobs import job

from regard.data.sources import Files
from regard.errors import InputError, UsageError
from regard.training import checkpoint
from regard.training.loop import train
from regard.training.recipe import Recipe, load_recipe
from regard.training.run_directory import check_files, check_resumable, create_run, run_lock

ROOT = Path(__file__).parents[2]
HOLD = """
import sys, time
from pathlib import Path
from regard.training.run_directory import run_lock
with run_lock(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(600)
"""


def recipe(*overrides: str) -> Recipe:
    return load_recipe(ROOT / "recipes" / "sample.toml", [f"data.dir={ROOT / 'recipes/sample'}", *overrides])


@contextmanager
def held(run: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that has the run's lock."""
    command = [sys.executable, "-c", HOLD, str(run)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_run_in_use_names_its_process_and_a_kill_frees_it(tmp_path: Path) -> None:
    with held(tmp_path) as process:
        (tmp_path / ".model.0a1b2c3d").mkdir()
        for _ in range(2):
            with pytest.raises(UsageError, match=f": is in use by process {process.pid}; "), run_lock(tmp_path):
                pass
        assert (tmp_path / ".model.0a1b2c3d").is_dir(), "it is being written"
        process.kill()
        process.wait()
        with run_lock(tmp_path):
            assert not (tmp_path / ".model.0a1b2c3d").exists()


def test_a_failed_run_is_not_started_over_while_another_process_does(tmp_path: Path) -> None:
    run = tmp_path / "run"
    create_run(run, recipe(), print)
    (run / "failed.txt").write_text("why\n")
    (run / "tokenizer").mkdir()
    with held(run), pytest.raises(UsageError, match="is in use"):
        create_run(run, recipe(), print)
    assert (run / "tokenizer").is_dir()
    create_run(run, recipe(), print)
    assert not (run / "tokenizer").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pipe", "pipe: is not a regular file"),
        ("/dev/zero", "/dev/zero: is not a regular file"),
        (".", "is not a regular file"),
        ("nowhere", "nowhere: no such file"),
        ("a\0b", "cannot be read"),
        ("x" * 300, "cannot be read"),
    ],
)
def test_data_that_cannot_be_read_twice(tmp_path: Path, name: str, message: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    made = recipe(f"data.dir={tmp_path}")
    for part in ("train", "valid"):
        data = replace(made.data, **{"train": (), "valid": (), part: (Files(tsv=name),)})  # type: ignore[arg-type]
        with pytest.raises(InputError) as raised:
            check_files(replace(made, data=data))
        assert message in str(raised.value)


def test_drafts_go_and_everything_else_stays(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    drafts = [".recipe.json.00000000", ".model.0a1b2c3d", "cache/.0123456789abcdef.ffffffff"]
    others = [".notes.txt", ".git", "model", "cache/0123456789abcdef"]
    for name in drafts + others:
        (tmp_path / name).touch()
    with run_lock(tmp_path):
        assert not [name for name in drafts if (tmp_path / name).exists()]
        assert all((tmp_path / name).exists() for name in others)


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "target")
    with pytest.raises(Exception, match=r"\.lock: cannot be written"), run_lock(tmp_path / "run"):
        pass
    assert (tmp_path / "target").read_text() == "precious"


@pytest.mark.parametrize("damaged", ["{", "", '{"update": 99999999}', None])
def test_a_damaged_progress_does_not_stop_the_resumption(tmp_path: Path, damaged: str | None) -> None:
    run = tmp_path / "run"
    train(job(run, updates=8))
    progress = run / "state" / "00000008" / checkpoint.PROGRESS
    progress.unlink()
    if damaged is not None:
        progress.write_text(damaged)
    check_resumable(run, recipe("train.updates=8"))
    with pytest.raises(UsageError, match="has 4 updates already"):
        check_resumable(run, recipe("train.updates=3", "train.warmup=1"))
    assert train(job(run, updates=8), resume=True).update == 8
