"""A short part of `make fuzz`: every case that once failed, and a few hundred new ones, always the same."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KINDS = ("directories", "tokenizers", "recipes", "documents")


@pytest.mark.skipif(sys.platform != "linux", reason="limits on memory, and its peak, are read from /proc")
def test_a_short_fuzz_finds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fuzz", *KINDS, "--part", "0.03", "--seed", "7", "--keep", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(KINDS)
