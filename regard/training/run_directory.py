"""The directory of a run: making it, opening it again, and where things are in it.

run/recipe.json      the resolved recipe, read by `--resume` and `regard average`
    data/            the split training pairs, if the recipe has a [data.split]
    start/           a copy of the model that training starts from, if the recipe names one
    tokenizer/       learned from the training pairs, if training starts from scratch
    cache/           the pairs as tokens
    state/           checkpoints
    log.jsonl        metrics
    model/           the trained model
    failed.txt       why the run failed, if it did before its first checkpoint
    .lock            held, and named, by the process that trains
"""

import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.config import from_table, load_json, to_table
from regard.errors import InputError, ModelError, OutputError, TaskError, TrainingError, UsageError, one_line
from regard.io import new_directory, remove_drafts, write_json, write_text
from regard.models.config import Seq2SeqConfig
from regard.text import tokenizer as text
from regard.training import checkpoint
from regard.training.loop import is_finished
from regard.training.recipe import Recipe, check_validation, read_saved_recipe, set_value
from regard.weights.model_directory import Checkpoint
from regard.weights.model_io import read_model, write_model
from regard.weights.safetensors_files import build_model, parameters

RECIPE, SPLIT_DATA, START, TOKENIZER = "recipe.json", "data", "start", "tokenizer"
CACHE, STATE, MODEL, FAILED, LOCK = "cache", "state", "model", "failed.txt", ".lock"
CHANGEABLE = (
    *("updates", "validate_every", "save_every", "log_every", "stop_on", "patience"),
    *("average", "average_best", "on_nonfinite"),
)
"""Keys of [train] that a resumed run may change: no other can change without the checkpoints losing their meaning."""

log = logging.getLogger(__name__)


def create_run(run: Path, recipe: Recipe, say: Callable[[str], None]) -> None:
    """Make the directory of a new run. A run that failed before its first checkpoint is started over."""
    if os.path.lexists(run):
        if _has_failed(run):
            with run_lock(run):
                _start_over(run, recipe, say)
            return
        raise UsageError(f"{run} already exists; continue it with --resume, remove it, or choose another name")
    check_files(recipe)
    try:
        run.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{run}: cannot be created ({error.strerror})") from None
    with new_directory(run) as draft:
        _fill(draft, recipe)


def _has_failed(run: Path) -> bool:
    return (run / FAILED).is_file() and not checkpoint.checkpoints(run / STATE)


def _start_over(run: Path, recipe: Recipe, say: Callable[[str], None]) -> None:
    if not _has_failed(run):  # another process had the lock, and has started it over
        raise UsageError(f"{run} already exists; continue it with --resume, remove it, or choose another name")
    check_files(recipe)
    say(f"{run}: failed before its first checkpoint; starting over")
    for inside in run.iterdir():
        if inside.is_dir() and inside.name != CACHE:  # the token cache checks by itself whether it still applies
            shutil.rmtree(inside)
    _fill(run, recipe)
    (run / FAILED).unlink()


def _fill(run: Path, recipe: Recipe) -> None:
    if recipe.start:
        _copy_start(recipe, run / START)
    write_json(run / RECIPE, to_table(recipe))


