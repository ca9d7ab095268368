"""What a stranger's model directory can do to a terminal, to a folder and to the files next to it: nothing."""

import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from journeys_types import Done, Folders, Run, error_line

from regard.documents.confidence import FILE as CONFIDENCE
from regard.documents.language_detector import FILE as LANGUAGES
from regard.weights.checksums import SHA256SUMS, verify
from regard.weights.model_directory import CARD

SAMPLE = Path(__file__).parents[2] / "recipes" / "sample"
ESCAPE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


@pytest.fixture
def mine(folders: Folders, tmp_path: Path) -> Path:
    """A translator to break."""
    return Path(shutil.copytree(folders["translator"], tmp_path / "mine"))


@pytest.fixture
def _private() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def harmless(done: Done) -> str:
    assert CONTROL.findall(done.stdout + done.stderr) == []
    return done.stdout


def card(**changes: object) -> str:
    return json.dumps({"name": "n", "about": "a", "pairs": ["en-de"]} | changes, ensure_ascii=False)


# ---- the terminal ----


def test_a_card_cannot_move_the_cursor(regard: Run, mine: Path) -> None:
    (mine / CARD).write_text(
        card(name=ESCAPE, about=f"about {ESCAPE}", data=["one\ntwo"], figures=[{f"BLEU{ESCAPE}": ESCAPE}])
        .replace("\x1b", "\\u001b")
        .replace("\x07", "\\u0007"),
        encoding="utf-8",
    )
    shown = harmless(regard("info", mine))
    assert r"about \x1b[2J\x1b]0;owned\x07\x9b31m\u202e" in shown
    assert r"one\ntwo" in shown
    about = json.loads(harmless(regard("info", mine, "--json")))
    assert about["card"]["about"] == f"about {ESCAPE}"


def test_labels_cannot_move_the_cursor(regard: Run, folders: Folders, tmp_path: Path) -> None:
    judge = Path(shutil.copytree(folders["judge"], tmp_path / "judge"))
    content = json.loads((judge / "config.json").read_text())
    content["model"]["labels"] = [ESCAPE, "good"]
    (judge / "config.json").write_text(json.dumps(content))
    assert r"\x1b[2J" in harmless(regard("classify", "The bank.", "-m", judge))
    assert ESCAPE in json.loads(harmless(regard("classify", "The bank.", "-m", judge, "--json")))
    assert r"\x1b[2J" in harmless(regard("info", judge))


def test_an_error_is_one_short_line(regard: Run, mine: Path) -> None:
    for key in (ESCAPE, "k" * 5_000_000, f"k\n{ESCAPE}" * 100_000):
        (mine / "config.json").write_text(json.dumps({"family": "seq2seq", "format": 2, key: 1}))
        done = regard("info", mine, code=5)
        harmless(done)
        line = error_line(done)
        assert "unknown key" in line
        assert len(line) < 7000


# ---- files ----


def test_a_pipe_in_the_place_of_a_tokenizer(regard: Run, mine: Path) -> None:
    (mine / "vocab.json").unlink()
    os.mkfifo(mine / "vocab.json")
    done = regard("translate", "I ate an apple.", "-m", mine, code=5)
    assert error_line(done).endswith("vocab.json: cannot be read (it is not a regular file)")


@pytest.mark.usefixtures("_private")
def test_models_obey_the_umask(regard: Run, mine: Path, tmp_path: Path) -> None:
    (mine / CONFIDENCE).write_text("{}")
    regard("convert", mine, "new")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()} == {0o600}


def test_a_planted_link_is_not_followed(
    regard: Run, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even somebody who guesses the temporary name cannot make the program write, or remove, anything else."""
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("precious")
    monkeypatch.setattr(os, "urandom", lambda count: b"\0" * count)
    (tmp_path / ".out.txt.00000000").symlink_to("victim")
    (tmp_path / ".new.00000000").symlink_to("folder")
    done = regard("translate", "I ate.", "-m", mine, "-o", "out.txt", code=6)
    assert "File exists" in error_line(done)
    regard("convert", mine, "new", code=6)
    assert (tmp_path / "victim").read_text() == (tmp_path / "folder" / "file").read_text() == "precious"
    assert (tmp_path / ".out.txt.00000000").is_symlink()


def test_a_converted_model_is_complete_when_it_appears(regard: Run, mine: Path, tmp_path: Path) -> None:
    (mine / CARD).write_text(card())
    (mine / CONFIDENCE).write_text("{}")
    (mine / LANGUAGES).write_text('{"format": "regard languages 1", "known": ["en"], "scores": {}}')
    regard("convert", mine, "new")
    assert all((tmp_path / "new" / name).read_bytes() == (mine / name).read_bytes() for name in (CARD, CONFIDENCE))
    assert verify(tmp_path / "new").status == "ok"
    assert LANGUAGES in (tmp_path / "new" / SHA256SUMS).read_text()
    with (mine / CARD).open("r+b") as file:  # it cannot be copied: no directory at all
        file.truncate(1 << 30)
    assert "card.json: cannot be read" in error_line(regard("convert", mine, "newer", code=5))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "new"]


def test_info_verifies_the_files(regard: Run, mine: Path, tmp_path: Path) -> None:
    assert re.search(r"checksums +none", regard("info", mine).stdout)
    regard("convert", mine, "new")
    assert re.search(r"checksums +ok\n", regard("info", "new").stdout)
    assert json.loads(regard("info", "new", "--json").stdout)["checksums"] == {"status": "ok", "problems": []}
    (tmp_path / "new" / "generation_config.json").write_text("{}")
    assert re.search(r"checksums +mismatch\n +generation_config.json has changed\n", regard("info", "new").stdout)


def test_calibrating_keeps_the_hashes(regard: Run, tmp_path: Path) -> None:
    regard("convert", "box", "new")
    lines = [(SAMPLE / f"valid.{side}").read_text(encoding="utf-8").splitlines()[:100] for side in ("en", "de")]
    for name, side in zip(("a", "b"), lines, strict=True):
        (tmp_path / name).write_text("\n".join(side) + "\n", encoding="utf-8")
    before = (tmp_path / "new" / CONFIDENCE).read_bytes()
    regard("calibrate", "new", "a", "b", "--to", "de")
    assert (tmp_path / "new" / CONFIDENCE).read_bytes() != before
    assert verify(tmp_path / "new").status == "ok"
