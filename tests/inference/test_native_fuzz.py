"""A short part of `python -m fuzz native`."""

import subprocess
import sys
from pathlib import Path

import pytest

from regard.cpu.child_environment import child_environment
from regard.inference.native import kernels


@pytest.mark.skipif(not kernels.available(), reason="no compiler, or a CPU without AVX2")
@pytest.mark.parametrize("seed", [1, 2])
def test_random_searches_end_with_a_result_or_an_error(seed: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fuzz.native", "--count", "160", "--seed", str(seed)],
        env=child_environment(),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "160 searches" in done.stdout
