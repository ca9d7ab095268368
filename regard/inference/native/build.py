"""The .c files of this folder -> a library that was seen to work on this machine, or none.

It is compiled once into the user's cache folder. Then a child process runs every loop of it and compares the results:
a CPU that advertises what it cannot run kills the child, and not us.
"""

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from regard.cpu import cache

log = logging.getLogger(__name__)

FOLDER = Path(__file__).parent / "c"
FLAGS = ("-O3", "-std=gnu11", "-shared", "-fPIC")
LEVELS = (2, 1)
"""What is tried: all that the CPU says it has, then AVX2 alone."""
SECONDS = 60.0
TRIAL = "import sys; from regard.inference.native.selftest import main; main(sys.argv[1])"


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled loops; None without a compiler, on a CPU that they are not for, or where their results are wrong."""
    if platform.machine().lower() not in ("x86_64", "amd64") or sys.platform == "win32":
        return None
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        log.info("no C compiler: decoding runs without compiled loops")
        return None
    path = cache.cache_folder() / f"kernels-{_key(compiler)}.so"
    try:
        if not path.exists():
            _make(compiler, path)
        found = ctypes.CDLL(str(path))
    except (OSError, subprocess.SubprocessError) as error:
        log.info("decoding runs without compiled loops: %s", error)
        return None
    return found


def _key(compiler: str) -> str:
    """Another source, compiler or CPU is another library."""
    sources = [path.read_bytes() for path in sorted(FOLDER.glob("*.[ch]"))]
    parts = (*sources, repr(FLAGS).encode(), compiler.encode(), cache.cpu_model().encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]


def _make(compiler: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        draft = Path(folder) / path.name
        sources = [str(source) for source in sorted(FOLDER.glob("*.c"))]
        for highest in LEVELS:
            flags = [*FLAGS, f"-DMAX_ISA_LEVEL={highest}", "-o", str(draft)]
            _do([compiler, *flags, *sources, "-lm"])
            try:
                # its result decides: a library that dies or errs never gets its final name
                _do([sys.executable, "-P", "-c", TRIAL, str(draft)])
            except subprocess.CalledProcessError:
                if highest == LEVELS[-1]:
                    raise
                log.info("this CPU's AVX-512 does not do what it says: AVX2 instead")
            else:
                os.replace(draft, path)
                return


def _do(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
