"""Bad input: one clear line, the right exit code, no traceback, nothing written."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from journeys_types import Done, Folders, Run, error_line

TEXT = "I ate an apple."


@pytest.fixture
def broken(folders: Folders, tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(folders["writer"], tmp_path / "broken"))


def test_the_program_itself() -> None:
    """In a process of its own; the other tests call main()."""
    done = subprocess.run([sys.executable, "-m", "regard", "info", "nowhere"], capture_output=True, text=True)
    assert done.returncode == 5
    assert "no such directory" in error_line(Done(done.stdout, done.stderr))


def test_no_such_directory(regard: Run) -> None:
    assert "no such directory" in error_line(regard("info", "nowhere", code=5))


def test_a_file_is_not_a_directory(regard: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hello")
    assert "is a file" in error_line(regard("info", "file", code=5))


def test_an_empty_directory(regard: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "config.json is missing" in error_line(regard("info", "empty", code=5))


def test_missing_weights(regard: Run, broken: Path) -> None:
    (broken / "model.safetensors").unlink()
    assert "model.safetensors is missing" in error_line(regard("generate", TEXT, "-m", broken, code=5))


def test_truncated_weights(regard: Run, broken: Path) -> None:
    path = broken / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    assert "truncated" in error_line(regard("generate", TEXT, "-m", broken, code=5))


def change(directory: Path, **settings: object) -> None:
    path = directory / "config.json"
    raw = json.loads(path.read_text())
    raw["model"] |= settings
    path.write_text(json.dumps(raw))


def test_wrong_shapes(regard: Run, broken: Path) -> None:
    change(broken, inner=80)
    assert "has shape" in error_line(regard("info", broken, code=5))


def test_missing_and_left_over_tensors(regard: Run, broken: Path) -> None:
    change(broken, layers=3)
    assert "missing: " in error_line(regard("info", broken, code=5))
    change(broken, layers=1)
    assert "left over: " in error_line(regard("info", broken, code=5))


def test_unknown_key_suggests_the_nearest(regard: Run, broken: Path) -> None:
    change(broken, kv_head=4)
    assert "'kv_head' - did you mean 'kv_heads'?" in error_line(regard("info", broken, code=3))


def test_unknown_family(regard: Run, broken: Path) -> None:
    path = broken / "config.json"
    path.write_text(path.read_text().replace('"decoder"', '"decodr"'))
    assert "did you mean 'decoder'?" in error_line(regard("info", broken, code=5))


def test_a_vocabulary_that_does_not_fit(regard: Run, broken: Path, folders: Folders) -> None:
    tokenizer = json.loads((broken / "tokenizer.json").read_text())
    tokenizer["added_tokens"].append(tokenizer["added_tokens"][-1] | {"id": 9000, "content": "<extra>"})
    tokenizer["model"]["vocab"]["<extra>"] = 9000
    (broken / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert "9,001 pieces" in error_line(regard("info", broken, code=5))


def test_text_longer_than_the_context(regard: Run, folders: Folders) -> None:
    assert "reads at most 48" in error_line(regard("generate", "apple " * 60, "-m", folders["writer"], code=4))


@pytest.mark.parametrize("verb", ["trace", "classify"])
@pytest.mark.parametrize("text", ["", "   "])
def test_empty_text(regard: Run, folders: Folders, verb: str, text: str) -> None:
    assert "empty" in error_line(regard(verb, text, "-m", folders["judge"], code=4))


def test_an_argument_that_is_not_utf8(regard: Run, folders: Folders) -> None:
    text = b"caf\xe9".decode("utf-8", "surrogateescape")  # as in sys.argv
    expected = "the text is not UTF-8: its byte 4 is 0xE9"
    assert expected in error_line(regard("trace", text, "-m", folders["judge"], code=4))
    assert f"text 2: {expected}" in error_line(regard("embed", TEXT, text, "-m", folders["reader"], code=4))
    error_line(regard("translate", TEXT, "--to", text, "-m", folders["translator"], code=2))


def test_an_empty_path(regard: Run, folders: Folders) -> None:
    model = ("-m", folders["translator"])
    for option, *arguments in (
        ("'-m' / '--model'", "embed", TEXT, "-m", ""),
        ("'-i' / '--input'", "translate", *model, "-i", ""),
        ("'-o' / '--output'", "translate", TEXT, *model, "-o", ""),
        ("'DIRECTORY'", "info", ""),
        ("'SOURCE'", "score", "", "x", *model),
        ("RUN", "train", "", "x"),
    ):
        message = error_line(regard(*arguments, code=2))
        assert option in message
        assert "the path is empty" in message


def test_the_line_is_named(regard: Run, folders: Folders, tmp_path: Path) -> None:
    long = "apple " * 60
    lines = f"{TEXT}\n\n{long}\n"
    (tmp_path / "letter").write_text(lines)
    translate = ("translate", "--as-is", "-m", folders["translator"])
    assert "letter:3: " in error_line(regard(*translate, "-i", "letter", "-o", "out", code=4))
    assert not (tmp_path / "out").exists()
    assert "line 3 of standard input: " in error_line(regard(*translate, stdin=lines, code=4))
    assert "text 2: " in error_line(regard(*translate, TEXT, long, code=4))
    assert re.match(r"regard: \d+ tokens, but", error_line(regard(*translate, long, code=4)))
    embed = ("embed", "-m", folders["reader"])
    assert "line 2 of standard input: the text is empty" in error_line(regard(*embed, stdin=lines, code=4))
    assert "line 2 of standard input: " in error_line(regard(*embed, stdin=f"{TEXT}\n{long}", code=4))
    assert "line 2 of standard input: is not UTF-8" in error_line(regard(*embed, stdin=b"a\n\xff", code=4))


def test_a_file_is_not_read_and_written(regard: Run, folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "letter").write_text(TEXT)
    (tmp_path / "link").symlink_to("letter")
    os.link(tmp_path / "letter", tmp_path / "twin")
    for name in ("letter", "./letter", tmp_path / "letter", "link", "twin"):
        done = regard("translate", "--as-is", "-m", folders["translator"], "-i", "letter", "-o", name, code=2)
        assert f"input and output are the same file: {Path(name)}" in error_line(done)
    assert (tmp_path / "letter").read_text() == TEXT
    assert sorted(path.name for path in tmp_path.iterdir()) == ["letter", "link", "twin"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--length-penalty 99", "--length-penalty must be at least -10.0 and at most 10.0, not 99.0"),
        ("--max-tokens 0", "--max-tokens must be at least 1, not 0"),
        ("--beam 0", "--beam must be at least 1 and at most 1,024, not 0"),
        ("--top-p 0.5", "--top-p is for sampling; give a temperature above 0 as well"),
        ("--beam 3 --temperature 0.5", "--beam 3 and --temperature 0.5: search or sample, not both"),
        ("--n-best 3 --beam 2", "--n-best 3 of a beam of 2; widen the beam, or sample"),
        ("--min-tokens 15", "--min-tokens 15 is more than max_tokens 12"),  # the model's setting
    ],
)
def test_errors_name_the_options(regard: Run, folders: Folders, given: str, expected: str) -> None:
    done = regard("translate", TEXT, "-m", folders["translator"], *given.split(), code=pytest.approx(2, abs=1))
    assert error_line(done) == f"regard: {expected}"
    if "min-tokens" not in given:
        done = regard("generate", TEXT, "-m", folders["writer"], *given.split(), code=pytest.approx(2, abs=1))
        assert error_line(done) == f"regard: {expected}"


@pytest.mark.parametrize(
    "arguments", [("trace", TEXT, "--block"), ("fill", "[MASK]", "--top"), ("average", "run", "new", "--last")]
)
def test_a_count_is_refused_in_the_same_words(regard: Run, folders: Folders, arguments: tuple[str, ...]) -> None:
    model = () if arguments[0] == "average" else ("-m", folders["filler"])
    done = regard(*arguments, "0", *model, code=2)
    assert error_line(done) == f"regard: Invalid value for '{arguments[-1]}': must be at least 1, not 0"


@pytest.mark.parametrize("arguments", [("embed",), ("trace", TEXT), ("--help",)], ids=lambda arguments: arguments[0])
def test_a_closed_pipe(folders: Folders, arguments: tuple[str, ...], tmp_path: Path) -> None:
    """As with `| head -1`: the exit code of SIGPIPE, and no message."""
    lines = tmp_path / "lines"
    lines.write_text(f"{TEXT}\n" * 300)  # more vectors than a pipe holds
    model = () if arguments == ("--help",) else ("-m", folders["reader"])
    command = [sys.executable, "-m", "regard", *arguments, *model]
    with (
        lines.open() as given,
        subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        if arguments == ("embed",):
            assert process.stdout.read(1) == b"["
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_a_plot_without_training_loss(regard: Run, tmp_path: Path) -> None:
    """The legend is in the first panel with a curve: in an empty one, matplotlib would warn."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.jsonl").write_text('{"kind": "valid", "update": 1, "bleu": 2.5}\n')
    assert regard("plot", "run").stdout == "run/curves.png\n"
    (tmp_path / "run" / "log.jsonl").write_text('{"kind": "other", "update": 1}\n')
    assert regard("plot", "run").stdout == "run/curves.png\n"


