"""Run regard in this process, and say what is wrong with how that went."""

import os
import re
import stat
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

EXIT_CODES = (0, 2, 3, 4, 5, 6, 7, 8)
"""Those of regard/errors.py. 70 is a bug in regard."""
LONGEST_LINE = 6100
"""Characters of an error message: 1,000, each of which may be escaped."""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What a terminal obeys, or what reorders a line."""
PRINTED: list[Path] = []
"""The files that take this process's standard output and error."""


class Failure(Exception):
    """The symptom, with the place in regard's source where there is one."""


class Done(NamedTuple):
    code: int
    out: str
    err: str


def silence(path: Path) -> None:
    """Send standard output and error to files, on the level of descriptors: Rust and C print, too."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, stream in ((1, "out"), (2, "err")):
        file = path.with_suffix(f".{stream}")
        PRINTED.append(file)
        os.dup2(os.open(file, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600), descriptor)


@contextmanager
def silenced(path: Path) -> Iterator[None]:
    """The same for the time of the block."""
    kept = [os.dup(descriptor) for descriptor in range(3)]
    silence(path)
    try:
        yield
    finally:
        PRINTED.clear()
        sys.stdout.flush()
        for descriptor, old in enumerate(kept):
            os.dup2(old, descriptor)
            os.close(old)


def regard(*arguments: str | Path) -> Done:
    """Run a verb, and check how it ended: its exit code, and what it printed."""
    from regard.cli.main import main

    os.environ["REGARD_DEBUG"] = "1"  # a bug prints its traceback, which has its place
    return checked(" ".join(map(str, arguments[:1])), lambda: main([str(argument) for argument in arguments]))


def as_verb(name: str, work: Callable[[], object]) -> Done:
    """Do a part of a verb's work, with its errors reported as by the command line: much faster than all of it."""
    from regard.cli import output
    from regard.errors import RegardError

    def run() -> int:
        try:
            work()
        except RegardError as error:
            output.error(str(error))
            return error.exit_code
        except OSError as error:  # as cli/main.py says it
            output.error(f"{error.filename or 'the output'}: {error.strerror or error}")
            return 6
        return 0

    return checked(name, run)


def checked(name: str, run: Callable[[], int]) -> Done:
    for file in PRINTED:
        os.truncate(file, 0)
    try:
        code = run()
    except BaseException as error:  # a panic of Rust is not an Exception
        raise Failure(f"{name}: {type(error).__name__} in {place_of(error)}: {one_line(str(error))}") from None
    sys.stdout.flush()
    sys.stderr.flush()
    out, err = (file.read_bytes().decode("utf-8", "replace") for file in PRINTED)
    if code not in EXIT_CODES:
        raise Failure(f"{name}: exit {code}: {_last_place(err)}: {one_line(err[-300:])}")
    if code:
        _check_message(name, err)
    return Done(code, out, err)


def _check_message(name: str, err: str) -> None:
    """One clear line."""
    *_, last = [line for line in err.split("\n") if line] or [""]
    if not last.startswith("regard: "):
        raise Failure(f"{name}: the last line is not a message: {one_line(last)}")
    if sum(line.startswith("regard: ") for line in err.split("\n")) > 1:
        raise Failure(f"{name}: a message of several lines: {one_line(err)}")
    if len(last) > LONGEST_LINE:
        raise Failure(f"{name}: a message of more than {LONGEST_LINE:,} characters: {one_line(last[:200])}")
    if found := CONTROL.search(err):
        raise Failure(f"{name}: control character U+{ord(found[0]):04X} in a message: {one_line(last)}")
    if "Traceback (most recent call last)" in err:
        raise Failure(f"{name}: a traceback: {_last_place(err)}: {one_line(err[-300:])}")


def no_controls(name: str, printed: str) -> None:
    """For what is printed of a file's content to a terminal."""
    if found := CONTROL.search(printed):
        start = max(0, found.start() - 40)
        raise Failure(f"{name}: prints control character U+{ord(found[0]):04X}: {printed[start : found.start() + 9]!r}")


@contextmanager
def nothing_left(folder: Path, *new: Path) -> Iterator[None]:
    """Check that the block changes no file in the folder and leaves none, except those named."""
    before = _listing(folder)
    yield
    after = _listing(folder)
    for path in new:
        after = {name: entry for name, entry in after.items() if not Path(name).is_relative_to(path)}
    if left := after.keys() - before.keys():
        raise Failure(f"left behind: {sorted(Path(name).name for name in left)[:3]}")
    if changed := [name for name, entry in before.items() if after.get(name) != entry]:
        raise Failure(f"changed or removed: {[Path(name).name for name in changed][:3]}")


def _listing(folder: Path) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for path in folder.rglob("*"):
        seen = path.lstat()
        is_folder = stat.S_ISDIR(seen.st_mode)
        found[str(path)] = (seen.st_mode, *(() if is_folder else (seen.st_size, seen.st_mtime_ns)))
    return found


def place_of(error: BaseException) -> str:
    """The file and line of regard in which it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/regard/" in frame.filename] or frames
    return f"{_short(ours[-1].filename)}:{ours[-1].lineno}" if ours else "?"


def _last_place(err: str) -> str:
    found = re.findall(r'File "([^"]*/regard/[^"]*)", line (\d+)', err)
    return f"{_short(found[-1][0])}:{found[-1][1]}" if found else "?"


def _short(name: str) -> str:
    return name.rsplit("/regard/" if "/regard/" in name else "/", 1)[-1]


def one_line(text: str) -> str:
    return ascii(" ".join(text.split()))[1:-1][:300]