@contextmanager
def run_lock(run: Path) -> Iterator[None]:
    """Let one process at a time write to a run, and remove the drafts that a killed one has left.

    The lock belongs to the open file, so it ends with the process, however that ends. The file stays: if it were
    removed, two processes could lock two files of that name.
    """
    try:
        descriptor = os.open(run / LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        raise OutputError(f"{run / LOCK}: cannot be written ({error.strerror})") from None
    try:
        if _lock(descriptor, run):
            remove_drafts(run)
            remove_drafts(run / CACHE)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, run: Path) -> bool:
    """Whether this process has the lock now; if another has it, that is an error."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        who = f"process {owner}" if owner.isdecimal() else "another process"
        raise UsageError(f"{run}: is in use by {who}; wait for it, or stop it first") from None
    except (ImportError, OSError) as error:  # Windows, a network drive without locks
        log.warning("%s: cannot be locked (%s); make sure that no other process uses it", run, error)
        return False
    with suppress(OSError):  # on a full disk, the other's message names no process
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return True


@contextmanager
def failure_recorded(run: Path) -> Iterator[None]:
    """If the block fails before the first checkpoint, leave a note that allows the run to be started over."""
    (run / FAILED).unlink(missing_ok=True)
    try:
        yield
    except BaseException as error:
        if not checkpoint.checkpoints(run / STATE):
            with suppress(OutputError):  # a full disk must not hide the error itself
                write_text(run / FAILED, f"{error or type(error).__name__}\n")
        raise


def read_recipe(run: Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of an existing run, with the changes that a resumed run may make."""
    path = run / RECIPE
    if not path.is_file():
        raise TrainingError(f"{run}: is not a training run; there is no {RECIPE}")
    saved = read_saved_recipe(load_json(path), str(path))
    if not overrides:
        return saved
    raw = to_table(saved)
    for override in overrides:
        name = override.partition("=")[0]
        if name not in (f"train.{key}" for key in CHANGEABLE):
            choices = ", ".join(CHANGEABLE)
            raise UsageError(f"--set {name}: cannot change when a run is resumed; in [train], these can: {choices}")
        set_value(raw, override)
    recipe = read_saved_recipe(raw, "--set")
    check_validation(recipe)
    if (recipe.train.stop_on == "loss") != (saved.train.stop_on == "loss"):
        metric = "loss" if saved.train.stop_on == "loss" else "BLEU"
        raise UsageError(f"--set train.stop_on: the checkpoints of this run were compared by {metric}")
    return recipe


def check_resumable(run: Path, recipe: Recipe) -> None:
    """Complain about a run that is finished, or further than its last update."""
    saved = reversed(checkpoint.checkpoints(run / STATE))
    newest = next((path for path in saved if checkpoint.damage(path, only=checkpoint.PROGRESS) is None), None)
    if newest is None:
        return
    progress = checkpoint.read_progress(newest)
    if recipe.train.updates < progress.update:
        raise UsageError(f"{run}: has {progress.update:,} updates already; train.updates must be at least that")
    if is_finished(recipe.train, progress) and (run / MODEL).exists():
        more = "extend it with --set train.updates=N"
        raise UsageError(f"{run}: is finished after {progress.update:,} updates; its model is {run / MODEL}; {more}")


def save_recipe(run: Path, recipe: Recipe) -> None:
    write_json(run / RECIPE, to_table(recipe))


def read_start(run: Path) -> Checkpoint | None:
    """The model that training starts from, if not from scratch."""
    return read_model(run / START) if (run / START).exists() else None


def tokenizer_folder(recipe: Recipe, run: Path) -> Path:
    return run / (START if recipe.start else TOKENIZER)


def check_files(recipe: Recipe) -> None:
    """All files named by the recipe must exist before anything is made. They are read several times: no pipes."""
    folder = Path(recipe.data.dir)
    for files in (*recipe.data.train, *recipe.data.valid):
        for path in files.paths(folder):
            try:
                mode = path.stat().st_mode
            except FileNotFoundError:
                raise InputError(f"{path}: no such file; [data] dir is the folder of the data files") from None
            except (OSError, ValueError) as error:  # ValueError: a NUL in the name
                raise InputError(f"{path}: cannot be read ({one_line(error)})") from None
            if not stat.S_ISREG(mode):
                raise InputError(f"{path}: is not a regular file, but training reads its data several times")


def _copy_start(recipe: Recipe, folder: Path) -> None:
    """Copy the start model, so that the run can be resumed without the original."""
    path = Path(recipe.start)
    stored, tokenizer = read_model(path, trainable=True), text.load(path)
    config = stored.config
    if not isinstance(config, Seq2SeqConfig) or tokenizer is None:
        raise TaskError(f"{path}: is not a translation model with a tokenizer, so training cannot start from it")
    if stored.generation.start is None or stored.generation.pad is None:
        raise ModelError(f"{path}: does not name its start and padding tokens")
    config = from_table(Seq2SeqConfig, to_table(config) | recipe.model, "[model]")
    with new_directory(folder) as draft:
        write_model(draft, Checkpoint(build_model(config, parameters(stored.model), path), stored.generation))
        tokenizer.save(draft)