def test_a_plot_that_cannot_be_written(regard: Run, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.jsonl").write_text('{"kind": "train", "update": 1, "loss": 2.5, "nll": 2.4}\n')
    done = regard("plot", "run", "-o", "nowhere/curves.png", code=6)
    assert error_line(done) == "regard: nowhere/curves.png: cannot be written (No such file or directory)"
    assert "'docx'" in error_line(regard("plot", "run", "-o", "curves.docx", code=6))
    assert [path.name for path in tmp_path.iterdir()] == ["run"], "no partial file is left"


def test_a_task_of_another_family(regard: Run, folders: Folders) -> None:
    assert "cannot translate; it can generate" in error_line(regard("translate", TEXT, "-m", folders["writer"], code=2))


def test_no_tokenizer(regard: Run, folders: Folders) -> None:
    assert "no tokenizer" in error_line(regard("generate", TEXT, "-m", folders["mute"], code=5))


def test_unknown_verb_and_option(regard: Run) -> None:
    assert "did you mean 'trace'?" in error_line(regard("trase", code=2))
    assert "--modle" in error_line(regard("info", "x", "--modle", code=2))


def test_unknown_device(regard: Run, folders: Folders) -> None:
    for verb in ("embed", "trace"):
        assert "'gpu'" in error_line(regard(verb, TEXT, "-m", folders["reader"], "--device", "gpu", code=2))


def test_convert_to_an_existing_directory(regard: Run, folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    assert "already exists" in error_line(regard("convert", folders["writer"], "taken", code=6))
    assert list((tmp_path / "taken").iterdir()) == []


def test_convert_what_hugging_face_cannot_express(regard: Run, folders: Folders, tmp_path: Path) -> None:
    done = regard("convert", folders["writer"], "new", "--to", "huggingface", code=3)
    assert "cannot be written for transformers" in error_line(done)
    assert list(tmp_path.iterdir()) == []


def test_bad_bytes_on_standard_input(regard: Run, folders: Folders) -> None:
    error_line(regard("embed", "-m", folders["reader"], stdin=b"caf\xe9\n", code=4))


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
    assert "is a directory" in error_line(regard("translate", TEXT, "-m", folders["translator"], "-o", ".", code=6))


def test_a_block_that_is_not_there(regard: Run, folders: Folders) -> None:
    assert "has 2 blocks" in error_line(regard("trace", TEXT, "-m", folders["writer"], "--block", "3", code=2))
    (block,) = json.loads(regard("trace", TEXT, "-m", folders["writer"], "--block", "2", "--json").stdout)["blocks"]
    assert block["index"] == 1


def test_a_target_is_for_translators(regard: Run, folders: Folders) -> None:
    assert "--target" in error_line(regard("trace", TEXT, "-m", folders["writer"], "--target", "x", code=2))


def test_no_arguments_print_help(regard: Run) -> None:
    assert "Verbs:" in regard().stdout
