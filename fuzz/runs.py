"""python -m fuzz [KIND …] [--count N] [--seconds S] [--seed N] [--jobs N]

Kinds: directories, tokenizers, recipes, documents, native. Without one: all of them.

The kept cases of a kind run first, then new ones. Each kind prints one line: cases, cases per second, failures, the
slowest case, the largest memory. Then each distinct failure, made smaller, and kept if it is small. The exit code is 1
if there was any.

    python -m fuzz documents --count 100000 --jobs 2
    python -m fuzz --only tests/fuzz/cases/documents-utf-7.json
"""

import argparse
import hashlib
import itertools
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from random import Random

from fuzz.case import MAX_KEPT_BYTES, Case
from fuzz.minimise import minimised
from fuzz.regard_calls import silenced
from fuzz.workers import Kind, Outcome, distinct, outcomes

COUNTS = {"directories": 600, "tokenizers": 6_000, "recipes": 20_000, "documents": 12_000}
"""Cases of each kind without --count: about a minute each on one core."""
NATIVE = "native"
"""Random native models and searches: has a program of its own."""
CASES = Path(__file__).parent.parent / "tests" / "fuzz" / "cases"
MOST_SHOWN = 30
"""Distinct failures of a kind."""
MEMORY_FOLDER_BYTES = 1_000_000_000
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    parser.add_argument("--count", type=int, help="new cases of each kind")
    parser.add_argument("--part", type=float, default=1.0, help="run this part of the default count instead")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case of a kind after this")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--jobs", type=int, default=1, help="child processes at a time")
    parser.add_argument("--keep", type=Path, default=CASES, help="folder for the cases that fail")
    parser.add_argument("--only", type=Path, help="run this kept case, and nothing else")
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.kinds) - {*COUNTS, NATIVE}:
        parser.error(f"no such kind: {', '.join(sorted(unknown))}; known are {', '.join([*COUNTS, NATIVE])}")
    # none in this process before it forks; read when numpy and torch are imported
    os.environ |= dict.fromkeys(ONE_THREAD, "1") | {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the folder is removed
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=_memory_folder()))
    try:
        if arguments.only:
            return run_one(Case.from_json(arguments.only.read_text(encoding="utf-8")), folder)
        return max([run_kind(name, arguments, folder) for name in arguments.kinds or [*COUNTS, NATIVE]])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _memory_folder() -> Path | None:
    """Where files are in memory: fsync costs nothing there. In a container it may be too small."""
    folder = Path("/dev", "shm")
    return folder if folder.is_dir() and shutil.disk_usage(folder).free > MEMORY_FOLDER_BYTES else None


def run_kind(name: str, arguments: argparse.Namespace, folder: Path) -> int:
    if name == NATIVE:
        return run_native(arguments)
    kind = prepared(name, folder)
    files = sorted(CASES.glob(f"{name}-*.json"))
    kept = [Case.from_json(file.read_text(encoding="utf-8")) for file in files]
    count = int(COUNTS[name] * arguments.part) if arguments.count is None else arguments.count

    def make(number: int) -> Case:
        return kind.make(Random(f"{name} {arguments.seed} {number}"))

    summary = Summary(name)
    for outcome in outcomes(kind, kept.__getitem__, _batches(range(len(kept)), 50), folder / name, arguments.jobs):
        summary.add(outcome, files[outcome.number].name)
    numbers = range(arguments.first, arguments.first + count)
    batches = _batches(numbers, kind.cases_per_child, arguments.seconds)
    for outcome in outcomes(kind, make, batches, folder / name, arguments.jobs):
        summary.add(outcome, f"case {outcome.number}")
    summary.show()
    for symptom, found in itertools.islice(summary.failures.items(), MOST_SHOWN):
        report(kind, make, symptom, found, arguments.keep, folder / name)
    return 1 if summary.failures else 0


def _batches(numbers: range, size: int, seconds: float = float("inf")) -> Iterator[range]:
    end = time.monotonic() + seconds
    for start in range(numbers.start, numbers.stop, size):
        if time.monotonic() < end:
            yield range(start, min(start + size, numbers.stop))


def report(
    kind: Kind, make: Callable[[int], Case], symptom: str, found: Sequence[str], keep: Path, folder: Path
) -> None:
    """Show a failure, and keep its smallest case if it is new."""
    print(f"  {len(found):6,} x  {symptom}\n            in {', '.join(found[:5])}")
    new = [int(where.removeprefix("case ")) for where in found if where.startswith("case ")]
    if len(new) == len(found):
        case, alone = minimised(kind, make(min(new)), symptom, folder)
        note = "" if alone else "not alone, after the cases before it; "
        print(f"            {note}{_kept(case, symptom, keep)}", flush=True)


def _kept(case: Case, symptom: str, folder: Path) -> str:
    text = case.to_json()
    if len(text) > MAX_KEPT_BYTES:
        return f"too large to keep ({len(text):,} characters)"
    folder.mkdir(parents=True, exist_ok=True)
    words = re.sub(r"[^a-z0-9]+", "-", symptom.lower().encode("ascii", "replace").decode())[:50].strip("-")
    path = folder / f"{case.kind}-{words}-{hashlib.sha256(text.encode()).hexdigest()[:6]}.json"
    path.write_text(text, encoding="utf-8")
    return f"kept as {path.name}"


def prepared(name: str, folder: Path) -> Kind:
    """A kind with its samples, ready to fork."""
    from regard.cpu import capabilities, threads

    capabilities.prepare()
    threads.set_threads(1)
    kind: Kind = import_module(f"fuzz.{name}").KIND
    (folder / name / "samples").mkdir(parents=True)
    with silenced(folder / name / "printed"):
        kind.prepare(folder / name / "samples")
    return kind


def run_one(case: Case, folder: Path) -> int:
    kind = prepared(case.kind, folder)
    (outcome,) = outcomes(kind, lambda number: case, iter([range(1)]), folder / case.kind, 1)
    print(f"{outcome.wrong or 'well'}  {outcome.seconds:.2f} s  {outcome.memory / 1e6:.1f} MB")
    return 1 if outcome.wrong else 0


def run_native(arguments: argparse.Namespace) -> int:
    from fuzz import native

    given = ["--seed", str(arguments.seed), "--seconds", str(arguments.seconds)]
    if arguments.count is not None:
        given += ["--count", str(arguments.count)]
    return native.main(given)


class Summary:
    """What came of the cases of a kind."""

    def __init__(self, name: str) -> None:
        self.name, self.began, self.count = name, time.monotonic(), 0
        self.slowest, self.largest = (Outcome(0), ""), (Outcome(0), "")
        self.failures: dict[str, list[str]] = {}
        """Symptom -> where it was found."""

    def add(self, outcome: Outcome, where: str) -> None:
        self.count += 1
        if outcome.seconds > self.slowest[0].seconds:
            self.slowest = outcome, where
        if outcome.memory > self.largest[0].memory:
            self.largest = outcome, where
        if outcome.wrong:
            self.failures.setdefault(distinct(outcome.wrong), []).append(where)

    def show(self) -> None:
        rate, failures = self.count / max(time.monotonic() - self.began, 1e-9), sum(map(len, self.failures.values()))
        (slow, slow_place), (large, large_place) = self.slowest, self.largest
        print(
            f"{self.name:12} {self.count:9,} cases  {rate:6,.0f}/s  {failures:6,} failures  "
            f"slowest {slow.seconds:5.2f} s ({slow_place})  largest {large.memory / 1e6:6.1f} MB ({large_place})",
            flush=True,
        )
