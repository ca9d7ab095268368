"""What this machine can really run: its instruction set, its device, its number format.

    prepare()              before torch's first use: what the CPU can do, tried out once a machine
    bring_torch()          the same and torch itself, for who did without until now
    device("auto")         cuda, else mps, else cpu
    dtype("auto", device)  float32 on a CPU, bfloat16 on a GPU that has it

The CPU's own flags cannot be believed. Some virtual machines advertise AMX, and the first AMX instruction
kills the process with SIGILL: no exception, no message. So a child process tries the kernels first and dies
in our place; where it does, another tries with oneDNN capped below AMX; what still fails is not used. The
answer is remembered in the user's cache folder. What the child tries is in cpu/probe.py.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import logging
import os
import platform
import re
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from regard.cpu import threads
from regard.errors import OutputError, UsageError
from regard.io import write_json
from regard.plural import counted

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)

ISA = "ONEDNN_MAX_CPU_ISA"
OLD_ISA = "DNNL_MAX_CPU_ISA"  # oneDNN still reads its old name when the new one is not set
CAP = "AVX512_CORE_BF16"  # the highest level below AMX; keeps VNNI and AVX-512's bfloat16
CHILD = "from regard.cpu.probe import main; main()"
CHILD_SECONDS = 60.0  # importing torch takes 3 s from a warm disk, and can take 30 from a cold network drive
SURE_SECONDS = 30 * 86400.0  # how long an answer is believed: the host below a virtual machine can be changed
DOUBT_SECONDS = 3600.0  # and one that a busy hour may have caused


@dataclass(frozen=True)
class Capabilities:
    """What was seen to give right results, with oneDNN capped at `isa_cap` (None: not capped)."""

    isa_cap: str | None
    bfloat16: bool
    int8: bool
    """Right for weights of -64..64, which is 7 bits, on every kernel tried."""
    int8_wide: bool
    """Right for -127..127 too. Without VNNI (AVX2 only) they saturate: no error, answers 20 % off."""


STAGES = ("bfloat16", "int8", "int8_wide")
"""What a child is asked to try: the fields of Capabilities."""


@functools.cache  # where the cache folder is read-only, every call would cost a probe
def prepare() -> Capabilities:
    """Make torch safe to use on this CPU, and say what it can do. Call it before torch's first use.

    The trap: oneDNN reads its variable once, not at `import torch` but when it makes its first kernel. So we
    set it even if torch is there already; if it has made a kernel by then, it is too late, and nothing helps.
    A value that the user has set stays, and the answer is for that value.
    """
    found = capabilities()
    if found.isa_cap and not _chosen():
        log.info("%s=%s: this CPU advertises instructions that it cannot run", ISA, found.isa_cap)
        os.environ[ISA] = found.isa_cap
    return found


def import_torch() -> None:
    """Import torch, safe to use, with the threads that were in use without it."""
    prepare()
    import torch  # noqa: F401

    threads.pass_on()


def capabilities(program: str = CHILD, seconds: float = CHILD_SECONDS) -> Capabilities:
    """The remembered answer, or a new one from child processes that run `program`. Sets no variable."""
    chosen = _chosen()
    path = _entry(chosen)
    if found := _recall(path):
        return found
    with _lock(path.with_suffix(".lock"), 4 * seconds) or nullcontext():
        if found := _recall(path):  # another process, of eight that started at once, was faster
            return found
        log.info("first use on this machine: trying out its instructions, a few seconds, once")
        found, sure = _probe(program, chosen, seconds)
        # Our own children inherit the cap and cannot tell it from a user's choice: answer for it too.
        for isa in {chosen, found.isa_cap}:
            _remember(_entry(isa), found, sure)
    return found


def _chosen() -> str | None:
    """The cap that the user has set."""
    return os.environ.get(ISA) or os.environ.get(OLD_ISA) or None


# --- the probe ---


def _probe(program: str, chosen: str | None, seconds: float) -> tuple[Capabilities, bool]:
    """Try without a cap, then with it where that failed; the better one wins, and no cap when equal."""
    tried, sure = [], True
    for isa in [chosen] if chosen else [None, CAP]:
        right, certain = _survey(program, isa, seconds)
        tried.append(Capabilities(isa, **right))
        sure = sure and certain
        if right["bfloat16"] and right["int8"]:  # no cap can give a CPU the VNNI that int8_wide needs
            break
    best = max(tried, key=lambda found: found.bfloat16 + found.int8 + found.int8_wide)
    log.info("%s%s", best, "" if sure else ", but a child was stopped or did not start: not for long")
    return best, sure


def _survey(program: str, isa: str | None, seconds: float) -> tuple[dict[str, bool], bool]:
    """What gives right results under this cap. The stage that kills a child is passed over by the next child.

    Also whether we are sure: a child that ran out of time or memory may say more of the hour than of the CPU.
    """
    right, left = dict.fromkeys(STAGES, False), list(STAGES)
    while left:
        lines, sure = _run(program, left, isa, seconds)
        right |= {stage: True for stage in left if f"{stage} right" in lines}
        if not sure:
            return right, False
        left = [stage for stage in left if not {f"{stage} right", f"{stage} wrong"} & lines][1:]
    return right, True


def _run(program: str, stages: list[str], isa: str | None, seconds: float) -> tuple[set[str], bool]:
    """One child: the lines that it wrote before its end, and whether that end was the CPU's doing."""
    path = os.pathsep.join(sys.path)  # find the same regard and torch, however this process found them
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path} | ({ISA: isa} if isa else {})
    # -P: no file of the current folder in torch's place. -W: PYTHONWARNINGS=error would fail the int8 stages.
    command = [sys.executable, "-P", "-W", "ignore", "-c", program, *stages]
    try:
        child = subprocess.run(command, env=env, input=b"", capture_output=True, timeout=seconds)
        output, stopped = child.stdout, child.returncode in (-9, -15)  # killed: out of memory, a shutdown
        log.debug("child for %s: exit %d, %r", stages, child.returncode, child.stderr[-2000:])
    except subprocess.TimeoutExpired as hung:  # and killed, by subprocess.run
        output, stopped = hung.stdout or b"", True
    except OSError as error:
        output, stopped = b"", True
        log.info("cannot start %s: %s", sys.executable, error)
    lines = set(output.decode(errors="replace").splitlines())
    return lines, "ready" in lines and not stopped


