"""Training as its user has it: the real program, really killed, really two processes."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from journeys_types import Run

from regard.training import checkpoint
from regard.training.metrics_log import read_log

ROOT = Path(__file__).parent.parent.parent
RECIPE = ROOT / "recipes" / "sample.toml"
SMALL = ["data.dir=" + str(ROOT / "recipes/sample"), "model.width=16", "model.inner=32", "train.batch_tokens=256"]
BRIEF = [
    *SMALL,
    "train.updates=24",
    "train.warmup=4",
    "train.validate_every=24",
    "train.save_every=3",
    "train.log_every=1",
]


IN_TERMINAL = """
import os, signal, sys
os.login_tty(int(sys.argv[2]))
signal.signal(signal.SIGHUP, signal.SIG_DFL if sys.argv[1] == "True" else signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, "-m", "regard", "train", *sys.argv[3:]])
"""


def start(*arguments: str | Path, processes: int = 1) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "regard", "train"]
    if processes > 1:
        program = [
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc_per_node={processes}",
            "-m",
            "regard",
            "train",
        ]
        command = [sys.executable, *program]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen([*command, *map(str, arguments)], env=env, cwd=ROOT, text=True, **pipes)  # type: ignore[call-overload, no-any-return]


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    try:
        said, _ = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        said = "it hangs:\n" + process.communicate()[0]
    assert process.returncode == code, said
    return said


def settings(*overrides: str) -> list[str]:
    return [word for override in overrides for word in ("--set", override)]


def fingerprint(run: Path) -> str:
    return hashlib.sha256((run / "model" / "model.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A brief run that nobody disturbed."""
    run = tmp_path_factory.mktemp("runs") / "straight"
    said = finish(start(RECIPE, run, *settings(*BRIEF)))
    assert "2,000 pairs read" in said
    return run


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    for _ in range(1200):
        if path.exists() or process.poll() is not None:
            break
        time.sleep(0.05)
    assert path.exists(), process.communicate()[0]


def test_the_recipe_of_the_sample(regard: Run, tmp_path: Path) -> None:
    """The one-minute recipe, as it is: it learns the small grammar, word order and endings and all."""
    directory = f"data.dir={ROOT / 'recipes/sample'}"
    regard("train", RECIPE, "run", "--set", directory)
    best = max(record["bleu"] for record in read_log(tmp_path / "run") if record["kind"] == "valid")
    assert best > 95
    said = regard("translate", "On Monday the girl looked for a small apple.", "-m", "run/model").stdout
    assert said == "Am Montag hat das Mädchen einen kleinen Apfel gesucht.\n"
    (found,) = json.loads(
        regard("translate", "The dog sees a red house.", "-m", "run/model", "--as-is", "--json", "--align").stdout
    )["translations"]
    assert found["text"] == "Der Hund sieht ein rotes Haus."
    assert len(found["log_probs"]) == len(found["pieces"]) + 1
    assert len(found["alignment"]) == 6
    listed = regard("translate", "The dog sees a red house.", "-m", "run/model", "--n-best", "3").stdout.splitlines()
    assert [line.split(" ||| ")[0] for line in listed] == ["0", "0", "0"]
    assert "curves.png" in regard("plot", "run").stdout
    assert (tmp_path / "run" / "curves.png").stat().st_size > 10_000
    assert len(regard("average", "run", "mean", "--last", "2").stdout.splitlines()) == 2
    assert "seq2seq" in regard("info", "mean").stdout


def test_the_same_recipe_gives_the_same_weights(straight: Path, tmp_path: Path) -> None:
    finish(start(RECIPE, tmp_path / "again", *settings(*BRIEF)))
    assert fingerprint(tmp_path / "again") == fingerprint(straight)


