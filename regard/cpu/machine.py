"""Facts about this machine that need no torch, and the folder in which what was found out about it is kept.

only_cpu("auto")             whether there is certainly no GPU
cache_folder()               ~/.cache/regard on Linux; may not exist yet
make_private_folder(path)    that folder, which no other user may write to: what is in it is run
file_lock(path, seconds)     one process at a time, for work that is worth doing once
cpu_model()                  model and flags of this CPU, to make a file's name from
"""

import itertools
import os
import platform
import re
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

POLL_SECONDS = 0.05
ROOT = 0
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def only_cpu(name: str = "auto") -> bool:
    """Whether this device is certainly the CPU. Answers without torch, which takes a second to import."""
    if name == "auto" and sys.platform == "linux":
        return not any(Path("/dev", gpu).exists() for gpu in ("nvidia0", "nvidiactl", "nvhost-gpu", "kfd", "dxg"))
    return name == "cpu"


def cache_folder() -> Path:
    home, xdg = os.path.expanduser("~"), os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg):  # the standard says to ignore a relative one
        return Path(xdg, "regard")
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home, "regard")
    if not os.path.isabs(home):  # a user without a home, in a container: a folder that cannot be created
        return Path(os.devnull, "regard")
    return Path(home, "Library/Caches/regard" if sys.platform == "darwin" else ".cache/regard")


class ForeignFolder(PermissionError):
    """Another user decides what a folder contains."""


def make_private_folder(path: Path) -> None:
    """Make sure that there is this folder and that only its owner, this user or root, can write to it.

    Raises `ForeignFolder` otherwise. That happens where XDG_CACHE_HOME is a folder that several users share, and to
    root with another user's HOME.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.stat()
    if not all(each.st_uid in (os.geteuid(), ROOT) for each in (status, path.lstat())):  # a link: its owner too
        raise ForeignFolder(
            f"{path} belongs to another user, who could put code there; set XDG_CACHE_HOME to a folder of your own"
        )
    if status.st_mode & WRITABLE_BY_OTHERS:
        if status.st_uid != os.geteuid():
            raise ForeignFolder(f"{path} can be written to by other users; set XDG_CACHE_HOME to a folder of your own")
        path.chmod(stat.S_IMODE(status.st_mode) & ~WRITABLE_BY_OTHERS)


def only_ours(status: os.stat_result) -> bool:
    """Whether only this user, or root, can have written this file."""
    return status.st_uid in (os.geteuid(), ROOT) and not status.st_mode & WRITABLE_BY_OTHERS


@contextmanager
def file_lock(path: Path, seconds: float) -> Iterator[None]:
    """Hold an exclusive lock on the file `path`, created if needed; wait at most this many seconds for it.

    The block runs in any case: after the time is up (a suspended process must not stop the others forever), without
    permission, on a network drive without locks, and on Windows. So the work must be correct, though slower, when two
    processes do it at once; and whoever waited should look first whether it is done already.
    """
    try:
        import fcntl

        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a", encoding="utf-8")
    except (ImportError, OSError):
        yield
        return
    with file:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(POLL_SECONDS)
            except OSError:  # a network drive without locks
                break
        yield


def cpu_model() -> str:
    """Model and flags of the first CPU; the rest of the file changes with the clock and is slow to read."""
    kept = re.compile(r"(vendor_id|cpu family|model|model name|stepping|flags|Features|CPU \w+)\s*:")
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return "".join(line for line in itertools.takewhile(str.strip, file) if kept.match(line))
    except OSError:
        return platform.processor()
