"""SHA256SUMS: the hash of every file of a finished model, in the format of `sha256sum`.

    with new_model(path) as draft:    a new model directory to fill; the hashes are written at the end
    refresh(directory, name)          a file of a finished model was replaced
    verify(directory)                 compare: ok, mismatch, or none without a SHA256SUMS

Loading does not verify, since that reads every byte; `regard info` does, and so does `sha256sum --check SHA256SUMS`.
A hash finds damage. It does not show who wrote a file.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.config import open_file, read_file
from regard.errors import ModelError
from regard.io import new_directory, write_text

SHA256SUMS = "SHA256SUMS"
MAX_BYTES = 1 << 20
LINE = re.compile(r"([0-9a-f]{64}) [ *]([^/\\\0]+(?:/[^/\\\0]+)?)")
"""A hash and a name: that of a file in the directory or in one of its folders."""


@dataclass(frozen=True)
class Verification:
    """How the files of a model compare with its SHA256SUMS."""

    status: Literal["ok", "mismatch", "none"]
    problems: tuple[str, ...] = ()
    """A file and what is wrong with it, for each file that does not match."""


@contextmanager
def new_model(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary directory to fill; it becomes the model `path` when the block ends without an error."""
    with new_directory(path, replace=replace) as draft:
        yield draft
        files = sorted(file.relative_to(draft).as_posix() for file in draft.rglob("*") if file.is_file())
        _write(draft, {name: _hash(draft / name) for name in files})


def refresh(directory: Path, name: str) -> None:
    """Update the hash of a file that was replaced, in a model that has hashes."""
    if (directory / SHA256SUMS).is_file():
        _write(directory, _read(directory) | {name: _hash(directory / name)})


def verify(directory: Path) -> Verification:
    if not (directory / SHA256SUMS).is_file():
        return Verification("none")
    problems = [
        f"{name} {problem}"
        for name, digest in _read(directory).items()
        if (problem := _problem(directory / name, digest))
    ]
    return Verification("mismatch" if problems else "ok", tuple(problems))


def _problem(path: Path, digest: str) -> str:
    try:
        return "" if _hash(path) == digest else "has changed"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _hash(path: Path) -> str:
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(directory: Path, digests: dict[str, str]) -> None:
    write_text(directory / SHA256SUMS, "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items())))


def _read(directory: Path) -> dict[str, str]:
    """The hash of each file, by its name."""
    path = directory / SHA256SUMS
    try:
        lines = read_file(path, MAX_BYTES).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ModelError(f"{path}: cannot be read as text of at most {MAX_BYTES:,} bytes") from None
    digests: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        found = LINE.fullmatch(line)
        if found is None or ".." in found[2].split("/"):
            raise ModelError(f"{path}:{number}: must be a hash, two spaces and the name of a file of this directory")
        digests[found[2]] = found[1]
    return digests