def test_killed_at_any_instant_and_resumed(straight: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start(RECIPE, run, *settings(*BRIEF))
    wait_for(run / "state" / "00000006", process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (run / "model").exists()
    process = start("--resume", run)
    wait_for(run / "state" / "00000015", process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    finish(start("--resume", run))
    assert fingerprint(run) == fingerprint(straight)


def test_terminated_and_resumed(straight: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start(RECIPE, run, *settings(*BRIEF))
    wait_for(run / "state" / "00000003", process)
    process.send_signal(signal.SIGTERM)
    assert "--resume" in finish(process, code=143)
    finish(start("--resume", run))
    assert fingerprint(run) == fingerprint(straight)


def test_a_run_in_use_on_a_full_disk_and_removed(regard: Run, tmp_path: Path) -> None:
    """Each ends in one clear line; what was saved before is there, and what was removed does not come back."""
    resource = pytest.importorskip("resource")
    run, endless = tmp_path / "run", settings(*SMALL, "train.updates=100000", "train.validate_every=10")
    process = start(RECIPE, run, *endless)
    wait_for(run / "state" / "00000010", process)
    said = regard("train", "--resume", run, code=2).stderr
    assert said == f"regard: {run}: is in use by process {process.pid}; wait for it, or stop it first\n"
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (50_000, 50_000))  # a checkpoint has more, the log less
    *_, said = finish(process, code=6).splitlines()
    assert "weights.safetensors: cannot be written (" in said
    assert "File too large" in said
    assert not list((run / "state").glob(".*"))
    last = checkpoint.checkpoints(run / "state")[-1]
    assert checkpoint.damage(last) is None
    process = start("--resume", run)
    wait_for(last.with_name(f"{int(last.name) + 10:08}"), process)
    shutil.rmtree(run)
    lines = finish(process, code=6).splitlines()
    assert "was the run removed or renamed?" in lines[-1]
    assert not [line for line in lines if "Traceback" in line]
    assert not run.exists()


@pytest.mark.parametrize("hangup", [True, False])
def test_a_terminal_that_is_closed(tmp_path: Path, hangup: bool) -> None:
    """SIGHUP stops the run as SIGTERM does. A run that does not get it, under nohup, goes on to its end."""
    run = tmp_path / "run"
    brief = settings(*SMALL, "train.updates=120", "train.warmup=4", "train.validate_every=10")
    ours, theirs = os.openpty()
    command = [sys.executable, "-c", IN_TERMINAL, str(hangup), str(theirs), *map(str, (RECIPE, run, *brief))]
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, pass_fds=[theirs])
    os.close(theirs)
    os.set_blocking(ours, False)
    while process.poll() is None and not (run / "state" / "00000010").exists():
        with suppress(OSError):  # nothing to read
            os.read(ours, 1 << 16)
        time.sleep(0.05)
    os.close(ours)
    assert process.wait(timeout=120) == (129 if hangup else 0)
    assert (run / "model").exists() != hangup
    progress = checkpoint.read_progress(checkpoint.checkpoints(run / "state")[-1])
    assert (progress.update < 120) == hangup


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_processes_follow_one(tmp_path: Path, parallel: str) -> None:
    """Without dropout (each process has its own masks) the same batches give the same curve.

    The width is one that has compiled passes, which look at the weights where they lie when the run is validated.
    """
    same = [*BRIEF, "model.width=32", "model.dropout=0.0", "train.updates=16", "train.validate_every=8"]
    finish(start(RECIPE, tmp_path / "one", *settings(*same)))
    more = settings(*same, f"train.parallel={parallel}")
    finish(start(RECIPE, tmp_path / "two", *more, processes=2))
    curves = [
        [record["loss"] for record in read_log(tmp_path / name) if record["kind"] == "train"] for name in ("one", "two")
    ]
    assert len(curves[0]) == 16
    assert curves[1] == pytest.approx(curves[0], rel=1e-3)


def test_a_lost_worker_stops_all_and_the_run_goes_on(tmp_path: Path) -> None:
    import psutil

    run, straight = tmp_path / "run", tmp_path / "straight"
    finish(start(RECIPE, straight, *settings(*BRIEF), processes=2))
    process = start(RECIPE, run, *settings(*BRIEF), processes=2)
    wait_for(run / "state" / "00000006", process)
    workers = psutil.Process(process.pid).children()
    workers[-1].kill()
    process.communicate(timeout=120)
    assert process.returncode != 0
    assert not any(worker.is_running() and worker.status() != "zombie" for worker in workers)
    finish(start("--resume", run, processes=2))
    assert fingerprint(run) == fingerprint(straight)


def test_a_run_that_failed_before_its_first_checkpoint_is_started_over(regard: Run, tmp_path: Path) -> None:
    """The name is free again for a corrected recipe, and the run is as if nothing had happened before."""
    brief = settings(*BRIEF[:4], "train.updates=2", "train.validate_every=2", "train.warmup=1")
    failed = regard("train", RECIPE, "run", *brief, "--set", "data.longest_line=10", code=4)
    assert "longest_line" in failed.stderr
    assert "longest_line" in (tmp_path / "run" / "failed.txt").read_text()
    assert "start over: regard train RECIPE run" in regard("train", "--resume", "run", code=2).stderr
    again = regard("train", RECIPE, "run", *brief, "--set", "tokenizer.vocab=400")
    assert "failed before its first checkpoint; starting over" in again.stderr
    assert not (tmp_path / "run" / "failed.txt").exists()
    regard("train", RECIPE, "fresh", *brief, "--set", "tokenizer.vocab=400")
    assert fingerprint(tmp_path / "run") == fingerprint(tmp_path / "fresh")
    assert "already exists" in regard("train", RECIPE, "run", *brief, code=2).stderr


def test_a_finished_run_is_extended(regard: Run, tmp_path: Path) -> None:
    """From 6 updates to 10, and the same weights as 10 in one go: this schedule does not depend on their number."""
    brief = settings(*SMALL, "train.warmup=2", "train.validate_every=2", "train.average=1")
    regard("train", RECIPE, "long", *brief, *settings("train.updates=10"))
    regard("train", RECIPE, "run", *brief, *settings("train.updates=6"))
    before = fingerprint(tmp_path / "run")
    assert "extend it with --set train.updates" in regard("train", "--resume", "run", code=2).stderr
    regard("train", "--resume", "run", "--set", "train.updates=10")
    assert before != fingerprint(tmp_path / "run") == fingerprint(tmp_path / "long")
    assert json.loads((tmp_path / "run" / "recipe.json").read_text())["train"]["updates"] == 10
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == sorted(
        path.name for path in (tmp_path / "long").iterdir()
    )


def test_the_bar_moves_with_every_update_and_losses_are_comparable(
    regard: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    monkeypatch.setattr("regard.cli.output.Bar.advance", lambda bar, done: seen.append(done))
    brief = settings(*SMALL, "train.updates=5", "train.warmup=1", "train.log_every=5", "train.validate_every=5")
    shown = regard("train", RECIPE, "run", *brief).stderr
    assert seen == [1, 2, 3, 4, 5]
    assert re.search(r"5/5  nll \d", shown), "not the loss with label smoothing beside one without"
    assert re.search(r"validation nll \d", shown)


def test_a_vocabulary_that_the_text_cannot_fill(regard: Run) -> None:
    brief = settings(*SMALL, "train.updates=1", "train.warmup=1", "train.validate_every=1")
    assert (
        "vocab = 400,000 is too large"
        in regard("train", RECIPE, "run", *brief, "--set", "tokenizer.vocab=400000").stderr
    )
    assert "too large" not in regard("train", RECIPE, "other", *brief).stderr


def test_a_warmup_that_does_not_end(regard: Run) -> None:
    brief = settings(*SMALL, "train.updates=1", "train.validate_every=1")
    warning = "warning: [train] warmup = 2 is more than updates = 1: the learning rate never reaches lr = 0.005"
    assert warning in regard("train", RECIPE, "run", *brief, "--set", "train.warmup=2").stderr
    assert "warmup" not in regard("train", RECIPE, "other", *brief, "--set", "train.warmup=1").stderr


def test_what_cannot_be(regard: Run, straight: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for code, said, *arguments in (
        (2, "already exists", RECIPE, "there"),
        (2, "RECIPE", "x"),
        (2, "seed: cannot change when a run is resumed", "--resume", straight, "--set", "seed=2"),
        (2, "has 24 updates already", "--resume", straight, "--set", "train.updates=20"),
        (7, "is not a training run", "--resume", "there"),
        (3, "did you mean 'updates'", RECIPE, "x", "--set", "train.update=3"),
        (3, "did you mean 'transformer-tiny'", RECIPE, "x", "--set", "model.preset=transformer-tin"),
        (2, "table.key=value", RECIPE, "x", "--set", "train"),
        (3, "'clip' must be a finite number", RECIPE, "x", "--set", "train.clip=inf"),
        (3, "seed", RECIPE, "x", "--set", "seed=99999999999999999999999"),
        (3, "needs data to validate on", RECIPE, "x", "--set", "train.stop_on=bleu", "--set", "data.valid=[]"),
        (2, "is finished", "--resume", straight),
        (4, "train.en", RECIPE, "y", "--set", "data.dir=nowhere"),
    ):
        done = regard("train", *arguments, code=code)
        assert said in done.stderr
        assert len(done.stderr.splitlines()) <= 2
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "y").exists(), "so that the mended command can be given again"
