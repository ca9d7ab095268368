"""A tokenizer's files: read, checked, and written back byte for byte.

Their contents stay in memory (tens of megabytes for the largest vocabularies), so that `save` writes exactly what was
loaded, even if the directory has moved since or is the one written to.
"""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.errors import OutputError, TokenizerError
from regard.io import write_bytes


def read_files(directory: Path, required: Iterable[str], optional: Iterable[str] = ()) -> dict[str, bytes]:
    """File name -> content; an optional file may be absent."""
    names = [*required, *(name for name in optional if exists(directory / name))]
    return {name: _read(directory / name) for name in names}


def exists(path: Path) -> bool:
    return os.path.lexists(path)  # a dangling link counts: ignoring it would hide a broken download


def decode_text(raw: bytes, path: Path) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path}: is not UTF-8 text (byte {error.start})") from None


def parse_json(raw: bytes, path: Path) -> dict[str, Any]:
    try:
        value = json.loads(decode_text(raw, path))
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{path}: is not valid JSON ({one_line(error)})") from None
    if not isinstance(value, dict):
        raise TokenizerError(f"{path}: must hold a JSON object, not a {type(value).__name__}")
    return value


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write each file atomically."""
    for name, content in files.items():
        path = directory / name
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{path}: cannot be written ({error.strerror})") from None
        write_bytes(path, content)


@contextlib.contextmanager
def tokenizer_errors(path: Path) -> Iterator[None]:
    """Turn any error of a tokenizer library into a TokenizerError: one line that names the file.

    A Rust panic arrives as `pyo3_runtime.PanicException`, which is not an `Exception` and cannot be
    imported; a tokenizer.json with a missing template token is enough to cause one.
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise  # KeyboardInterrupt and the like
        raise TokenizerError(f"{path}: cannot be used as a tokenizer ({one_line(error)})") from None


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise TokenizerError(f"{path}: is missing, and the tokenizer needs it") from None
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read ({error.strerror})") from None
