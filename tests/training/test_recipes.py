"""The recipes in the repository: their data is not here, but they must be ready for it."""

import re
from pathlib import Path

import pytest

from regard.errors import ConfigError, UsageError
from regard.training.recipe import load_recipe
from regard.training.run_directory import read_recipe

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_can_be_read(path: Path) -> None:
    recipe = load_recipe(path)
    assert recipe.data.train
    assert recipe.train.updates >= recipe.train.warmup


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_that_it_speaks_of_are_there(path: Path) -> None:
    for other in re.findall(r"recipes/[\w-]+\.toml", path.read_text(encoding="utf-8")):
        assert (ROOT / other).is_file()


SAVED = """
{"data": {"dir": ".", "train": [{"source": "a", "target": "b", "tsv": null, "columns": [1, 2], "jsonl": null,
"keys": ["source", "target"], "weight": 1.0, "tag": null, "language": null}], "valid": [], "split": null,
"max_tokens": 256, "max_ratio": null, "deduplicate": true, "placeholders": 0.0, "bad_lines": "error",
"longest_line": 100000}, "train": {"updates": 60, "batch_tokens": 1024, "accumulate": 1, "replicas": 0,
"optimizer": "adamw", "lr": 0.005, "schedule": "inverse_sqrt", "warmup": 10, "decay": 0, "lr_floor": 0.0,
"betas": [0.9, 0.98], "eps": 1e-09, "weight_decay": 0.0, "clip": 1.0, "label_smoothing": 0.1, "agreement": 2.0,
"risk": 0.0, "risk_width": 4, "average": 2, "average_best": false, "moving_average": 0.0, "validate_every": 30,
"save_every": 0, "stop_on": "none", "patience": 10, "bad_loss": "skip", "dtype": "float32", "parallel": "ddp",
"log_every": 1}, "tokenizer": {"kind": "bpe", "vocab": 500, "joint": true, "dropout": 0.0, "tags": []},
"model": {"preset": "transformer-tiny", "dropout": 0.1}, "decode": {"beam": 4, "n_best": 1, "length_penalty": 1.0,
"length_form": "plain", "patience": null, "temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0,
"repetition_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0, "no_repeat_ngram": 0, "min_new": 0,
"max_new": null, "favour": [], "seed": null}, "seed": 1, "start": ""}
"""
"""recipe.json as regard wrote it before its keys were renamed."""


def test_a_run_from_before_the_renaming_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_text(SAVED)
    train = read_recipe(tmp_path).train
    assert (train.rdrop_alpha, train.mrt_samples, train.on_nonfinite) == (2.0, 4, "skip")


@pytest.mark.parametrize(
    ("old", "new"),
    [("agreement", "rdrop_alpha"), ("risk", "mrt_weight"), ("risk_width", "mrt_samples"), ("bad_loss", "on_nonfinite")],
)
def test_an_old_key_in_a_recipe_names_the_new_one(old: str, new: str) -> None:
    with pytest.raises(ConfigError, match=f"'{old}' is now '{new}'"):
        load_recipe(ROOT / "recipes" / "sample.toml", [f"train.{old}=1"])


