"""A finished model has hashes, which find a changed, missing or unreadable file."""

import os
import subprocess
from pathlib import Path

import pytest
from weight_samples import SAMPLES, everything_in, one_clear_line, random_model

from regard.errors import ModelError
from regard.models.config import EncoderConfig, GenerationConfig
from regard.tasks import kind_of
from regard.tasks.load import BOX
from regard.weights.checksums import SHA256SUMS, Verification, new_model, refresh, verify
from regard.weights.model_io import Style


@pytest.fixture(params=["regard", "huggingface"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    config = SAMPLES["bert"][2]
    assert isinstance(config, EncoderConfig)
    style: Style = request.param
    kind_of(config)(random_model(config), GenerationConfig(), None, Path("nowhere")).save(tmp_path / "model", style)
    return tmp_path / "model"


def test_every_file_has_a_hash(model: Path) -> None:
    listed = [line.split("  ")[1] for line in (model / SHA256SUMS).read_text().splitlines()]
    files = [name for name in everything_in(model) if (model / name).is_file() and name != SHA256SUMS]
    assert sorted(listed) == sorted(files)
    assert verify(model) == Verification("ok")


def test_the_usual_program_reads_them(model: Path) -> None:
    done = subprocess.run(["sha256sum", "--check", "--strict", SHA256SUMS], cwd=model, capture_output=True, check=True)
    assert b"config.json: OK" in done.stdout


def test_what_does_not_match(model: Path) -> None:
    raw = bytearray((model / "model.safetensors").read_bytes())
    raw[-1] ^= 1
    (model / "model.safetensors").write_bytes(raw)
    (model / "generation_config.json").unlink(missing_ok=True)
    (model / "config.json").unlink()
    os.mkfifo(model / "config.json")
    found = verify(model)
    assert found.status == "mismatch"
    assert "model.safetensors has changed" in found.problems
    assert "config.json cannot be read (it is not a regular file)" in found.problems


def test_a_missing_file(model: Path) -> None:
    (model / "config.json").unlink()
    assert verify(model) == Verification("mismatch", ("config.json is missing",))


def test_an_old_directory_has_none(model: Path) -> None:
    (model / SHA256SUMS).unlink()
    assert verify(model) == Verification("none")
    refresh(model, "config.json")
    assert verify(model) == Verification("none")


def test_a_file_that_is_replaced(model: Path) -> None:
    (model / "confidence.json").write_text("{}")
    refresh(model, "confidence.json")
    assert verify(model) == Verification("ok")
    (model / "confidence.json").write_text("{} ")
    assert verify(model) == Verification("mismatch", ("confidence.json has changed",))


@pytest.mark.parametrize(
    "line",
    ["hello", "0" * 64, f"{'0' * 64}  ../secret", f"{'0' * 64}  /etc/passwd", f"{'0' * 63}g  a", f"{'0' * 64}  a/b/c"],
)
def test_lines_that_name_no_file_of_the_directory(model: Path, line: str) -> None:
    with (model / SHA256SUMS).open("a") as file:
        file.write(f"{line}\n")
    with one_clear_line(ModelError, f"{model / SHA256SUMS}:", "must be a hash"):
        verify(model)


@pytest.mark.parametrize("content", [b"\xff\n", b"0" * (1 << 21)])
def test_hashes_that_are_no_text(model: Path, content: bytes) -> None:
    (model / SHA256SUMS).write_bytes(content)
    with one_clear_line(ModelError, str(model / SHA256SUMS), "cannot be read"):
        verify(model)


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), new_model(tmp_path / "new") as draft:  # noqa: PT012
        (draft / "file").write_text("half")
        raise KeyboardInterrupt
    assert everything_in(tmp_path) == []


def test_the_box_is_as_it_was_made() -> None:
    assert verify(BOX) == Verification("ok")
