"""A full disk and Ctrl-C: what was there before stays, and nothing half-written is left."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from journeys_types import Folders, Run, error_line

LIMIT = 50_000
"""Bytes that a file may have, as if the disk were full then: Python ignores the signal, and writing fails."""
PATIENCE = 120


@contextmanager
def small_disk() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


NUMBERS = "1 2 3\n" * LIMIT
"""Needs no model."""
VERBS = {
    "translate-file": ("translate-file", "numbers.txt", "-o", "old.txt", "-m", "translator"),
    "translate": ("translate", "-i", "numbers.txt", "-o", "old.txt", "-m", "translator"),
    "evaluate": ("evaluate", "long.txt", "long.txt", "-o", "old.txt", "-m", "translator", "--max-tokens", "1"),
    "plot": ("plot", "run", "-o", "old.png"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_full_disk_leaves_the_old_file(regard: Run, folders: Folders, tmp_path: Path, verb: str) -> None:
    command = [folders["translator"] if word == "translator" else word for word in VERBS[verb]]
    name = command[command.index("-o") + 1]
    (tmp_path / "numbers.txt").write_text(NUMBERS)
    (tmp_path / "long.txt").write_text("\n" * LIMIT + "dog\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.jsonl").write_text('{"kind": "valid", "update": 1, "bleu": 2.5}\n')
    regard("translate", "dog", "-m", folders["translator"])  # compiles what a small disk has no room for
    (tmp_path / name).write_text("old")
    files = sorted(os.listdir(tmp_path))
    with small_disk():
        done = regard(*command, code=6)
    assert done.stderr.splitlines()[-1] == f"regard: {name}: cannot be written (File too large)"
    assert (tmp_path / name).read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == files


@pytest.mark.parametrize(
    "arguments",
    [
        ("translate", "dog", "-m", "translator"),
        ("embed", "dog", "-m", "reader"),
        ("trace", "dog", "-m", "reader"),
        ("--help",),
    ],
    ids=lambda arguments: arguments[0],
)
def test_standard_output_on_a_full_disk(folders: Folders, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    words = [str(folders.get(word, word)) for word in arguments]
    command = (sys.executable, "-m", "regard", *words)
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, cwd=tmp_path)
        assert done.returncode == 6
        assert done.stderr.decode() == "regard: the output: No space left on device\n"


def test_standard_error_on_a_full_disk(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-m", "regard", "info", "none"], stderr=full, cwd=tmp_path)
    assert done.returncode == 5


@pytest.mark.parametrize(("closed", "directory", "code"), [(1, "reader", 0), (2, "none", 5)])
def test_a_closed_stream(folders: Folders, tmp_path: Path, closed: int, directory: str, code: int) -> None:
    """As with >&- and 2>&-."""
    command = [sys.executable, "-m", "regard", "info", str(folders.get(directory, directory))]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, preexec_fn=lambda: os.close(closed))
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


@pytest.mark.parametrize("verb", ["translate", "translate-file"])
def test_ctrl_c_leaves_no_file(folders: Folders, tmp_path: Path, verb: str) -> None:
    lines = [f"The animal {'slowly ' * (number % 7)}crossed street {number}.\n" for number in range(20_000)]
    (tmp_path / "long.txt").write_text("".join(lines))
    given = ("-i", "long.txt") if verb == "translate" else ("long.txt",)
    command = [sys.executable, "-m", "regard", verb, *given, "-o", "out.txt", "-m", str(folders["translator"])]
    (tmp_path / "out.txt").write_text("old")
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stderr is not None
        if verb == "translate":
            wait_for(lambda: any(path.stat().st_size for path in tmp_path.glob(".out.txt.*")))
        else:
            assert b"passages" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        messages = process.stderr.read().decode()
        assert process.wait(PATIENCE) == 130
    assert messages.splitlines()[-1] == "regard: stopped"
    assert "Traceback" not in messages
    assert (tmp_path / "out.txt").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["long.txt", "out.txt"]


def wait_for(done: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_an_endless_document(regard: Run, folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.documents import glossary
    from regard.documents.formats import files

    monkeypatch.setattr(files, "MAX_BYTES", 1_000_000)
    monkeypatch.setattr(glossary, "MAX_BYTES", 1_000_000)
    for command in (
        ("translate-file", "/dev/zero", "-o", "out.txt", "--format", "plain"),
        ("translate", "dog", "--glossary", "/dev/zero"),
    ):
        done = regard(*command, "-m", folders["translator"], code=4)
        assert error_line(done) == "regard: /dev/zero: is larger than 1 MB; divide it into several files"
