"""How many threads an operation may use: torch's number where torch is, and a number of our own where it is not.

    cores()     the physical cores that this process may use
    use(4)      so many from now on; without a number, what the environment says, else the cores
    in_use()    in the thread that asks

To be imported, torch takes a second and 200 MB. To translate, a process may do without: the compiled loops ask here.
"""

import functools
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from regard.errors import UsageError

_here = threading.local()
_taken: list[int] = []


def use(count: int | None = None) -> int:
    """Take this many, else what OMP_NUM_THREADS says (torchrun sets it), else `cores()`."""
    if count is not None and count < 1:
        raise UsageError(f"threads must be 1 or more, not {count}")
    wanted = count or _asked_for() or cores()
    _taken[:] = [wanted]
    if torch := _torch():
        torch.set_num_threads(wanted)
    return wanted


def in_use() -> int:
    """For one operation, in the thread that asks."""
    share = getattr(_here, "share", 0)  # of a crew's thread; torch may have been imported after it began
    if not share and (torch := _torch()):
        return int(torch.get_num_threads())
    return int(share or (_taken[0] if _taken else _asked_for() or _cores_once()))


def pass_on() -> None:
    """Give torch, just imported, the number that was in use without it."""
    if _taken and (torch := _torch()):
        torch.set_num_threads(_taken[0])


def take(share: int) -> None:
    """So many for this thread."""
    _here.share = share
    if torch := _torch():
        torch.get_num_threads()  # a thread's first question makes it take over the number for all
        torch.set_num_threads(share)


@contextmanager
def everywhere(share: int) -> Iterator[None]:
    """So many for every operation that torch begins in the meantime, in whatever thread."""
    torch = _torch()
    whole = in_use()
    if torch:
        torch.set_num_threads(share)
    try:
        yield
    finally:
        if torch:
            torch.set_num_threads(whole)


def _torch() -> Any:
    """torch, where someone has imported it, and all of it."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "set_num_threads") else None


def _asked_for() -> int:
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() else 0


# ---- what there is ----


def cores() -> int:
    """How many physical cores this process may use: its affinity, hyperthreads as one, its container's quota.

    Two hyperthreads share the multipliers that a matmul keeps busy, and a thread beyond the quota is put to
    sleep while the others wait for it. Outside Linux Python cannot tell: the logical CPUs.
    """
    if sys.platform != "linux":
        return os.cpu_count() or 1
    cpus = os.sched_getaffinity(0)
    siblings = Path("/sys/devices/system/cpu")
    alone = {_read(siblings / f"cpu{n}/topology/thread_siblings_list") or str(n) for n in cpus}
    return max(1, int(min(len(alone), _quota())))


def _quota(cgroups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float:
    """How many CPUs' time the control groups allow: the least of this process's group and all above it.

    A container may see its host's path in `own` and its own limit at the root: a missing folder is no news.
    """
    least = float("inf")
    for line in _read(own).splitlines():
        _, controllers, group = line.split(":", 2)  # "0::/a/b", or in version 1 "4:cpu,cpuacct:/a/b"
        folder = cgroups / controllers / group.strip("/")
        for place in (folder, *folder.parents):
            old = f"{_read(place / 'cpu.cfs_quota_us')} {_read(place / 'cpu.cfs_period_us')}"
            with suppress(ValueError):  # "max 100000", or no such file
                quota, period = map(int, (_read(place / "cpu.max") or old).split())
                least = min(least, quota / period) if quota > 0 else least  # version 1 says -1 for no limit
    return least


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


_cores_once = functools.cache(cores)
