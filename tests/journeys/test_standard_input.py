"""Standard input that stays open: a pipe, a terminal. Nothing waits for its end."""

import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from journeys_types import Folders, Run, error_line

from regard.cli import lines

PROMPT = 60
"""Seconds after which a program that should have ended has not: far more than it takes, and less than for ever."""


@contextmanager
def started(*arguments: str | Path, stdin: int) -> Iterator[subprocess.Popen[bytes]]:
    """The program as a child that Ctrl-C reaches, whatever the caller has done with the signal."""
    command = [sys.executable, "-m", "regard", *map(str, arguments)]
    with subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_line(stream: IO[bytes] | None) -> bytes:
    assert stream is not None
    return stream.readline()


@pytest.mark.parametrize("kind", ["pipe", "terminal"])
@pytest.mark.parametrize("verb", [("translate", "--as-is", "-m", "translator"), ("embed", "-m", "reader")])
def test_an_error_ends_the_program_while_input_is_open(folders: Folders, kind: str, verb: tuple[str, ...]) -> None:
    ours, theirs = os.pipe()[::-1] if kind == "pipe" else pty.openpty()
    with started(*verb[:-1], folders[verb[-1]], stdin=theirs) as process:
        os.write(ours, b"I ate.\n\xff\n")
        _, messages = process.communicate(timeout=PROMPT)
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 4
    assert messages.decode().splitlines()[-1] == ("regard: line 2 of standard input: is not UTF-8 (byte 1 of the line)")
    assert "Fatal" not in messages.decode()


@pytest.mark.parametrize("kind", ["pipe", "terminal"])
def test_ctrl_c_ends_the_program_while_it_waits(folders: Folders, kind: str) -> None:
    ours, theirs = os.pipe()[::-1] if kind == "pipe" else pty.openpty()
    with started("embed", "-m", folders["reader"], stdin=theirs) as process:
        os.write(ours, b"I ate.\n")
        assert read_line(process.stdout).startswith(b"[")  # now it waits for the next line
        process.send_signal(signal.SIGINT)
        out, messages = process.communicate(timeout=PROMPT)
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 130
    assert out == b""
    assert messages.decode().split() == ["regard:", "stopped"]


def test_ctrl_c_in_the_terminal(folders: Folders) -> None:
    """The terminal itself sends the signal, to a program in a session of its own."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "regard", "embed", "-m", str(folders["reader"])]
    code = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    with subprocess.Popen(
        [sys.executable, "-c", code, *command],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        os.write(ours, b"I ate.\n")
        assert read_line(process.stdout).startswith(b"[")
        os.write(ours, termios.tcgetattr(theirs)[6][termios.VINTR])
        _, messages = process.communicate(timeout=PROMPT)
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 130, messages


def test_lines_come_as_they_are_typed(folders: Folders) -> None:
    ours, theirs = os.pipe()[::-1]
    with started("embed", "-m", folders["reader"], stdin=theirs) as process:
        for text in (b"I ate.\n", b"The bank.\r\n"):
            os.write(ours, text[:3])
            time.sleep(0.05)
            os.write(ours, text[3:])
            assert read_line(process.stdout).startswith(b"[")
        os.write(ours, b"The end")
        os.close(ours)
        os.close(theirs)
        out, _ = process.communicate(timeout=PROMPT)
    assert process.returncode == 0
    assert out.startswith(b"[")
    assert out.count(b"\n") == 1


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes("\ufeffone\r\n\n\ufefftwo\n".encode() + b"x" * 3 * lines.CHUNK + b"\n" * 300 + b"last")
    with path.open("rb", buffering=0) as file:
        batches = list(lines.read_lines(file.fileno(), lambda number: f"at {number}"))
    found = [line for batch in batches for line in batch]
    assert [line.text for line in found] == ["one", "", "\ufefftwo", "x" * 3 * lines.CHUNK, *[""] * 299, "last"]
    assert [line.location for line in found] == [f"at {number}" for number in range(1, 305)]
    assert max(map(len, batches)) == lines.LINES_PER_BATCH


def test_a_line_that_never_ends(regard: Run, folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 1_000_000)
    done = regard("translate", "-m", folders["translator"], "-i", "/dev/zero", code=4)
    assert error_line(done) == "regard: /dev/zero:1: is longer than 1 MB; divide it into several lines"
