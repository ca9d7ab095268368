"""A directory appears whole under its name, or not at all."""

import os
from pathlib import Path

import pytest
from weight_samples import SAMPLES, everything_in, one_clear_line, random_model

from regard.errors import ConfigError, OutputError
from regard.io import new_directory
from regard.models.config import BlockConfig, GenerationConfig
from regard.tasks import Model, kind_of

GPT2 = SAMPLES["gpt2"][0]


def model(config: BlockConfig) -> Model:
    return kind_of(config)(random_model(config), GenerationConfig(), None, Path("nowhere"))


def test_takes_its_name_at_the_end(tmp_path: Path) -> None:
    with new_directory(tmp_path / "new") as half_done:
        (half_done / "file").write_text("content")
        (half_done / "inner").mkdir()
        (half_done / "inner" / "file").write_text("more")
        assert not (tmp_path / "new").exists()
    assert everything_in(tmp_path) == ["new", "new/file", "new/inner", "new/inner/file"]
    assert os.stat(tmp_path / "new").st_mode & 0o777 == 0o755


@pytest.mark.parametrize("error", [ValueError("anything"), KeyboardInterrupt(), OutputError("a complaint")])
def test_leaves_nothing_behind(error: BaseException, tmp_path: Path) -> None:
    with pytest.raises(type(error)), new_directory(tmp_path / "new") as half_done:  # noqa: PT012
        (half_done / "file").write_text("content")
        raise error
    assert everything_in(tmp_path) == []


def test_a_full_disk(tmp_path: Path) -> None:
    with one_clear_line(OutputError, "new", "No space left"), new_directory(tmp_path / "new"):
        raise OSError(28, "No space left on device")
    assert everything_in(tmp_path) == []


@pytest.mark.parametrize("there", ["a file", "a directory", "a full directory"])
def test_refuses_a_name_that_is_taken(there: str, tmp_path: Path) -> None:
    path = tmp_path / "taken"
    if there == "a file":
        path.write_text("precious")
    else:
        path.mkdir()
    if there == "a full directory":
        (path / "file").write_text("precious")
    before = everything_in(tmp_path)
    with one_clear_line(OutputError, str(path)):
        model(GPT2).save(path)
    assert everything_in(tmp_path) == before


def test_replaces_an_old_directory_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "old").write_text("old")
    with pytest.raises(ValueError, match="no"), new_directory(tmp_path / "there", replace=True):
        raise ValueError("no")
    assert everything_in(tmp_path) == ["there", "there/old"]
    for name in ("there", "not there"):
        with new_directory(tmp_path / name, replace=True) as half_done:
            (half_done / "new").write_text("new")
    assert everything_in(tmp_path) == ["not there", "not there/new", "there", "there/new"]
    (tmp_path / "file").write_text("precious")
    with one_clear_line(OutputError, "file", "already exists"), new_directory(tmp_path / "file", replace=True):
        pass


def test_refuses_a_name_without_a_parent(tmp_path: Path) -> None:
    with one_clear_line(OutputError, "parent"):
        model(GPT2).save(tmp_path / "no" / "such" / "place")
    assert everything_in(tmp_path) == []


def test_taken_while_it_was_written(tmp_path: Path) -> None:
    with one_clear_line(OutputError, "new"), new_directory(tmp_path / "new") as half_done:
        (half_done / "file").write_text("ours")
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "file").write_text("theirs")
    assert (tmp_path / "new" / "file").read_text() == "theirs"
    assert everything_in(tmp_path) == ["new", "new/file"]


def test_a_failure_in_the_middle_of_saving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: Path, content: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("regard.weights.regard_format.write_json", fails)  # after the tensors
    with one_clear_line(OutputError, "saved", "Input/output error"):
        model(GPT2).save(tmp_path / "saved")
    assert everything_in(tmp_path) == []


LLAMA, BERT, MARIAN, VIT = (SAMPLES[kind][0] for kind in ("llama", "bert", "marian", "vit"))


@pytest.mark.parametrize(
    ("config", "changes", "named"),
    [
        (MARIAN, {"norm_first": True}, "norm_first"),
        (MARIAN, {"positions": "learned"}, "positions"),
        (MARIAN, {"positions": "sinusoidal"}, "positions"),
        (MARIAN, {"activation": "swiglu"}, "swiglu"),
        (MARIAN, {"kv_heads": 1}, "kv_heads"),
        (BERT, {"norm": "rms"}, "norm"),
        (BERT, {"positions": "alibi"}, "positions"),
        (BERT, {"embedding_norm": False}, "embedding_norm"),
        (BERT, {"segments": 0}, "segments"),
        (BERT, {"pooler": "tanh", "pooling": "pooler"}, "pooling"),
        (BERT, {"head": "classifier", "labels": ("a", "b")}, "pooler"),  # their classifier always has one
        (BERT, {"pooler": "relu"}, "pooler"),
        (GPT2, {"positions": "alibi"}, "positions"),
        (GPT2, {"norm_first": False}, "norm_first"),
        (GPT2, {"embedding_norm": True}, "embedding_norm"),
        (LLAMA, {"attention_bias": True}, "attention"),
        (LLAMA, {"scale_embeddings": True}, "scale_embeddings"),
        (VIT, {"norm_first": False}, "norm_first"),
        (VIT, {"feedforward_bias": False}, "feedforward_bias"),
    ],
)
def test_what_transformers_has_no_word_for(
    config: BlockConfig, changes: dict[str, object], named: str, tmp_path: Path
) -> None:
    strange = type(config)(**vars(config) | changes)  # type: ignore[arg-type]
    with one_clear_line(ConfigError, "transformers", named):
        model(strange).save(tmp_path / "for them", "huggingface")
    assert everything_in(tmp_path) == []
    model(strange).save(tmp_path / "ours")  # which says everything


def test_saving_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    for style in ("regard", "huggingface"):
        for name in ("first", "second"):
            model(BERT).save(tmp_path / f"{style} {name}", style)
        files = everything_in(tmp_path / f"{style} first")
        assert files == everything_in(tmp_path / f"{style} second")
        for file in files:
            if (tmp_path / f"{style} first" / file).is_file():
                first, second = (tmp_path / f"{style} {name}" / file for name in ("first", "second"))
                assert first.read_bytes() == second.read_bytes()
