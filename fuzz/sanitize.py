"""Run a Python command with the C library built under a sanitizer; every report ends the process that caused it.

    python -m fuzz.sanitize address -m fuzz.native --count 2000      # AddressSanitizer and UndefinedBehaviorSanitizer
    python -m fuzz.sanitize thread -m fuzz.native --count 500        # ThreadSanitizer
    python -m fuzz.sanitize address-avx2 -m pytest tests/inference   # the loops for CPUs without AVX-512

`cc` is replaced with a script that adds the sanitizer's flags, and the cache folder with an empty one, so regard builds
its library as ever: in this process and in those that it starts.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TEAM = Path(__file__).parent / "pthread_team.c"
COMMON = "-g -O1 -fno-omit-frame-pointer"
ADDRESS = f"{COMMON} -fsanitize=address,undefined -fno-sanitize-recover=all"
FLAGS = {
    "address": ADDRESS,
    "address-avx2": f"{ADDRESS} -UMAX_ISA_LEVEL -DMAX_ISA_LEVEL=1",
    "thread": f"{COMMON} -fsanitize=thread -Duse_openmp=real_use_openmp {TEAM} -pthread",
}
ASAN = ("libasan.so", "libubsan.so", "libstdc++.so")
PRELOADED = {"address": ASAN, "address-avx2": ASAN, "thread": ("libtsan.so", "libstdc++.so")}
"""The sanitizers have to come before everything else; libstdc++ too, or they do not know torch's exceptions."""
OPTIONS = {
    # Python never frees all its memory; an allocation that fails returns NULL, as without the sanitizer
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=1024:hard_rss_limit_mb=6000",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    # what happens between two functions of torch or Python is not known well enough to be reported
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=66:report_signal_unsafe=0:ignore_noninstrumented_modules=1",
}

# a minute of work, against the few seconds for which regard waits
BUILD = """
import logging
from regard.inference.native import build
logging.basicConfig(level=logging.INFO)
build.COMMAND_SECONDS = 1800.0
raise SystemExit(build.library() is None)
"""


def library(compiler: str, name: str) -> str:
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.sanitize", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sanitizer", choices=sorted(FLAGS))
    parser.add_argument("command", nargs=argparse.REMAINDER, help="arguments of python")
    arguments = parser.parse_args(argv)
    compiler = shutil.which("gcc")
    if compiler is None:
        parser.error("gcc is needed")
    with tempfile.TemporaryDirectory(prefix="sanitize-") as name:
        folder = Path(name)
        program = folder / "bin" / "cc"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nunset LD_PRELOAD\nexec {compiler} "$@" {FLAGS[arguments.sanitizer]}\n')
        program.chmod(0o755)
        environment = os.environ | OPTIONS
        environment |= {
            "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "LD_PRELOAD": " ".join(library(compiler, each) for each in PRELOADED[arguments.sanitizer]),
        }
        # without randomised addresses: ThreadSanitizer finds no place for its shadow memory in some layouts
        still = shutil.which("setarch") if arguments.sanitizer == "thread" else None
        python = [*([still, "-R"] if still else []), sys.executable]
        if subprocess.run([*python, "-c", BUILD], env=environment).returncode:
            print("the C library could not be built with this sanitizer, or failed its self-test")
            return 1
        return subprocess.run([*python, *arguments.command], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
