"""How far a reader has to walk: the Python files of regard that one sentence and one training batch execute.

    python benchmarks/walks.py

What is counted: a file counts at the first call of one of its functions, in any thread, in the order of these first
calls. Code that runs while a module is imported does not count, nor do functions called from it, generated code such as
a dataclass's __init__, and C. A change of folder is counted between one first visit and the next.

The sentence: everything from the call of main() to its return, in a process of its own. Capabilities and compiled code
are cached before, as they are on every run but the first.
The batch: the second update of recipes/sample.toml, from the call that takes the batch to the end of the optimizer's
step.

Prints Markdown for ARCHITECTURE.md; --json prints the visits.
"""

import argparse
import json
import subprocess
import sys
import threading
from itertools import groupby, pairwise
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "regard"
SENTENCE = ["translate", "I ate an apple.", "--to", "de"]
UPDATE = 2
CHANGES = [f"data.dir={ROOT / 'recipes' / 'sample'}", "data.valid=[]", f"train.updates={UPDATE + 1}"]
TRAINING = ["train", str(ROOT / "recipes" / "sample.toml"), "run", "--device", "cpu"]
TRAINING += [word for change in CHANGES for word in ("--set", change)]
BATCH_START, BATCH_END = ("training/loop.py", "updates"), ("training/loop.py", "optimizer_step")
TARGETS = {"sentence": (35, 15), "batch": (12, None)}
"""Files and changes of folder, at most."""


class Visits:
    """A profile function that records the first visit of each file."""

    def __init__(self) -> None:
        self.paths: dict[str, str | None] = {}  # co_filename -> path inside the package
        self.visited: dict[str, None] = {}

    def path(self, frame: FrameType) -> str | None:
        name = frame.f_code.co_filename
        if name not in self.paths:
            inside = name.startswith(f"{PACKAGE}/")
            self.paths[name] = PurePosixPath(name).relative_to(PACKAGE).as_posix() if inside else None
        return self.paths[name]

    def while_importing(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_code.co_name == "<module>" and self.path(frame):
                return True
            frame = frame.f_back
        return False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        path = self.path(frame)
        if event == "call" and path and path not in self.visited and not self.while_importing(frame):
            self.visited[path] = None


class BatchVisits(Visits):
    """The same for one update of the training loop."""

    def __init__(self) -> None:
        super().__init__()
        self.updates: list[list[str]] = []
        self.inside = False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        spot = self.path(frame), frame.f_code.co_name
        if event == "call" and spot == BATCH_START:
            self.inside, self.visited = True, {}
        if self.inside:
            super().__call__(frame, event, argument)
        if event == "return" and spot == BATCH_END:
            self.inside = False
            self.updates.append(list(self.visited))


def record(what: str, result: Path) -> None:
    """In the child process: run regard under the profile function, write the visited files."""
    from regard.cli.main import main
    from regard.io import write_json

    visits = Visits() if what == "sentence" else BatchVisits()
    threading.setprofile(visits)
    sys.setprofile(visits)
    code = main(SENTENCE if what == "sentence" else TRAINING)
    sys.setprofile(None)
    threading.setprofile(None)  # type: ignore[arg-type]
    assert code == 0, f"regard failed with {code}"
    visited = visits.updates[UPDATE - 1] if isinstance(visits, BatchVisits) else list(visits.visited)
    write_json(result, visited)


def walk(what: str) -> list[str]:
    """The visited files, in order."""
    with TemporaryDirectory() as folder:
        if what == "sentence":
            subprocess.run([sys.executable, "-m", "regard", *SENTENCE], cwd=folder, capture_output=True, check=True)
        command = [sys.executable, str(Path(__file__).resolve()), "--record", what, "--result", "result.json"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        visited: list[str] = json.loads((Path(folder) / "result.json").read_text(encoding="utf-8"))
        return visited


def folder_of(path: str) -> str:
    parent = PurePosixPath(path).parent.as_posix()
    return "regard/" if parent == "." else f"{parent}/"


def folder_changes(visited: list[str]) -> int:
    return sum(folder_of(a) != folder_of(b) for a, b in pairwise(visited))


def markdown(what: str, visited: list[str]) -> str:
    title = f'`regard {" ".join(SENTENCE[:1])} "{SENTENCE[1]}" {" ".join(SENTENCE[2:])}`'
    title = title if what == "sentence" else "One training batch, from taking it to the optimizer's step"
    files, changes = TARGETS[what]
    limits = f"at most {files}" if changes is None else f"at most {files} and {changes}"
    lines = [f"{title}: {len(visited)} files, {folder_changes(visited)} changes of folder ({limits}).\n"]
    for number, (folder, paths) in enumerate(groupby(visited, folder_of), 1):
        lines.append(f"{number}. `{folder}` {' '.join(PurePosixPath(path).name for path in paths)}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print the visited files as JSON")
    parser.add_argument("--only", choices=TARGETS, help="only this walk")
    parser.add_argument("--record", choices=TARGETS, help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.record:
        record(options.record, options.result)
        return
    walks = {what: walk(what) for what in ([options.only] if options.only else TARGETS)}
    if options.json:
        print(json.dumps(walks, indent=2))
    else:
        print("\n\n".join(markdown(what, visited) for what, visited in walks.items()))


if __name__ == "__main__":
    main()
