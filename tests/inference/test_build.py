"""Compiling the kernels: once per machine, tested before use, and never fatal."""

import ctypes
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cpu.child_environment import child_environment
from regard.inference.native import build, kernels

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no compiler, or a CPU without AVX2")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setattr(build.machine, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def tiny(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library that compiles at once and passes its self-test. -> the compiler's log, a line for each call"""
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "tiny.c").write_text("int answer(void) { return 42; }")
    monkeypatch.setattr(build, "FOLDER", tmp_path / "c")
    monkeypatch.setattr(build, "SELFTEST", "pass")
    return fake_compiler(tmp_path, monkeypatch, f'exec {build.shutil.which("cc")} "$@"')


def fake_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> Path:
    """Put a `cc` first on the PATH that logs its calls and runs the command."""
    calls, program = tmp_path / "calls", tmp_path / "bin" / "cc"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\necho called >> {calls}\n{command}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    calls.write_text("")
    return calls


def new_process() -> ctypes.CDLL | None:
    """What a new process would get."""
    return build.library.__wrapped__()


def count(calls: Path) -> int:
    return len(calls.read_text().splitlines())


def several_processes(tmp_path: Path, processes: int) -> list[str]:
    """Start processes at once that want the library of `tiny`; what each one says."""
    program = (
        "import sys; from pathlib import Path; from regard.inference.native import build\n"
        "build.FOLDER, build.SELFTEST = Path(sys.argv[1], 'c'), 'pass'\n"
        "build.machine.cache_folder = lambda: Path(sys.argv[1], 'cache')\n"
        "found = build.library()\n"
        "print(None if found is None else found.answer())"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=child_environment()) for _ in range(processes)
    ]
    return [process.communicate()[0].strip() for process in started]


def test_processes_that_start_together_compile_once(tiny: Path, tmp_path: Path) -> None:
    assert several_processes(tmp_path, 3) == ["42", "42", "42"]
    assert count(tiny) == 1


def test_processes_that_start_together_fail_once(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake_compiler(tmp_path, monkeypatch, "sleep 0.5; exit 1")
    assert several_processes(tmp_path, 3) == ["None", "None", "None"]
    assert count(calls) == 1


def test_a_failure_is_kept_for_an_hour(
    tiny: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = fake_compiler(tmp_path, monkeypatch, "echo 'cc: broken' >&2; exit 1")
    with caplog.at_level(logging.INFO):
        assert new_process() is None
        assert new_process() is None
    assert count(calls) == 1
    (failure,) = folder.glob("*.failed")
    told = "inference runs without compiled kernels: the compiler failed with status 1: cc: broken"
    assert [message for message in caplog.messages if "without" in message] == [
        told,
        f"{told} (delete {failure} to try again)",
    ]
    now = build.time.time()
    monkeypatch.setattr(build.time, "time", lambda: now + build.FAILURE_SECONDS + 1)
    assert new_process() is None
    assert count(calls) == 2


def test_after_a_failure_is_deleted_the_library_is_compiled(
    tiny: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "SELFTEST", "raise SystemExit('no AVX2')")
    assert new_process() is None
    calls = count(tiny)
    (failure,) = folder.glob("*.failed")
    assert "the self-test failed with status 1: no AVX2" in failure.read_text()
    monkeypatch.setattr(build, "SELFTEST", "pass")
    assert new_process() is None
    assert count(tiny) == calls
    failure.unlink()
    found = new_process()
    assert found is not None
    assert found.answer() == 42


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"reason": "x", "until": "y"}'])
def test_a_damaged_failure_file_is_ignored(tiny: Path, folder: Path, content: str) -> None:
    assert new_process() is not None
    (path,) = folder.glob("*.so")
    path.with_suffix(".failed").write_text(content)
    path.unlink()
    assert new_process() is not None
    assert not path.with_suffix(".failed").exists()


def test_the_self_test_finds_modules_where_this_process_does(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "found_through_sys_path.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.setattr(build, "SELFTEST", "import found_through_sys_path")
    assert new_process() is not None


def test_a_damaged_library_is_compiled_again(tiny: Path, folder: Path) -> None:
    folder.mkdir()
    (folder / f"kernels-{build._key(build.shutil.which('cc') or '')}.so").write_bytes(b"")
    found = new_process()
    assert found is not None
    assert found.answer() == 42


def test_a_failure_leaves_no_library(tiny: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "SELFTEST", "raise SystemExit(1)")
    assert new_process() is None
    assert sorted(path.suffix for path in folder.iterdir()) == [".failed", ".lock"]


def test_without_a_compiler_there_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    assert new_process() is None


def test_source_that_does_not_compile_gives_no_library(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "linear.c").write_text("this is not C")
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    assert new_process() is None
    assert not [*folder.glob("*.so")]


@pytest.mark.parametrize("wrong", ["set1_epi8(INPUT_MAX)", "raise(4)"], ids=["wrong", "dies"])
def test_a_library_that_gives_wrong_results_or_dies_is_not_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    for path in build.FOLDER.glob("*.[ch]"):
        source = path.read_text()
        if wrong == "raise(4)":  # SIGILL, as a CPU that cannot run its own instructions would
            source = source.replace("#include <stdlib.h>", "#include <signal.h>\n#include <stdlib.h>")
            source = source.replace("    parallel_for(attention_part", "    raise(4);\n    parallel_for(attention_part")
        else:
            source = source.replace(wrong, "set1_epi8(INPUT_MAX - 1)")
        (tmp_path / path.name).write_text(source)
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    assert new_process() is None


def test_a_cpu_that_lies_about_avx512_uses_avx2(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in build.FOLDER.glob("*.[ch]"):
        source = path.read_text()
        source = source.replace(
            "vnni && MAX_ISA_LEVEL >= ISA_AVX512", "MAX_ISA_LEVEL >= ISA_AVX512"
        )  # as if it said that it has all
        (tmp_path / path.name).write_text(source)
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    found = new_process()
    assert found is not None
    assert found.isa_level() == kernels.isa_level()


def test_the_library_is_compiled_once(folder: Path) -> None:
    assert isinstance(new_process(), ctypes.CDLL)
    (made,) = folder.glob("*.so")
    before = made.stat()
    assert isinstance(new_process(), ctypes.CDLL)
    assert made.stat() == before
