"""Compiles the kernels into a library that has passed its self-test on this machine, or none.

This happens once per machine: the library is kept in the user's cache folder. A child process runs every kernel and
checks the results before the library gets its final name, so a CPU that advertises instructions it cannot run kills
the child and not this process. A failure is kept for an hour, so that not every process compiles again; to retry
earlier, delete the `kernels-*.failed` file.

A library is code, so it is loaded only if nobody else can have put it there, and only if it is whole: it ends with a
hash of itself. One that a crash or a full disk has cut off would otherwise kill every later process.
"""

import ctypes
import functools
import hashlib
import json
import logging
import os
import platform
import shutil
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from regard.cpu import machine
from regard.cpu.child_environment import child_environment
from regard.errors import OutputError
from regard.io import atomic_file, write_json

log = logging.getLogger(__name__)

FOLDER = Path(__file__).parent / "c"
FLAGS = ("-O3", "-std=gnu11", "-shared", "-fPIC")
ISA_LEVELS = (2, 1)
"""What is tried: AVX-512 if the CPU says it has it, then AVX2 alone."""
COMMAND_SECONDS = 60.0
LOCK_SECONDS = 4 * COMMAND_SECONDS
FAILURE_SECONDS = 3600.0
MAX_LIBRARY_BYTES = 64 << 20
HASH_BYTES = 32
SELFTEST = "import sys; from regard.inference.native.selftest import main; main(sys.argv[1])"


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled kernels; None without a compiler, on a CPU without AVX2, or if the self-test fails."""
    if platform.machine().lower() not in ("x86_64", "amd64") or sys.platform == "win32":
        return None
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        log.info("no C compiler: inference runs without compiled kernels")
        return None
    path = machine.cache_folder() / f"kernels-{_key(compiler)}.so"
    try:
        machine.make_private_folder(path.parent)
        return _load(path) or _build(compiler, path)
    except machine.ForeignFolder as error:
        log.warning("inference runs without compiled kernels, which is slow: %s", _reason(error))
        return None
    except (OSError, OutputError, subprocess.SubprocessError) as error:
        log.info("inference runs without compiled kernels: %s", _reason(error))
        return None


def _key(compiler: str) -> str:
    """Changes with the source, the compiler and the CPU."""
    sources = [path.read_bytes() for path in sorted(FOLDER.glob("*.[ch]"))]
    parts = (*sources, repr(FLAGS).encode(), compiler.encode(), machine.cpu_model().encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]


def _load(path: Path) -> ctypes.CDLL | None:
    """The library, if it is there, is this user's and is complete."""
    try:
        # not through a link, and without waiting for a pipe's other end
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        log.info("compiling the kernels again: %s", error)
        return None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        regular = stat.S_ISREG(status.st_mode) and status.st_size <= MAX_LIBRARY_BYTES
        content = file.read() if regular and machine.only_ours(status) else b""
    if content[-HASH_BYTES:] != _hash(path, content[:-HASH_BYTES]):
        log.info("compiling the kernels again: %s is damaged or was changed by someone else", path)
        return None
    return ctypes.CDLL(str(path))


def _hash(path: Path, library: bytes) -> bytes:
    """What the library's file ends with. Its name is part of it: another version's library is not this one."""
    return hashlib.sha256(path.name.encode() + library).digest()


def _build(compiler: str, path: Path) -> ctypes.CDLL | None:
    """The new library; or that of another process which built it while we waited; or None if it failed recently."""
    failure = path.with_suffix(".failed")
    with machine.file_lock(path.with_suffix(".lock"), LOCK_SECONDS):
        if found := _load(path):
            return found
        if reason := _recent_failure(failure):
            log.info("inference runs without compiled kernels: %s (delete %s to try again)", reason, failure)
            return None
        try:
            if path.is_symlink() or path.exists():
                path.unlink()  # else a new file would get its permissions, or go where a link points
            _compile(compiler, path)
        except subprocess.SubprocessError as error:
            with suppress(OutputError):  # a full disk; then the next process tries again
                write_json(failure, {"reason": _reason(error), "until": time.time() + FAILURE_SECONDS})
            raise
        failure.unlink(missing_ok=True)
        return _load(path)


def _compile(compiler: str, path: Path) -> None:
    log.info("first use on this machine: compiling the inference kernels, a few seconds, once")
    sources = [str(source) for source in sorted(FOLDER.glob("*.c"))]
    with atomic_file(path) as draft:
        for level in ISA_LEVELS:
            _run([compiler, *FLAGS, f"-DMAX_ISA_LEVEL={level}", "-o", str(draft), *sources, "-lm"])
            try:
                _run([sys.executable, "-P", "-c", SELFTEST, str(draft)])
                break
            except subprocess.CalledProcessError:
                if level == ISA_LEVELS[-1]:
                    raise
                log.info("AVX-512 gives wrong results on this CPU or kills the process: using AVX2")
        with draft.open("ab") as file:  # a loader ignores what follows a library
            file.write(_hash(path, draft.read_bytes()))
    path.chmod(path.stat().st_mode & ~machine.WRITABLE_BY_OTHERS)  # whatever the umask


def _run(command: list[str]) -> None:
    """Run a command. If it takes too long, end all that it started: a compiler is several processes."""
    # S603: the compiler or Python, on files of this package
    with subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=child_environment(),
        process_group=0,
    ) as child:
        try:
            _, errors = child.communicate(timeout=COMMAND_SECONDS)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            raise
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command, stderr=errors)


def _reason(error: Exception) -> str:
    """One line: which step failed, and the last line that it wrote."""
    if not isinstance(error, subprocess.CalledProcessError | subprocess.TimeoutExpired):
        return str(error)
    step = "the self-test" if SELFTEST in error.cmd else "the compiler"
    if isinstance(error, subprocess.TimeoutExpired):
        return f"{step} took more than {COMMAND_SECONDS:.0f} seconds"
    lines = error.stderr.decode(errors="replace").strip().splitlines()
    return f"{step} failed with status {error.returncode}" + (f": {lines[-1]}" if lines else "")


def _recent_failure(path: Path) -> str | None:
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
        return str(entry["reason"]) if time.time() < entry["until"] else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
