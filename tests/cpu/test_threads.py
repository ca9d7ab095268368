"""How many threads there are, with torch and without."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.cpu import threads
from regard.errors import UsageError


def run(program: str, **env: str) -> str:
    """What a program prints in a process of its own, in which nobody has imported torch."""
    command = [sys.executable, "-c", program]
    clean = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(command, check=True, env=clean | env, timeout=60, capture_output=True, text=True)
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_threads_respect_affinity() -> None:
    allowed = os.sched_getaffinity(0)
    assert 1 <= threads.cores() <= len(allowed)
    program = "import os; from regard.cpu import threads; os.sched_setaffinity(0, {%d}); print(threads.cores())"
    assert run(program % min(allowed)) == "1\n"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_threads_respect_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    for quota in (1.9, 0.1):
        monkeypatch.setattr(threads, "_quota", lambda quota=quota: quota)
        assert threads.cores() == 1


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/\n", {}, float("inf")),
        ("0::/\n", {"cpu.max": "max 100000\n"}, float("inf")),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "400000 100000", "cpu.max": "max 1"}, 4.0),
        ("0::/host/path/not/here\n", {"cpu.max": "50000 100000"}, 0.5),
        ("4:cpu:/a\n0::/\n", {"cpu/a/cpu.cfs_quota_us": "-1\n", "cpu/a/cpu.cfs_period_us": "100000"}, float("inf")),
        ("4:cpu,cpuacct:/a\n", {f"cpu,cpuacct/cpu.cfs_{k}_us": v for k, v in [("quota", "6"), ("period", "2")]}, 3.0),
        ("1:name=systemd:/x\n", {"cpu.max": "garbage"}, float("inf")),
    ],
)
def test_quota(own: str, files: dict[str, str], expected: float, tmp_path: Path) -> None:
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert threads._quota(tmp_path / "cgroup", tmp_path / "own") == expected
    assert threads._quota(tmp_path / "cgroup", tmp_path / "missing") == float("inf")


def test_use_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    try:
        assert threads.set_threads(1) == torch.get_num_threads() == 1
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        assert threads.set_threads() == 1
        monkeypatch.delenv("OMP_NUM_THREADS")
        assert threads.set_threads() == threads.cores()
        with pytest.raises(UsageError, match=r"at least 1 .*, not 0"):
            threads.set_threads(0)
    finally:
        torch.set_num_threads(before)


def test_without_torch_the_number_is_our_own() -> None:
    start = "import sys; from regard.cpu import threads; "
    end = "; print(threads.current_threads(), 'torch' in sys.modules)"
    assert run(start + "threads.set_threads(3)" + end) == "3 False\n"
    assert run(start + "threads.set_threads()" + end, OMP_NUM_THREADS="5,2") == "5 False\n"
    assert run(start + "pass" + end, OMP_NUM_THREADS="nonsense") == f"{threads.cores()} False\n"


def test_torch_takes_the_number_over() -> None:
    program = "from regard.cpu import threads; threads.set_threads(3); import torch; threads.apply_to_torch(); "
    program += "print(torch.get_num_threads())"
    assert run(program) == "3\n"


def test_without_torch_a_crew_shares_the_threads() -> None:
    program = """
from regard.cpu import threads
from regard.cpu.threads import ThreadPool
threads.set_threads(4)
crew = ThreadPool(2)
print([done.result() for done in crew.run_all([threads.current_threads] * 2)], threads.current_threads())
"""
    assert run(program) == "[2, 2] 4\n"
