"""A fuzz that notices nothing would be worse than none: every way to go wrong is seen, and only the guilty blamed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXPECTED = {
    "abort": "signal SIGABRT",
    "working": "time-out, working",
    "waiting": "time-out, waiting",
    "memory": "toy: MemoryError in toy_kind.py",
    "bug": "toy: KeyError in toy_kind.py",
    "left": "left behind: ['.draft']",
}


@pytest.mark.skipif(sys.platform != "linux", reason="limits on memory, and its peak, are read from /proc")
def test_every_failure_is_seen() -> None:
    ways = ["well", *EXPECTED, "much", "special"]
    command = [sys.executable, str(Path(__file__).with_name("toy_kind.py")), *ways]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert list(found) == ways
    for way, one in found.items():
        wrong = EXPECTED.get(way, "")
        assert one["wrong"].startswith(wrong), one
        assert bool(one["wrong"]) == bool(wrong), one
    assert 40e6 < found["much"]["memory"] < 100e6
