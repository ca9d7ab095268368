"""The directory of a run: making it, opening it again, and where things are in it.

run/recipe.json      the resolved recipe, read by `--resume` and `regard average`
    data/            the split training pairs, if the recipe has a [data.split]
    start/           a copy of the model that training starts from, if the recipe names one
    tokenizer/       learned from the training pairs, if training starts from scratch
    cache/           the pairs as tokens
    state/           checkpoints
    log.jsonl        metrics
    model/           the trained model
"""

from pathlib import Path

from regard.config import load_json, plain, read
from regard.errors import InputError, ModelError, OutputError, TaskError, TrainingError, UsageError
from regard.io import new_directory, write_json
from regard.models.config import Seq2SeqConfig
from regard.text import tokenizer as text
from regard.training.recipe import Recipe
from regard.weights.checkpoint import read_model, write_model
from regard.weights.directory import Checkpoint
from regard.weights.tensors import build_model, parameters

RECIPE, SPLIT_DATA, START, TOKENIZER = "recipe.json", "data", "start", "tokenizer"
CACHE, STATE, MODEL = "cache", "state", "model"


def create_run(run: Path, recipe: Recipe) -> None:
    """Make the directory of a new run."""
    if run.exists():
        raise UsageError(f"{run} already exists; continue it with --resume, remove it, or choose another name")
    _check_files(recipe)
    try:
        run.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{run}: cannot be created ({error.strerror})") from None
    with new_directory(run) as draft:
        write_json(draft / RECIPE, plain(recipe))
        if recipe.start:
            _copy_start(recipe, draft / START)


def read_recipe(run: Path) -> Recipe:
    """The recipe of an existing run."""
    path = run / RECIPE
    if not path.is_file():
        raise TrainingError(f"{run}: is not a training run; there is no {RECIPE}")
    return read(Recipe, load_json(path), str(path))


def read_start(run: Path) -> Checkpoint | None:
    """The model that training starts from, if not from scratch."""
    return read_model(run / START) if (run / START).exists() else None


def tokenizer_folder(recipe: Recipe, run: Path) -> Path:
    return run / (START if recipe.start else TOKENIZER)


def _check_files(recipe: Recipe) -> None:
    """All files named by the recipe must exist before anything is made."""
    folder = Path(recipe.data.dir)
    for files in (*recipe.data.train, *recipe.data.valid):
        for path in files.paths(folder):
            if not path.is_file():
                raise InputError(f"{path}: no such file; [data] dir is the folder of the data files")


def _copy_start(recipe: Recipe, folder: Path) -> None:
    """Copy the start model, so that the run can be resumed without the original."""
    path = Path(recipe.start)
    stored, tokenizer = read_model(path, trainable=True), text.load(path)
    config = stored.config
    if not isinstance(config, Seq2SeqConfig) or tokenizer is None:
        raise TaskError(f"{path}: is not a translation model with a tokenizer, so training cannot start from it")
    if stored.generation.start is None or stored.generation.pad is None:
        raise ModelError(f"{path}: does not name its start and padding tokens")
    config = read(Seq2SeqConfig, plain(config) | recipe.model, "[model]")
    with new_directory(folder) as draft:
        write_model(draft, Checkpoint(build_model(config, parameters(stored.model), path), stored.generation))
        tokenizer.save(draft)
