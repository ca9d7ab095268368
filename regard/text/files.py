"""A tokenizer's files: read whole, checked, and written back byte for byte.

They are kept in memory as they were read (tens of megabytes for the largest vocabularies), so that `save`
gives back exactly what was loaded, even if the directory has since moved or is the one written to.
"""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.errors import OutputError, TokenizerError
from regard.io import write_bytes


def read(directory: Path, required: Iterable[str], optional: Iterable[str] = ()) -> dict[str, bytes]:
    """File name -> content; an optional file may be absent."""
    names = [*required, *(name for name in optional if is_there(directory / name))]
    return {name: _read(directory / name) for name in names}


def is_there(path: Path) -> bool:
    return os.path.lexists(path)  # a dangling link counts: to pass over it would hide a broken download


def text_of(raw: bytes, path: Path) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path}: is not UTF-8 text (byte {error.start})") from None


def json_of(raw: bytes, path: Path) -> dict[str, Any]:
    try:
        value = json.loads(text_of(raw, path))
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{path}: is not valid JSON ({one_line(error)})") from None
    if not isinstance(value, dict):
        raise TokenizerError(f"{path}: must hold a JSON object, not a {type(value).__name__}")
    return value


def write(directory: Path, files: Mapping[str, bytes]) -> None:
    """Each file appears under its name complete or not at all."""
    for name, content in files.items():
        path = directory / name
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{path}: cannot be written ({error.strerror})") from None
        write_bytes(path, content)


@contextlib.contextmanager
def blame(path: Path) -> Iterator[None]:
    """Turn whatever a tokenizer library raises into one line that names the file it was built from.

    A Rust panic arrives as `pyo3_runtime.PanicException`, which is not an `Exception` and cannot be
    imported; a tokenizer.json with a missing template token is enough to cause one.
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise  # KeyboardInterrupt and its kin
        raise TokenizerError(f"{path}: cannot be used as a tokenizer ({one_line(error)})") from None


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise TokenizerError(f"{path}: is missing, this tokenizer cannot work without it") from None
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read ({error.strerror})") from None
