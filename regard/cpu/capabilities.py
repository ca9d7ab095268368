"""Which instructions this CPU really runs: call `prepare()` before torch's first use.

A CPU's flags cannot be trusted. Some virtual machines advertise AMX, and the first AMX instruction kills the process
with SIGILL: no exception, no message. So a child process tries the kernels first (cpu/selftest.py) and dies in our
place. If it dies, another child tries with oneDNN capped below AMX; kernels that still fail are not used. The answer
is kept in the user's cache folder.
"""

import functools
import hashlib
import json
import logging
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from regard.cpu.child_environment import child_environment
from regard.cpu.machine import cache_folder, cpu_model, file_lock
from regard.errors import OutputError
from regard.io import write_json

log = logging.getLogger(__name__)

ISA = "ONEDNN_MAX_CPU_ISA"
OLD_ISA = "DNNL_MAX_CPU_ISA"  # oneDNN still reads its old name when the new one is not set
CAP = "AVX512_CORE_BF16"  # the highest level below AMX; keeps VNNI and AVX-512's bfloat16
CHILD = "from regard.cpu.selftest import main; main()"
CHILD_SECONDS = 60.0  # importing torch takes 3 s from a warm disk, and can take 30 from a cold network drive
CERTAIN_SECONDS = 30 * 86400.0  # how long an answer is valid: the host below a virtual machine can change
UNCERTAIN_SECONDS = 3600.0  # how long, if a busy machine may have caused it


@dataclass(frozen=True)
class Capabilities:
    """Kernels that gave correct results, with oneDNN capped at `isa_cap` (None: not capped)."""

    isa_cap: str | None
    bfloat16: bool
    int8: bool
    """Correct for weights of -64..64, which is 7 bits, in every kernel tried."""
    int8_wide: bool
    """Correct for -127..127 too. Without VNNI (AVX2 only) the sums saturate: no error, results 20 % off."""


STAGES = ("bfloat16", "int8", "int8_wide")
"""What a child tries: the fields of Capabilities."""


@functools.cache  # with a read-only cache folder, every call would cost a probe
def prepare() -> Capabilities:
    """Make torch safe to use on this CPU, and return what it can do. Call it before torch's first use.

    The trap: oneDNN reads its variable once, not at `import torch` but when it creates its first kernel. So we set it
    even if torch is imported already; after the first kernel it is too late. A value that the user has set stays, and
    the answer is for that value.
    """
    found = capabilities()
    if found.isa_cap and not _user_cap():
        log.info("%s=%s: this CPU advertises instructions that it cannot run", ISA, found.isa_cap)
        os.environ[ISA] = found.isa_cap
    return found


def capabilities(program: str = CHILD, seconds: float = CHILD_SECONDS) -> Capabilities:
    """The cached answer, or a new one from child processes that run `program`. Sets no variable."""
    user_cap = _user_cap()
    path = _cache_path(user_cap)
    if found := _read_cache(path):
        return found
    with file_lock(path.with_suffix(".lock"), 4 * seconds):
        if found := _read_cache(path):  # another process, of eight that started at once, was faster
            return found
        log.info("first use on this machine: trying its instructions, a few seconds, once")
        found, certain = _probe(program, user_cap, seconds)
        # Our own children inherit the cap and cannot tell it from a user's choice: store the answer for it too.
        for isa in {user_cap, found.isa_cap}:
            _write_cache(_cache_path(isa), found, certain)
    return found


def _user_cap() -> str | None:
    return os.environ.get(ISA) or os.environ.get(OLD_ISA) or None


# --- the probe ---


def _probe(program: str, user_cap: str | None, seconds: float) -> tuple[Capabilities, bool]:
    """Try without a cap; if that fails, with one. The better result wins; if equal, the one without a cap.

    The second value says whether the result is certain.
    """
    results, all_certain = [], True
    for isa in [user_cap] if user_cap else [None, CAP]:
        correct, certain = _try_stages(program, isa, seconds)
        results.append(Capabilities(isa, **correct))
        all_certain = all_certain and certain
        if correct["bfloat16"] and correct["int8"]:  # no cap can give a CPU the VNNI that int8_wide needs
            break
    best = max(results, key=lambda result: result.bfloat16 + result.int8 + result.int8_wide)
    log.info("%s%s", best, "" if all_certain else ", but a child was killed or did not start: valid for an hour")
    return best, all_certain


def _try_stages(program: str, isa: str | None, seconds: float) -> tuple[dict[str, bool], bool]:
    """Which stages give correct results under this cap. After a stage kills a child, the next child skips it.

    The second value is False if a child ran out of time or memory: then the machine was busy, perhaps.
    """
    correct, left = dict.fromkeys(STAGES, False), list(STAGES)
    while left:
        lines, certain = _run_child(program, left, isa, seconds)
        correct |= {stage: True for stage in left if f"{stage} right" in lines}
        if not certain:
            return correct, False
        left = [stage for stage in left if not {f"{stage} right", f"{stage} wrong"} & lines][1:]
    return correct, True


def _run_child(program: str, stages: list[str], isa: str | None, seconds: float) -> tuple[set[str], bool]:
    """One child: the lines that it wrote before it ended, and whether the CPU alone explains its end."""
    env = child_environment(OMP_NUM_THREADS="1", **({ISA: isa} if isa else {}))
    # -P: no file of the current folder in torch's place. -W: PYTHONWARNINGS=error would fail the int8 stages.
    command = [sys.executable, "-P", "-W", "ignore", "-c", program, *stages]
    try:  # S603: the program and its stages are constants of this package
        child = subprocess.run(command, env=env, input=b"", capture_output=True, timeout=seconds)  # noqa: S603
        output, killed = child.stdout, child.returncode in (-9, -15)  # out of memory, a shutdown
        log.debug("child for %s: exit %d, %r", stages, child.returncode, child.stderr[-2000:])
    except subprocess.TimeoutExpired as hung:  # subprocess.run has killed it
        output, killed = hung.stdout or b"", True
    except OSError as error:
        output, killed = b"", True
        log.info("cannot start %s: %s", sys.executable, error)
    lines = set(output.decode(errors="replace").splitlines())
    return lines, "ready" in lines and not killed


# --- the cached answer: nothing here may fail, the worst case is a new probe ---


def _cache_path(isa: str | None) -> Path:
    """The file for this machine under this cap. Not by host name: a live-migrated machine keeps that."""
    from importlib import metadata  # 40 ms

    try:
        version = metadata.version("torch")  # torch.__version__ would import torch
    except metadata.PackageNotFoundError:
        version = "unknown"
    machine = json.dumps([cpu_model(), version, platform.platform(), sys.version, isa])
    return cache_folder() / f"hardware-{hashlib.sha256(machine.encode()).hexdigest()[:24]}.json"


def _read_cache(path: Path) -> Capabilities | None:
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
        found = Capabilities(**entry["capabilities"])
        valid = {type(getattr(found, stage)) for stage in STAGES} == {bool} and (
            found.isa_cap is None or isinstance(found.isa_cap, str)
        )
        return found if valid and time.time() < entry["until"] else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _write_cache(path: Path, found: Capabilities, certain: bool) -> None:
    until = time.time() + (CERTAIN_SECONDS if certain else UNCERTAIN_SECONDS)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"capabilities": asdict(found), "until": until})
    except (OSError, OutputError) as error:
        log.info("cannot store what this CPU can run: %s", error)
