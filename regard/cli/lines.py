"""Lines of a file, a pipe or a terminal: those that are there by now, without waiting for more.

No thread reads ahead. One that still waits for standard input when the program ends holds the lock of its buffer, and
Python aborts.
"""

import os
import select
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from regard.errors import InputError

LINES_PER_BATCH = 256
"""Memory stays flat, however long the file."""
MAX_LINE = 100_000_000
"""Bytes: a line that never ends must not fill the memory."""
CHUNK = 1 << 16


class InputText(NamedTuple):
    """A text, and where it comes from, for error messages."""

    text: str
    location: str


def no_other_work() -> bool:
    return False


def read_lines(
    descriptor: int, location: Callable[[int], str], other_work: Callable[[], bool] = no_other_work
) -> Iterator[list[InputText]]:
    """Batches of whole lines: one line at a time from someone who types, many from a file.

    Where no line is there, this waits for one; or it yields an empty batch while there is other work.
    """
    reader = _Reader(descriptor, location)
    while not reader.ended:
        lines: list[InputText] = []
        while len(lines) < LINES_PER_BATCH and (line := reader.line(wait=not lines and not other_work())):
            lines.append(line)
        yield lines


class _Reader:
    """Takes lines from a descriptor."""

    def __init__(self, descriptor: int, location: Callable[[int], str]) -> None:
        self._descriptor, self._location = descriptor, location
        self._whole: deque[bytes] = deque()
        self._begun: list[bytes] = []
        """The parts of a line whose end has not been read."""
        self._length = 0
        self._number = 0
        self._at_end = False

    @property
    def ended(self) -> bool:
        return self._at_end and not self._whole

    def line(self, wait: bool) -> InputText | None:
        """The next line; None if there is none by now or, after waiting, no more."""
        while not self._whole and not self._at_end and self._is_ready(wait):
            self._read()
        if not self._whole:
            return None
        self._number += 1
        try:
            text = self._whole.popleft().decode("utf-8-sig" if self._number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            where = self._location(self._number)
            raise InputError(f"{where}: is not UTF-8 (byte {error.start + 1} of the line)") from None
        return InputText(text.rstrip("\r\n"), self._location(self._number))

    def _is_ready(self, wait: bool) -> bool:
        if os.name != "posix":  # Windows can only wait for sockets
            return True
        return bool(select.select([self._descriptor], [], [], None if wait else 0)[0])

    def _read(self) -> None:
        chunk = os.read(self._descriptor, CHUNK)
        first, *others = chunk.split(b"\n")
        self._add(first)
        for part in others:
            self._end_line()
            self._add(part)
        if not chunk:
            self._at_end = True
            if self._length:
                self._end_line()

    def _add(self, part: bytes) -> None:
        self._begun.append(part)
        self._length += len(part)
        if self._length > MAX_LINE:
            where = self._location(self._number + len(self._whole) + 1)
            raise InputError(f"{where}: is longer than {MAX_LINE // 10**6} MB; divide it into several lines")

    def _end_line(self) -> None:
        self._whole.append(b"".join(self._begun))
        self._begun, self._length = [], 0
