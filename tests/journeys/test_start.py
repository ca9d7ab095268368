"""Fine-tuning: a run that starts from an existing model."""

import json
import shutil
from pathlib import Path

from journeys_types import Folders, Run

from regard.training.metrics_log import read_log

ROOT = Path(__file__).parent.parent.parent
DATA = f"data.dir={ROOT / 'recipes/sample'}"
RECIPE = """
start = "{start}"
[data]
train = [{{ source = "train.en", target = "train.de" }}]
valid = [{{ source = "valid.en", target = "valid.de" }}]
[train]
updates = {updates}
batch_tokens = 512
warmup = 1
lr = 1e-4
validate_every = {updates}
log_every = 1
save_every = 2
"""


def losses(run: Path) -> list[float]:
    return [record["loss"] for record in read_log(run) if record["kind"] == "train"]


def test_fine_tuning(regard: Run, tmp_path: Path) -> None:
    """From int8 weights too. The run keeps a copy of its start, and can be resumed without the original."""
    brief = ("train.updates=60", "train.validate_every=60", "train.log_every=1", DATA)
    regard("train", ROOT / "recipes/sample.toml", "first", *(word for one in brief for word in ("--set", one)))
    regard("convert", "first/model", "small", "--int8")
    (tmp_path / "more.toml").write_text(RECIPE.format(start="small", updates=6), encoding="utf-8")
    regard("train", "more.toml", "second", "--set", DATA)
    first, second = losses(tmp_path / "first"), losses(tmp_path / "second")
    assert second[0] < first[0] - 1
    assert abs(second[0] - first[-1]) < 0.5

    shutil.copytree(tmp_path / "second", tmp_path / "again")
    shutil.rmtree(tmp_path / "small")
    shutil.rmtree(tmp_path / "again" / "model")
    shutil.rmtree(tmp_path / "again" / "state" / "00000006")
    regard("train", "--resume", "again")
    weights = [(tmp_path / run / "model" / "model.safetensors").read_bytes() for run in ("second", "again")]
    assert weights[0] == weights[1]
    assert "weights" not in json.loads((tmp_path / "again" / "model" / "config.json").read_text())


def test_minimum_risk_training(regard: Run, folders: Folders, tmp_path: Path) -> None:
    """Minimum risk training gives the same weights twice, also after a resume."""
    (tmp_path / "more.toml").write_text(RECIPE.format(start=folders["translator"], updates=4), encoding="utf-8")
    changes = (DATA, "data.max_tokens=40", "train.mrt_weight=0.5", "train.mrt_samples=3")
    regard("train", "more.toml", "run", *(word for one in changes for word in ("--set", one)))
    plain = regard("train", "more.toml", "plain", *(word for one in changes[:2] for word in ("--set", one)))
    assert "4/4" in plain.stderr
    assert losses(tmp_path / "run") != losses(tmp_path / "plain")

    shutil.copytree(tmp_path / "run", tmp_path / "again")
    shutil.rmtree(tmp_path / "again" / "model")
    shutil.rmtree(tmp_path / "again" / "state" / "00000004")
    regard("train", "--resume", "again")
    weights = [(tmp_path / run / "model" / "model.safetensors").read_bytes() for run in ("run", "again", "plain")]
    assert weights[0] == weights[1] != weights[2]


def test_fine_tuning_an_opus_model(regard: Run, folders: Folders, tmp_path: Path) -> None:
    """The run keeps its tokenizer, start token and padding token."""
    (tmp_path / "more.toml").write_text(RECIPE.format(start=folders["translator"], updates=4), encoding="utf-8")
    regard("train", "more.toml", "run", "--set", DATA, "--set", "data.max_tokens=40", "--set", "train.lr=0.01")
    values = losses(tmp_path / "run")
    assert values[-1] < values[0]
    for name in ("source.spm", "vocab.json"):
        assert (tmp_path / "run" / "model" / name).read_bytes() == (folders["translator"] / name).read_bytes()
    before, after = (
        json.loads((folder / "generation_config.json").read_text())
        for folder in (folders["translator"], tmp_path / "run" / "model")
    )
    assert (before["start"], before["pad"], before["suppressed"]) == (after["start"], after["pad"], after["suppressed"])


def test_contradictions(regard: Run, folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "more.toml").write_text(RECIPE.format(start=folders["translator"], updates=2), encoding="utf-8")
    for code, message, change in (
        (2, "is not a translation model", f"start={folders['writer']}"),
        (5, "nowhere", "start=nowhere"),
        (3, "more.toml: [model] width comes from start", "model.width=8"),
        (3, "more.toml: [model] dropout must be at least 0 and below 1, not 2", "model.dropout=2"),
        (3, "[tokenizer] comes from start", "tokenizer.vocab=700"),
    ):
        assert message in regard("train", "more.toml", "run", "--set", DATA, "--set", change, code=code).stderr
        assert not (tmp_path / "run").exists()
