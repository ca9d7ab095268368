"""Cases in child processes, many cases for each, with limits on time and memory for each case.

A child is forked from this process, which has imported regard and torch already. It says which case it begins and how
that ended, so when it dies, the guilty case is known; a new child takes over after it.
"""

import contextlib
import ctypes
import json
import os
import re
import resource
import selectors
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol

from fuzz.case import Case
from fuzz.regard_calls import Failure, place_of, silence

POLL_SECONDS = 0.5
PR_SET_PDEATHSIG = 1
"""Linux: a signal for this process when its parent ends."""
LARGEST_FILE = 500_000_000


@dataclass(frozen=True)
class Limits:
    """For one case."""

    seconds: float = 10.0
    """CPU time, rounded up by the kernel to whole seconds."""
    idle_seconds: float = 8.0
    """Without any CPU time: it waits for something."""
    memory: int = 1 << 30
    """Bytes of address space beyond what the child has at the start of the case."""


MOST_COMPARED = 120
"""Characters of a symptom: a message may quote what differs from case to case."""


class Kind(Protocol):
    """One kind of hostile input."""

    name: str
    cases_per_child: int
    limits: Limits

    def prepare(self, folder: Path) -> None:
        """Make the samples in this empty folder, and import what the cases need."""

    def make(self, luck: Random) -> Case: ...

    def run(self, case: Case, folder: Path) -> None:
        """Run the case in this empty folder; raise Failure."""


@dataclass(frozen=True)
class Outcome:
    number: int
    seconds: float = 0.0
    memory: int = 0
    """Bytes at the peak beyond those at the start of the case."""
    wrong: str = ""
    """The symptom; empty if all went well."""


def distinct(wrong: str) -> str:
    """The symptom without what differs from case to case: folders, numbers in messages, quoted texts."""
    text = re.sub(r"/\S*/fuzz-\S*?/case/", "", wrong)
    text = re.sub(r"(in/a\.\w+)[:\d]*", r"\1", text)  # a document, and its line
    text = re.sub(r"(a message of|control character)(.*?: .*?: \S*).*", r"\1\2", text)
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", text)
    return re.sub(r"U\+\w{4,6}|(?<![:\w+])-?\d[\d,.e+]*", "N", text)[:MOST_COMPARED]


@dataclass
class _Child:
    pid: int
    pipe: int
    numbers: range
    rest: bytes = b""
    current: int = -1
    ticks: int = 0
    """CPU time when last seen at work, which was then:"""
    worked: float = field(default_factory=time.monotonic)
    killed: bool = False


def outcomes(
    kind: Kind, make: Callable[[int], Case], batches: Iterator[range], folder: Path, jobs: int
) -> Iterator[Outcome]:
    """The outcome of each case of all batches, as they end."""
    waiting: list[range] = []
    children: dict[int, _Child] = {}
    selector = selectors.DefaultSelector()
    try:
        while True:
            while len(children) < jobs and (numbers := waiting.pop() if waiting else next(batches, None)) is not None:
                child = _start(kind, make, numbers, folder)
                children[child.pipe] = child
                selector.register(child.pipe, selectors.EVENT_READ)
            if not children:
                return
            for key, _ in selector.select(POLL_SECONDS):
                child = children[key.fd]
                if content := os.read(child.pipe, 1 << 16):
                    yield from _told(child, content)
                    continue
                selector.unregister(child.pipe)
                del children[child.pipe]
                os.close(child.pipe)
                if lost := _ended(child):
                    yield lost
                    waiting.append(range(child.current + 1, child.numbers.stop))
            for child in children.values():
                if _idle_seconds(child) > kind.limits.idle_seconds:
                    child.killed = True
                    os.killpg(child.pid, signal.SIGKILL)
    finally:
        for child in children.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
            os.close(child.pipe)


def _idle_seconds(child: _Child) -> float:
    user, system = Path(f"/proc/{child.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:13]
    if (ticks := int(user) + int(system)) != child.ticks:
        child.ticks, child.worked = ticks, time.monotonic()
    return time.monotonic() - child.worked


def _told(child: _Child, content: bytes) -> Iterator[Outcome]:
    """What a child has written: the number of the case it begins, or an outcome."""
    *lines, child.rest = (child.rest + content).split(b"\n")
    for line in lines:
        child.worked = time.monotonic()
        if line.isdigit():
            child.current = int(line)
        else:
            child.current += 1  # in case it dies between two cases
            yield Outcome(**json.loads(line))


def _ended(child: _Child) -> Outcome | None:
    _, status = os.waitpid(child.pid, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # what it has started
    if status == 0 or child.current >= child.numbers.stop:
        return None
    if child.killed:
        wrong = "time-out, waiting"
    elif os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        wrong = "time-out, working" if name == "SIGXCPU" else f"signal {name}"
    else:
        wrong = f"the process ended with code {os.WEXITSTATUS(status)}"
    return Outcome(child.current, wrong=wrong)


def _start(kind: Kind, make: Callable[[int], Case], numbers: range, folder: Path) -> _Child:
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return _Child(pid, read, numbers, current=numbers.start)
    code = 1
    try:
        os.close(read)
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
        own = folder / str(os.getpid())
        own.mkdir()
        os.environ["TMPDIR"] = str(own)
        silence(own / "printed")
        for number in numbers:
            os.write(write, b"%d\n" % number)
            outcome = _run(kind, make, number, own / "case")
            os.write(write, json.dumps(asdict(outcome)).encode() + b"\n")
        shutil.rmtree(own)
        code = 0
    finally:
        os._exit(code)


def _run(kind: Kind, make: Callable[[int], Case], number: int, folder: Path) -> Outcome:
    try:
        case = make(number)
    except Exception as error:
        return Outcome(number, wrong=f"not made: {type(error).__name__} in {place_of(error)}: {error}")
    folder.mkdir()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _status("VmRSS")
    _limit(kind.limits)
    start, wrong = time.process_time(), ""
    try:
        kind.run(case, folder)
    except Failure as failure:
        wrong = str(failure)
    except BaseException as error:
        wrong = f"{type(error).__name__} in {place_of(error)}: {str(error)[:200]}"
    seconds = time.process_time() - start
    memory = max(0, _status("VmHWM") - before)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    shutil.rmtree(folder)
    return Outcome(number, seconds, memory, wrong)


def _limit(limits: Limits) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime + limits.seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + limits.memory, resource.RLIM_INFINITY))


def _status(name: str) -> int:
    """Bytes."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0
