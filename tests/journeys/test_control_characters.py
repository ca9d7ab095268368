"""What a stranger wrote does not steer the terminal: escapes in texts, names of files, and pieces."""

from pathlib import Path

import pytest
from journeys_types import Folders, Run

RED = "\x1b[31m"


@pytest.mark.parametrize(
    "arguments", [("trace", f"a {RED}b\x9b1m \u202ec", "-m", "reader"), ("fill", "[MASK]", "-m", "filler")]
)
def test_tables(regard: Run, folders: Folders, arguments: tuple[str, ...]) -> None:
    done = regard(*(folders.get(word, word) for word in arguments), "--top", "400")
    assert not set(done.stdout + done.stderr) & set("\x1b\x9b\u202e\x07\x08\r")


def test_pieces(regard: Run, folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "one").write_text(f"the dog{RED}\u202e and \x07the cat\n", encoding="utf-8")
    done = regard("score", "one", "one", "-m", folders["translator"], "--tokens")
    assert not set(done.stdout + done.stderr) & set("\x1b\u202e\x07")


def test_names_of_files(regard: Run, folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.jsonl").write_text('{"kind": "valid", "update": 1, "bleu": 2.5}\n')
    name = f"{RED}\u202e.png"
    assert regard("plot", "run", "-o", name).stdout == "\\x1b[31m\\u202e.png\n"
    assert (tmp_path / name).exists()
    (tmp_path / "one").write_text("the dog\n" * 3)
    (tmp_path / RED).write_text("the cat\n" * 3)
    done = regard("evaluate", "one", "one", "--hypotheses", "one", "--compare", RED)
    assert "\x1b" not in done.stdout
    assert "\\x1b[31m" in done.stdout
    (tmp_path / f"{RED}.txt").write_text("1 2 3\n")
    done = regard("translate-file", f"{RED}.txt", "-o", f"{RED}.out", "-m", folders["translator"])
    assert "\\x1b[31m.out: 1 passage, 1 sentence" in done.stderr
    assert "\x1b" not in done.stderr


def test_a_translation_is_printed_as_it_is(regard: Run, folders: Folders) -> None:
    """It belongs to the user, who may want to write it to a file."""
    assert regard("translate", f"1{RED} 2", "-m", folders["translator"]).stdout == f"1{RED} 2\n"
