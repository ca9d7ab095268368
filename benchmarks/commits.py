"""Two checkouts of regard side by side: the same models and inputs, in turns, and whether the results are the same.

    git worktree add /tmp/old 63082bb
    python benchmarks/commits.py /tmp/old --source test.en --to de --model int8=DIR --model float32=DIR [--train]

Each checkout has a process of its own, which sleeps while the other works. Every model is run in bulk and one sentence
at a time, greedily and with a beam of 4; then lines go through `regard translate`, and with --train both checkouts
train on recipes/sample.toml. A ratio is the old time over the new: above 1 the new one is faster. The median of the
rounds is shown. Models must be in a format that both can read.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
SETTLED = 0.5
"""Seconds before a turn: OpenMP's threads spin for a while after their work."""
SINGLES, BULK = 48, 512
PROGRAM = """
import json, sys, time, warnings
warnings.filterwarnings("ignore")
import regard
model = regard.load(sys.argv[1])
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    job = json.loads(line)
    times, started = 0, time.perf_counter()
    while True:
        rows, beam = job["rows"], job["beam"]
        found = [model.write([row], beam=beam)[0] for row in rows] if job["single"] else model.write(rows, beam=beam)
        times += 1
        seconds = time.perf_counter() - started
        if seconds > 1:
            break
    print(json.dumps([seconds / times, found]), flush=True)
"""


class Checkout:
    """One checkout's process with one model."""

    def __init__(self, root: Path, model: Path) -> None:
        env = os.environ | {"PYTHONPATH": str(root)}
        command = [sys.executable, "-c", PROGRAM, str(model)]
        self.process = subprocess.Popen(
            command, cwd=root, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.answer()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a checkout ended with status {self.process.wait()}")
        return json.loads(line)

    def run(self, **job: Any) -> tuple[float, list[list[int]]]:
        assert self.process.stdin is not None
        time.sleep(SETTLED)
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        seconds, found = self.answer()
        return seconds, found

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("--model", action="append", default=[], metavar="NAME=DIR")
    parser.add_argument("--source", type=Path, required=True, help="Lines to translate.")
    parser.add_argument("--to", default="de")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--train", action="store_true")
    options = parser.parse_args()
    roots = {"old": options.old.resolve(), "new": HERE}
    lines = [line for line in options.source.read_text(encoding="utf-8").splitlines() if line.strip()]
    for named in options.model:
        name, _, folder = named.partition("=")
        compare_model(name, Path(folder).resolve(), roots, lines, options.to, options.rounds)
    compare_command(roots, options.source.resolve(), options.to, options.rounds)
    compare_start(roots, 2 * options.rounds)
    if options.train:
        compare_training(roots, options.rounds)


def show(what: str, seconds: dict[str, list[float]], same: str = "") -> None:
    old, new = (statistics.median(seconds[name]) for name in ("old", "new"))
    ratios = [a / b for a, b in zip(seconds["old"], seconds["new"], strict=True)]
    print(f"{what:40} old {old:8.3f} s  new {new:8.3f} s  old/new {statistics.median(ratios):.2f}  {same}", flush=True)


def compare_model(name: str, folder: Path, roots: dict[str, Path], lines: list[str], to: str, rounds: int) -> None:
    import regard

    model = regard.load(folder)
    if model.has_tokenizer:
        rows = [model.source_ids(line, to) for line in lines[:BULK]]  # type: ignore[attr-defined]
    else:
        rows = [[3 + (7 * i + 11 * j) % 31_000 for j in range(10 + i % 24)] + [2] for i in range(BULK // 8)]
    checkouts = {which: Checkout(root, folder) for which, root in roots.items()}
    for single in (False, True):
        for beam in (1, 4):
            seconds: dict[str, list[float]] = {"old": [], "new": []}
            found: dict[str, list[list[int]]] = {}
            some = rows[: SINGLES if len(rows) > BULK // 8 else SINGLES // 8] if single else rows
            for _ in range(rounds):
                for which, checkout in checkouts.items():
                    taken, found[which] = checkout.run(rows=some, beam=beam, single=single)
                    seconds[which].append(taken)
            same = "same tokens" if found["old"] == found["new"] else "DIFFERENT TOKENS"
            show(f"{name}, {'single' if single else 'bulk'}, beam {beam}", seconds, same)
    for checkout in checkouts.values():
        checkout.close()


def timed(root: Path, *arguments: str) -> tuple[float, str]:
    time.sleep(SETTLED)
    started = time.perf_counter()
    env = os.environ | {"PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "regard", *arguments]
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{root}: {' '.join(arguments)}: {done.stderr}")
    return time.perf_counter() - started, done.stdout


def compare_command(roots: dict[str, Path], source: Path, to: str, rounds: int) -> None:
    """The whole path of documents: segments, guard, retries."""
    seconds: dict[str, list[float]] = {"old": [], "new": []}
    found = {}
    for _ in range(rounds):
        for which, root in roots.items():
            taken, found[which] = timed(root, "translate", "--from", "en", "--to", to, "-i", str(source))
            seconds[which].append(taken)
    same = "same lines" if found["old"] == found["new"] else "DIFFERENT LINES"
    show("regard translate, a file", seconds, same)


def compare_start(roots: dict[str, Path], rounds: int) -> None:
    for what in (["--help"], ["translate", "I ate an apple.", "--to", "de"]):
        seconds: dict[str, list[float]] = {"old": [], "new": []}
        for _ in range(rounds):
            for which, root in roots.items():
                seconds[which].append(timed(root, *what)[0])
        show(f"regard {what[0]}, process start to end", seconds)


def compare_training(roots: dict[str, Path], rounds: int) -> None:
    """Seconds of 200 updates of the sample recipe, as the log of each run has them."""
    seconds: dict[str, list[float]] = {"old": [], "new": []}
    losses: dict[str, list[float]] = {}
    for _ in range(rounds):
        for which, root in roots.items():
            with tempfile.TemporaryDirectory() as folder:
                run = Path(folder) / "run"
                timed(root, "train", "recipes/sample.toml", str(run), "--set", "train.updates=200", "--device", "cpu")
                log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
                trained = [record for record in log if record["kind"] == "train"]
                seconds[which].append(sum(1 / record["tokens_per_second"] for record in trained[1:]))
                losses[which] = [record["loss"] for record in trained]
    same = "same losses" if losses["old"] == losses["new"] else "DIFFERENT LOSSES"
    show("training, seconds per token x updates", seconds, same)


if __name__ == "__main__":
    main()
