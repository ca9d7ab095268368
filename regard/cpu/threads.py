"""How many threads an operation may use: torch's number if torch is imported, else a number of our own.

    cores()              the physical cores that this process may use
    set_threads(4)       from now on; without a number, OMP_NUM_THREADS, else the cores
    current_threads()    in the calling thread
    ThreadPool(2)        a pool of threads, each with a share of the cores, for work that divides into whole tasks

Importing torch takes a second and 200 MB. Translation can do without it: native code asks here.

Why a pool: torch spreads one operation at a time over its threads, and between two operations they wait for each other.
For all but large models, two threads that each run their own model can do a third more work than one on both cores.

The trap: torch keeps the number of threads in three places. OpenMP has one for each thread; torch has one for the
process, which a thread adopts at its first operation, whatever was set in it before; MKL has one for the process. So
the share is set in all of them while the pool works, and the full number again afterward. (With four threads that
wait for each other on two cores, by spinning, training ran at three quarters of its speed.)
"""

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from regard.errors import UsageError

T = TypeVar("T")

_this_thread = threading.local()
_set: list[int] = []
"""The number that `set_threads` was given last, if any."""


def set_threads(count: int | None = None) -> int:
    """Use `count` threads, else OMP_NUM_THREADS (torchrun sets it), else `cores()`; return the number."""
    if count is not None and (not isinstance(count, int) or count < 1):
        raise UsageError(
            f"threads must be a whole number of at least 1 (`load` takes 0 for one per core), not {count!r}"
        )
    number = count or _from_environment() or cores()
    _set[:] = [number]
    if torch := _torch():
        torch.set_num_threads(number)
    return number


def current_threads() -> int:
    """How many threads one operation of the calling thread may use."""
    if share := getattr(_this_thread, "share", 0):  # of a pool; torch may have been imported after the pool was made
        return int(share)
    if torch := _torch():
        # a thread whose first operation comes during a limit would take that limit for its own number
        return _limits.unlimited or int(torch.get_num_threads())
    return int(_set[0] if _set else _from_environment() or _cores_once())


def apply_to_torch() -> None:
    """Give torch, just imported, the number that was set without it."""
    if _set and (torch := _torch()):
        torch.set_num_threads(_set[0])


def set_native_share(share: int) -> None:
    """Use `share` threads in native code that the calling thread starts; torch's number stays."""
    _this_thread.share = share


def set_share(share: int) -> None:
    """Use `share` threads in the calling thread, which belongs to a pool."""
    _this_thread.share = share
    if torch := _torch():
        torch.get_num_threads()  # the first call in a thread adopts the process's number: get that over with
        torch.set_num_threads(share)


class _Limits:
    """The limits in force, which several threads can set at once. The last one to leave restores the full number."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.shares: list[int] = []
        self.unlimited = 0
        """The number before the first limit; 0 while there is none."""


_limits = _Limits()


@contextmanager
def limit_torch(share: int) -> Iterator[None]:
    """Limit every operation that torch starts in the meantime, in any thread, to `share` threads."""
    torch = _torch()
    if torch is None:
        yield
        return
    with _limits.lock:
        own = current_threads()
        if not _limits.shares:
            _limits.unlimited = own
        _limits.shares.append(share)
        torch.set_num_threads(share)
    try:
        yield
    finally:
        with _limits.lock:
            _limits.shares.remove(share)
            torch.set_num_threads(own)  # of this thread and of the process
            if _limits.shares:  # the process is still limited; set from another thread, so that this one keeps its own
                setter = threading.Thread(target=torch.set_num_threads, args=(_limits.shares[-1],))
                setter.start()
                setter.join()
            else:
                _limits.unlimited = 0


class ThreadPool:
    """Runs tasks on `count` threads, each with its share of the cores. The caller waits."""

    def __init__(self, count: int) -> None:
        self._share = max(1, current_threads() // count)
        self._pool = ThreadPoolExecutor(count, "pool", initializer=set_share, initargs=(self._share,))

    def run_all(self, tasks: Sequence[Callable[[], T]]) -> list[Future[T]]:
        """Run the tasks and wait for all of them; each future holds a result or an exception."""
        with limit_torch(self._share):
            futures = [self._pool.submit(task) for task in tasks]
            wait(futures)
        return futures

    def close(self) -> None:
        self._pool.shutdown()


def _torch() -> Any:
    """torch, if it has been imported completely."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "set_num_threads") else None


def _from_environment() -> int:
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() else 0


# ---- the cores of this machine ----


def cores() -> int:
    """How many physical cores this process may use: its affinity, hyperthreads counted once, its container's quota.

    Two hyperthreads share the multipliers that a matmul keeps busy, and a thread beyond the quota is put to
    sleep while the others wait for it. Outside Linux Python cannot tell: the logical CPUs.
    """
    if sys.platform != "linux":
        return os.cpu_count() or 1
    cpus = os.sched_getaffinity(0)
    folder = Path("/sys/devices/system/cpu")
    physical = {_read(folder / f"cpu{n}/topology/thread_siblings_list") or str(n) for n in cpus}
    return max(1, int(min(len(physical), _quota())))


def _quota(cgroups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float:
    """How many CPUs' time the control groups allow: the least of this process's group and all above it.

    A container may see its host's path in `own` and its own limit at the root: a missing folder means nothing.
    """
    least = float("inf")
    for line in _read(own).splitlines():
        _, controllers, group = line.split(":", 2)  # "0::/a/b", or in version 1 "4:cpu,cpuacct:/a/b"
        folder = cgroups / controllers / group.strip("/")
        for level in (folder, *folder.parents):
            version_1 = f"{_read(level / 'cpu.cfs_quota_us')} {_read(level / 'cpu.cfs_period_us')}"
            with suppress(ValueError):  # "max 100000", or no such file
                quota, period = map(int, (_read(level / "cpu.max") or version_1).split())
                least = min(least, quota / period) if quota > 0 else least  # version 1 writes -1 for no limit
    return least


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


_cores_once = functools.cache(cores)