@pytest.mark.parametrize(
    ("key", "ours"),
    [
        ("train.epochs", "updates"),
        ("train.max_steps", "updates"),
        ("train.learning_rate", "lr"),
        ("train.batch_size", "batch_tokens"),
        ("train.warmup_steps", "warmup"),
        ("train.grad_clip", "clip"),
        ("train.gradient_clipping", "clip"),
        ("tokenizer.type", "kind"),
        ("decode.max_length", "max_tokens"),
        ("model.d_model", "width"),
        ("model.num_layers", "encoder_layers"),
        ("model.n_head", "heads"),
        ("tokenizer.vocab_size", "vocab"),
        ("decode.num_beams", "beam"),
    ],
)
def test_a_key_of_another_toolkit_suggests_ours(key: str, ours: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{ours}'"):
        load_recipe(ROOT / "recipes" / "sample.toml", [f"{key}=1"])


@pytest.mark.parametrize(
    ("key", "table", "places"),
    [
        ("updates", "", "'train.updates'"),
        ("epochs", "", "'train.updates'"),
        ("patience", "", "'train.patience' or 'decode.patience'"),
        ("train.dropout", "[train] ", "'model.dropout' or 'tokenizer.dropout'"),
        ("train.seed", "[train] ", "'seed' at the top of the file or 'decode.seed'"),
        ("train.beam", "[train] ", "'decode.beam'"),
        ("model.vocab_size", "[model] ", "'tokenizer.vocab'"),
        ("model.layers", "[model] ", "'encoder_layers' or 'decoder_layers'"),
    ],
)
def test_a_key_in_the_wrong_table_suggests_the_right_one(key: str, table: str, places: str) -> None:
    problem = f"sample.toml: {table}unknown key '{key.split('.')[-1]}' - did you mean {places}?"
    with pytest.raises(ConfigError, match=f"{re.escape(problem)}$"):
        load_recipe(ROOT / "recipes" / "sample.toml", [f"{key}=1"])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("train.clip=-1", "[train] clip must be at least 0, not -1.0"),
        ("train.lr_floor=2", "[train] lr_floor must be at least 0 and at most 1, not 2.0"),
        ("train.lr=10", "[train] lr must be above 0 and below 10, not 10.0"),
        ("train.betas=[0.9, 1]", "[train] betas must be at least 0 and below 1, not 1.0"),
        ("train.stop_on=bleu", "[train] stop_on = 'bleu' needs data to validate on"),
        ("data.split.valid=0", "[data.split] valid and test must be"),
        ("data.max_tokens=1000", "[data] max_tokens 1000 is more than the model's context, 512"),
        ("data.train=[{tsv='a', weight=0}]", "[data.train[0]] weight must be above 0 and at most 1,000, not 0.0"),
        ("model.heads=0", "[model] heads must be at least 1, not 0"),
        ("model.preset=small", "[model] unknown preset 'small'"),
        ("seed=-1", "seed must be at least 0 and below 9,223,372,036,854,775,808, not -1"),
    ],
)
def test_a_mistake_is_named_by_file_and_table(change: str, problem: str) -> None:
    given = [change, "data.valid=[]"] if "stop_on" in change else [change]
    with pytest.raises(ConfigError, match=re.escape(f"sample.toml: {problem}")):
        load_recipe(ROOT / "recipes" / "sample.toml", given)


@pytest.mark.parametrize("key", ["train.lr", "data.dir", "seed", "model.width"])
def test_a_resumed_run_cannot_change_what_its_weights_depend_on(tmp_path: Path, key: str) -> None:
    (tmp_path / "recipe.json").write_text(SAVED)
    with pytest.raises(UsageError, match=f"{key}: cannot change when a run is resumed"):
        read_recipe(tmp_path, [f"{key}=1"])


def test_a_resumed_run_may_run_longer(tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_text(SAVED)
    recipe = read_recipe(tmp_path, ["train.updates=90", "train.patience=3"])
    assert (recipe.train.updates, recipe.train.patience) == (90, 3)
    assert recipe.train.rdrop_alpha == 2.0
    (tmp_path / "recipe.json").write_text(SAVED.replace('"valid": []', '"valid": [{"tsv": "x"}]'))
    with pytest.raises(UsageError, match="compared by BLEU"):
        read_recipe(tmp_path, ["train.stop_on=loss"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.warmup=1" + "0" * 400, "'warmup'"),
        ("train.updates=0x" + "f" * 5000, "'updates'"),
        ("train.updates=" + "9" * 5000, "'updates' must be a whole number"),
        ("train.updates=100000000", "updates must be at most 99,999,999"),
        ("train.accumulate=10001", "accumulate must be at most 10,000"),
        ("train.replicas=257", "replicas must be at most 256"),
        ("train.mrt_samples=1025", "mrt_samples must be at most 1,024"),
        ("train.rdrop_alpha=1e308", "rdrop_alpha must be at most 1,000,000"),
        ("train.betas=" + "[" * 100_000, "'betas' must be a list"),
        ("tokenizer.vocab=99999999999", "vocab must be at most 1,000,000"),
        ("model.preset=0x" + "f" * 5000, "preset must be a string"),
        ("model.encoder_layers=1001", "encoder_layers must be at most 1,000"),
        ("data.longest_line=10000001", "longest_line must be at least 1 and at most 10,000,000"),
        ('data.train=[{tsv="x", language="../../x"}]', "tag and language must start with a letter"),
        ('data.train=[{tsv="x", tag="a\\u0000b"}]', "tag and language must start with a letter"),
    ],
    ids=lambda text: text[:30],
)
def test_a_value_beyond_all_measure(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_recipe(ROOT / "recipes" / "sample.toml", [override])
    assert message in str(raised.value)


def test_a_setting_from_the_command_line_that_is_not_text() -> None:
    with pytest.raises(UsageError, match="is not UTF-8"):
        load_recipe(ROOT / "recipes" / "sample.toml", ["data.dir=\udcff"])
