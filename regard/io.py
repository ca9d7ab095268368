"""Write files and directories atomically: complete under their final name, or not there at all.

    write_text(path, text)          write_bytes(path, content)          write_json(path, value)
    with open_text(path) as file:       a text file, written line by line
    with atomic_file(path) as draft:    a file that a library writes: it is given the path `draft`
    with new_directory(path) as draft:  a directory to fill; with replace=True it takes the place of an old one
    create(draft / name)                a binary file inside such a directory
    set_aside(directory, name)          another name, for a directory that is damaged
    remove_drafts(folder)               what killed processes left, in a folder that this process alone uses

Everything is written under a temporary name in the same folder, flushed to disk, then renamed; the folder is flushed
too. Any failure, KeyboardInterrupt included, removes the temporary file or directory. A kill or a power cut can leave
one behind, with a name that starts with a dot. Permissions follow the umask, as for any new file; a file that is
replaced keeps its own. A symbolic link is followed. A device or a pipe is written to directly and never replaced.
Every failure is an OutputError that names the path.
"""

import errno
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, TextIO

from regard.errors import OutputError

DRAFT = re.compile(r"\..+\.[0-9a-f]{8}", re.DOTALL)
"""The temporary names of this module."""


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text, line ends unchanged."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    with atomic_file(path) as draft:
        draft.write_bytes(content)


def write_json(path: Path, value: object) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """A UTF-8 text file to write line by line."""
    with atomic_file(path) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        yield file


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path; what is written there becomes `path` when the block ends without an error."""
    with _output_error(path):
        if path.is_dir():
            raise OutputError(f"{path}: cannot be written (it is a directory)")
        if path.exists() and not path.is_file():  # a device or a pipe: replacing it with a file would destroy it
            yield path
            return
        target = Path(os.path.realpath(path))
        draft = _temporary_name(target)
        mode = _reserve(draft, target)
        try:
            yield draft
            draft.chmod(mode)  # safetensors makes its files private
            _sync(draft)
            draft.replace(target)
            _sync(target.parent)
        finally:
            draft.unlink(missing_ok=True)


@contextmanager
def new_directory(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary directory to fill; it becomes `path` when the block ends without an error."""
    if path.exists() and not (replace and path.is_dir()):
        raise OutputError(f"{path}: already exists; choose another name or remove it first")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: its parent directory does not exist")
    draft = _temporary_name(path)
    with _output_error(path):
        draft.mkdir()  # before the try: what somebody else put there is not removed
        try:
            yield draft
            file_mode = stat.S_IMODE(draft.stat().st_mode) & 0o666
            for inside in draft.rglob("*"):
                if not inside.is_dir():
                    inside.chmod(file_mode)
                _sync(inside)
            _sync(draft)
            with _moved_away(path) if replace and path.exists() else nullcontext():
                draft.rename(path)
            _sync(path.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def _moved_away(path: Path) -> Iterator[None]:
    """Rename a directory, and remove it when the block ends without an error: nothing can be renamed onto it."""
    old = _temporary_name(path)
    path.rename(old)
    try:
        yield
    except BaseException:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def create(path: Path) -> BinaryIO:
    """Open a new binary file inside the draft of `new_directory`, which makes it appear atomically."""
    return path.open("xb")


def set_aside(directory: Path, name: str) -> None:
    """Rename a directory; an earlier one of the new name is removed."""
    aside = directory.with_name(name)
    with _output_error(directory):
        shutil.rmtree(aside, ignore_errors=True)
        directory.rename(aside)
        _sync(aside.parent)


def remove_drafts(folder: Path) -> None:
    """Remove what killed processes left half-written in a folder that no other process writes to."""
    for draft in folder.glob(".*"):
        if not DRAFT.fullmatch(draft.name):
            continue
        if draft.is_dir() and not draft.is_symlink():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)


@contextmanager
def _output_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from None


def _temporary_name(path: Path) -> Path:
    return path.with_name(f".{path.name[:50]}.{os.urandom(4).hex()}")  # cut: a name has 255 bytes at most; see DRAFT


def _reserve(draft: Path, target: Path) -> int:
    """Create the draft as an empty file and return the permissions that the finished file gets."""
    if target.exists() and not os.access(target, os.W_OK):  # renaming would override a write protection
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    old_mode = target.stat().st_mode if target.exists() else None
    # O_EXCL: never a file or a link that somebody else put there
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        return stat.S_IMODE(os.fstat(descriptor).st_mode if old_mode is None else old_mode)
    finally:
        os.close(descriptor)


def _sync(path: Path) -> None:
    """Flush to disk, so that a power cut cannot leave a name without its content."""
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