# --- the memory: nothing here may fail, the worst is to probe again ---


def _entry(isa: str | None) -> Path:
    """The file for this machine under this cap. Not by host name: a live-migrated machine keeps that."""
    from importlib import metadata  # 40 ms

    try:
        version = metadata.version("torch")  # torch.__version__ would be an import of torch
    except metadata.PackageNotFoundError:
        version = "unknown"
    machine = json.dumps([cpu(), version, platform.platform(), sys.version, isa])
    return cache_folder() / f"hardware-{hashlib.sha256(machine.encode()).hexdigest()[:24]}.json"


def cpu() -> str:
    """Model and flags of the first CPU; the rest of the file changes with the clock and is slow to read."""
    kept = re.compile(r"(vendor_id|cpu family|model|model name|stepping|flags|Features|CPU \w+)\s*:")
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return "".join(line for line in itertools.takewhile(str.strip, file) if kept.match(line))
    except OSError:
        return platform.processor()


def cache_folder() -> Path:
    home, xdg = os.path.expanduser("~"), os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg):  # the standard says to ignore a relative one
        return Path(xdg, "regard")
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home, "regard")
    if not os.path.isabs(home):  # a container's user without a home: a folder that cannot be made
        return Path(os.devnull, "regard")
    return Path(home, "Library/Caches/regard" if sys.platform == "darwin" else ".cache/regard")


def _recall(path: Path) -> Capabilities | None:
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
        found = Capabilities(**entry["capabilities"])
        typed = {type(getattr(found, stage)) for stage in STAGES} == {bool} and (
            found.isa_cap is None or isinstance(found.isa_cap, str)
        )
        return found if typed and time.time() < entry["until"] else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _remember(path: Path, found: Capabilities, sure: bool) -> None:
    until = time.time() + (SURE_SECONDS if sure else DOUBT_SECONDS)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"capabilities": asdict(found), "until": until})
    except (OSError, OutputError) as error:
        log.info("cannot remember what this CPU can run: %s", error)


def _lock(path: Path, seconds: float) -> IO[str] | None:
    """Held until closed. None where it cannot be had: two probes at once are slow, but not wrong."""
    try:
        import fcntl

        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "a", encoding="utf-8")  # noqa: SIM115
    except (ImportError, OSError):
        return None
    deadline = time.monotonic() + seconds  # a suspended process must not hold up the others for ever
    while time.monotonic() < deadline:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            time.sleep(0.05)
        except OSError:  # a network drive without locks
            break
    return file


# --- device, number format ---


def only_cpu(name: str = "auto") -> bool:
    """Whether this device is sure to be the CPU: asked without torch, which takes a second to be imported."""
    if name == "auto" and sys.platform == "linux":
        return not any(Path("/dev", gpu).exists() for gpu in ("nvidia0", "nvidiactl", "nvhost-gpu", "kfd", "dxg"))
    return name == "cpu"


def device(name: str = "auto") -> torch.device:
    """The device of this name; `auto` is the fastest that is here."""
    import torch

    mps, gpus = torch.backends.mps.is_available(), torch.cuda.device_count()
    if name == "auto":
        name = "cuda" if gpus else "mps" if mps else "cpu"
    match = re.fullmatch(r"cpu|mps|cuda(?::(0|[1-9][0-9]?))?", name)
    if not match:
        raise UsageError(f"device {name!r} is not known: use auto, cpu, mps, cuda or cuda:N")
    if name == "mps" and not mps:
        raise UsageError("device 'mps' is not available: it needs a Mac with Apple silicon; use auto or cpu")
    if name.startswith("cuda") and int(match[1] or 0) >= gpus:
        raise UsageError(
            f"device {name!r} is not available: torch sees {counted(gpus, 'CUDA device')}; use auto or cpu"
        )
    return torch.device(name)


def dtype(name: str, device: torch.device) -> torch.dtype:
    """The number format of this name; `auto` is bfloat16 on a GPU that has it in hardware, else float32.

    On a CPU without AVX-512, torch's bfloat16 matmul takes 8 times as long as float32 (AMD EPYC, 256 rows).
    """
    import torch

    if name == "auto":
        native = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if native else torch.float32
    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if name not in known:
        raise UsageError(f"dtype {name!r} is not known: use auto, {', '.join(known)}")
    if name == "float16" and device.type == "cpu":
        raise UsageError("dtype 'float16' is for GPUs: use auto, float32 or bfloat16 on the CPU")
    if name == "bfloat16" and device.type == "cpu" and not prepare().bfloat16:
        raise UsageError("dtype 'bfloat16' crashes or gives wrong results on this CPU: use auto or float32")
    return known[name]
