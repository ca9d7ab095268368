"""Compiling the kernels: once per machine, tested before use, and never fatal."""

import ctypes
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
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


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def zeroed(content: bytes) -> bytes:
    """What a power cut can leave: the size is right, the content was not written."""
    return bytes(len(content))


def changed(content: bytes) -> bytes:
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@pytest.mark.parametrize("damage", [cut, zeroed, changed])
def test_a_torn_library_is_compiled_again_and_never_loaded(
    tiny: Path, folder: Path, damage: Callable[[bytes], bytes]
) -> None:
    assert new_process() is not None
    (path,) = folder.glob("*.so")
    content = path.read_bytes()
    path.unlink()  # the process that has loaded it keeps the old file
    path.write_bytes(damage(content))
    path.chmod(0o600)
    found = new_process()
    assert found is not None
    assert found.answer() == 42
    assert path.read_bytes() == content
    assert count(tiny) == 2


def test_another_versions_library_is_not_used(tiny: Path, folder: Path) -> None:
    assert new_process() is not None
    (path,) = folder.glob("*.so")
    path.rename(folder / "kernels-of-another-version.so")
    (folder / "kernels-of-another-version.so").rename(path)
    assert new_process() is not None
    assert count(tiny) == 1
    other = path.with_name("kernels-000000000000000000000000.so")
    path.rename(other)
    assert build._load(other) is None


# ---- planted libraries ----


def plant(path: Path, tmp_path: Path) -> None:
    """Put a library at `path` that creates a file when it is loaded."""
    (tmp_path / "planted.c").write_text(
        '#include <fcntl.h>\n__attribute__((constructor)) static void run(void) { open("%s", O_CREAT, 0600); }'
        % (tmp_path / "executed")
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, tmp_path / "planted.c"], check=True)
    content = path.read_bytes()
    path.write_bytes(content + build._hash(path, content))  # whoever plants one knows how


def library_path(folder: Path) -> Path:
    return folder / f"kernels-{build._key(build.shutil.which('cc') or '')}.so"


def test_the_cache_folder_of_another_user_is_not_used(
    tiny: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder.mkdir()
    plant(library_path(folder), tmp_path)
    monkeypatch.setattr("regard.cpu.machine.os.geteuid", lambda: folder.stat().st_uid + 4711)
    monkeypatch.setattr("regard.cpu.machine.ROOT", folder.stat().st_uid + 4712)  # the tests may run as root
    assert new_process() is None
    assert not (tmp_path / "executed").exists()
    assert "belongs to another user" in caplog.text
    assert "set XDG_CACHE_HOME to a folder of your own" in caplog.text


def test_a_library_that_others_could_write_is_compiled_again(tiny: Path, folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    plant(library_path(folder), tmp_path)
    library_path(folder).chmod(0o666)
    found = new_process()
    assert found is not None
    assert found.answer() == 42
    assert not (tmp_path / "executed").exists()
    assert folder.stat().st_mode & 0o777 == 0o755
    assert not library_path(folder).stat().st_mode & 0o022


def test_a_link_is_not_followed(tiny: Path, folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    plant(tmp_path / "elsewhere.so", tmp_path)
    before = (tmp_path / "elsewhere.so").read_bytes()
    library_path(folder).symlink_to(tmp_path / "elsewhere.so")
    assert new_process() is not None
    assert not (tmp_path / "executed").exists()
    assert not library_path(folder).is_symlink()
    assert (tmp_path / "elsewhere.so").read_bytes() == before


def test_with_a_lax_umask_the_library_is_still_compiled_once(tiny: Path, folder: Path) -> None:
    before = os.umask(0o002)
    try:
        assert new_process() is not None
        assert new_process() is not None
    finally:
        os.umask(before)
    assert count(tiny) == 1


# ---- children ----


def test_a_compiler_that_hangs_is_ended_with_all_that_it_started(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "COMMAND_SECONDS", 1.0)
    calls = fake_compiler(tmp_path, monkeypatch, f"sleep 1000 & echo $! > {tmp_path}/child; wait")
    assert new_process() is None
    child = int((tmp_path / "child").read_text())
    for _ in range(200):  # killed; then whoever adopts it has to notice
        if not alive(child):
            break
        time.sleep(0.05)
    assert not alive(child)
    assert new_process() is None
    assert count(calls) == 1


def alive(process: int) -> bool:
    try:
        return "(sleep) Z" not in Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_child_finds_regard_where_only_an_import_hook_does(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(build.__file__).parents[3]
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not Path(entry, "regard").is_dir()])
    program = "import regard, sys; sys.stdout.write(regard.__file__)"
    # -S: without the .pth files of an editable installation
    found = subprocess.run(
        [sys.executable, "-P", "-S", "-c", program], env=child_environment(), capture_output=True, text=True, cwd="/"
    )
    assert found.stdout == str(root / "regard" / "__init__.py"), found.stderr


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
