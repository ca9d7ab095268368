"""Files appear complete under their name, or not at all. (Directories: tests/weights/test_new_directory.py.)"""

import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard import io
from regard.errors import OutputError


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_content_is_written_as_it_is(tmp_path: Path) -> None:
    io.write_text(tmp_path / "text", "Übung\r\nzwei\n")
    io.write_bytes(tmp_path / "bytes", b"\0\xff")
    io.write_json(tmp_path / "json", {"ü": [1, None]})
    with io.open_text(tmp_path / "lines") as file:
        file.write("one\ntwo\n")
        file.flush()
        assert not (tmp_path / "lines").exists()
    assert (tmp_path / "text").read_bytes() == "Übung\r\nzwei\n".encode()
    assert (tmp_path / "bytes").read_bytes() == b"\0\xff"
    assert (tmp_path / "json").read_text(encoding="utf-8") == '{\n  "ü": [\n    1,\n    null\n  ]\n}\n'
    assert (tmp_path / "lines").read_bytes() == b"one\ntwo\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bytes", "json", "lines", "text"]


@pytest.mark.parametrize("error", [ValueError("anything"), KeyboardInterrupt(), OutputError("a complaint")])
def test_a_failure_leaves_the_old_file_and_nothing_else(error: BaseException, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    with pytest.raises(type(error)), io.open_text(path) as file:  # noqa: PT012
        file.write("half")
        raise error
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_one_clear_line(tmp_path: Path) -> None:
    with (
        pytest.raises(OutputError, match=r"file: cannot be written \(No space left on device\)$"),
        io.open_text(tmp_path / "file"),
    ):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no/such/folder", "cannot be written (No such file or directory)"),
        ("file/inside", "cannot be written (Not a directory)"),
        ("folder", "cannot be written (it is a directory)"),
        ("x" * 300, "cannot be written (File name too long)"),
    ],
)
def test_a_path_that_cannot_be_written(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=f"^{re.escape(f'{tmp_path / name}: {message}')}$"):
        io.write_text(tmp_path / name, "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_a_long_name_can_be_written(tmp_path: Path) -> None:
    io.write_text(tmp_path / ("ü" * 120), "text")
    assert (tmp_path / ("ü" * 120)).read_text() == "text"


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    for umask, of_files, of_folders in ((0o022, 0o644, 0o755), (0o077, 0o600, 0o700), (0o002, 0o664, 0o775)):
        os.umask(umask)
        io.write_text(tmp_path / f"{umask}", "text")
        with io.atomic_file(tmp_path / f"{umask} by a library") as draft:
            draft.chmod(0o600)
        with io.new_directory(tmp_path / f"{umask} folder") as folder:
            (folder / "file").touch(0o600)
        files = (f"{umask}", f"{umask} by a library", f"{umask} folder/file")
        assert {mode(tmp_path / file) for file in files} == {of_files}
        assert mode(tmp_path / f"{umask} folder") == of_folders


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "private").touch(0o600)
    io.write_text(tmp_path / "private", "secret")
    assert mode(tmp_path / "private") == 0o600


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_write_protected_file_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("precious")
    (tmp_path / "kept").chmod(0o444)
    with pytest.raises(OutputError, match="Permission denied"):
        io.write_text(tmp_path / "kept", "other")
    assert (tmp_path / "kept").read_text() == "precious"


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name in ("there", "not yet there"):
        target, link = tmp_path / "elsewhere" / name, tmp_path / name
        link.symlink_to(target)
        if name == "there":
            target.write_text("before")
        io.write_text(link, "after")
        assert link.is_symlink()
        assert target.read_text() == "after"
    assert len(list((tmp_path / "elsewhere").iterdir())) == 2


def test_a_device_is_not_replaced() -> None:
    io.write_text(Path(os.devnull), "text")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_a_named_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    io.write_text(pipe, "through")
    reader.join(10)
    assert read == ["through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_standard_output_has_a_name_too() -> None:
    program = "from pathlib import Path; from regard import io; io.write_text(Path('/dev/stdout'), 'text')"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"text"


def test_two_writers_at_once(tmp_path: Path) -> None:
    path, contents = tmp_path / "file", [letter * 100_000 for letter in "abcdefgh"]
    writers = [threading.Thread(target=io.write_text, args=(path, content)) for content in contents]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert path.read_text() in contents
    assert list(tmp_path.iterdir()) == [path]
