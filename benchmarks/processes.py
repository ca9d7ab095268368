"""Does training with several processes follow that with one? The losses of 100 updates, side by side.

    python benchmarks/processes.py [--recipe FILE] [--updates 100] [--processes 2] [--set train.parallel=fsdp]

Both runs have the same global batches, and no dropout: each process would draw its own masks.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def losses(run: Path, recipe: Path, changes: list[str], processes: int) -> list[float]:
    """Train in a directory of its own: the loss of every update."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    program = [sys.executable, *(launcher if processes > 1 else []), "-m", "regard", "train", str(recipe), str(run)]
    settings = [word for change in changes for word in ("--set", change)]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([*program, *settings], check=True, cwd=ROOT, env=env, stderr=subprocess.DEVNULL)
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [record["loss"] for record in records if record["kind"] == "train"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", type=Path, default=ROOT / "recipes/sample.toml")
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="TABLE.KEY=VALUE")
    options = parser.parse_args()
    same = [f"train.updates={options.updates}", f"train.validate_every={options.updates}", "train.log_every=1"]
    same += ["model.dropout=0.0", *options.changes]
    with tempfile.TemporaryDirectory() as name:
        one, several = (
            losses(Path(name) / str(count), options.recipe.resolve(), same, count) for count in (1, options.processes)
        )
    assert len(one) == len(several) == options.updates
    apart = [abs(a - b) / a for a, b in zip(one, several, strict=True)]
    print(f"loss from {one[0]:.4f} to {one[-1]:.4f} with one process, to {several[-1]:.4f} with {options.processes}")
    halves = apart[: len(apart) // 2], apart[len(apart) // 2 :]
    print(f"largest relative difference in the first half: {max(halves[0]):.1e}, in the second: {max(halves[1]):.1e}")


if __name__ == "__main__":
    main()
