"""What people get wrong: one clear line each, the exit code from the tree, no traceback, nothing written."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from journeys_types import Done, Folders, Run

TEXT = "I ate an apple."


def complaint(done: Done) -> str:
    """The one line that was said, on standard error."""
    lines = done.stderr.splitlines()
    assert done.stdout == ""
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("regard: ")
    return lines[0]


@pytest.fixture
def broken(folders: Folders, tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(folders["writer"], tmp_path / "broken"))


def test_the_program_itself() -> None:
    """The others run inside this process; here is one as its user runs it."""
    done = subprocess.run([sys.executable, "-m", "regard", "info", "nowhere"], capture_output=True, text=True)
    assert done.returncode == 5
    assert "no such directory" in complaint(Done(done.stdout, done.stderr))


def test_no_such_directory(regard: Run) -> None:
    assert "no such directory" in complaint(regard("info", "nowhere", code=5))


def test_a_file_is_no_directory(regard: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hello")
    assert "is a file" in complaint(regard("info", "file", code=5))


def test_an_empty_directory(regard: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "no config.json" in complaint(regard("info", "empty", code=5))


def test_missing_weights(regard: Run, broken: Path) -> None:
    (broken / "model.safetensors").unlink()
    assert "there is no model.safetensors" in complaint(regard("generate", TEXT, "-m", broken, code=5))


def test_truncated_weights(regard: Run, broken: Path) -> None:
    path = broken / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    assert "cut short" in complaint(regard("generate", TEXT, "-m", broken, code=5))


def change(directory: Path, **settings: object) -> None:
    path = directory / "config.json"
    raw = json.loads(path.read_text())
    raw["model"] |= settings
    path.write_text(json.dumps(raw))


def test_wrong_shapes(regard: Run, broken: Path) -> None:
    change(broken, inner=80)
    assert "has shape" in complaint(regard("info", broken, code=5))


def test_missing_and_left_over_tensors(regard: Run, broken: Path) -> None:
    change(broken, layers=3)
    assert "missing from it" in complaint(regard("info", broken, code=5))
    change(broken, layers=1)
    assert "left over in it" in complaint(regard("info", broken, code=5))


def test_unknown_key_suggests_the_nearest(regard: Run, broken: Path) -> None:
    change(broken, kv_head=4)
    assert "'kv_head' - did you mean 'kv_heads'?" in complaint(regard("info", broken, code=3))


def test_unknown_family(regard: Run, broken: Path) -> None:
    path = broken / "config.json"
    path.write_text(path.read_text().replace('"decoder"', '"decodr"'))
    assert "did you mean 'decoder'?" in complaint(regard("info", broken, code=5))


def test_a_vocabulary_that_does_not_fit(regard: Run, broken: Path, folders: Folders) -> None:
    tokenizer = json.loads((broken / "tokenizer.json").read_text())
    tokenizer["added_tokens"].append(tokenizer["added_tokens"][-1] | {"id": 9000, "content": "<extra>"})
    tokenizer["model"]["vocab"]["<extra>"] = 9000
    (broken / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert "9,001 pieces" in complaint(regard("info", broken, code=5))


def test_text_longer_than_the_context(regard: Run, folders: Folders) -> None:
    assert "reads at most 48" in complaint(regard("generate", "apple " * 60, "-m", folders["writer"], code=4))


@pytest.mark.parametrize("verb", ["trace", "classify"])
@pytest.mark.parametrize("text", ["", "   "])
def test_empty_text(regard: Run, folders: Folders, verb: str, text: str) -> None:
    assert "empty" in complaint(regard(verb, text, "-m", folders["judge"], code=4))


def test_lone_surrogate(regard: Run, folders: Folders) -> None:
    # an undecodable byte on the command line reaches Python as half of a surrogate pair
    done = regard("trace", b"caf\xe9".decode("utf-8", "surrogateescape"), "-m", folders["judge"], code=4)
    assert "\\udce9" in complaint(done).lower() or "U+DCE9" in complaint(done)


def test_not_for_this_family(regard: Run, folders: Folders) -> None:
    assert "cannot translate; it can generate" in complaint(regard("translate", TEXT, "-m", folders["writer"], code=2))


def test_no_tokenizer(regard: Run, folders: Folders) -> None:
    assert "no tokenizer" in complaint(regard("generate", TEXT, "-m", folders["mute"], code=5))


def test_unknown_verb_and_option(regard: Run) -> None:
    assert "did you mean 'trace'?" in complaint(regard("trase", code=2))
    assert "--modle" in complaint(regard("info", "x", "--modle", code=2))


def test_unknown_device(regard: Run, folders: Folders) -> None:
    complaint(regard("embed", TEXT, "-m", folders["reader"], "--device", "gpu", code=2))


def test_convert_over_something(regard: Run, folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    assert "is there already" in complaint(regard("convert", folders["writer"], "taken", code=6))
    assert list((tmp_path / "taken").iterdir()) == []


def test_convert_what_they_cannot_say(regard: Run, folders: Folders, tmp_path: Path) -> None:
    done = regard("convert", folders["writer"], "new", "--to", "huggingface", code=3)
    assert "does not know" in complaint(done)
    assert list(tmp_path.iterdir()) == []


def test_bad_bytes_on_standard_input(regard: Run, folders: Folders) -> None:
    complaint(regard("embed", "-m", folders["reader"], stdin=b"caf\xe9\n", code=4))


def test_a_device_is_written_to_and_stays_a_device(regard: Run, folders: Folders, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    link, real = tmp_path / "link", tmp_path / "real"
    real.write_text("old")
    link.symlink_to(real)
    regard("translate", TEXT, "-m", folders["translator"], "-o", link)
    assert link.is_symlink()
    assert real.read_text() != "old"
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True)
    regard("translate", TEXT, "-m", folders["translator"], "-o", tmp_path / "pipe")
    assert reader.communicate(timeout=20)[0] == real.read_text()
    assert (tmp_path / "pipe").is_fifo()
    assert "is a directory" in complaint(regard("translate", TEXT, "-m", folders["translator"], "-o", ".", code=6))


def test_a_block_that_is_not_there(regard: Run, folders: Folders) -> None:
    assert "has 2 blocks" in complaint(regard("trace", TEXT, "-m", folders["writer"], "--block", "3", code=2))
    (block,) = json.loads(regard("trace", TEXT, "-m", folders["writer"], "--block", "2", "--json").stdout)["blocks"]
    assert block["index"] == 1


def test_a_target_is_for_translators(regard: Run, folders: Folders) -> None:
    assert "--target" in complaint(regard("trace", TEXT, "-m", folders["writer"], "--target", "x", code=2))


def test_nothing_said_is_a_question_for_help(regard: Run) -> None:
    assert "Verbs:" in regard().stdout
