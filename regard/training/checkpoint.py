"""Checkpoints: everything needed to resume a run.

    run/state/00001500/   weights.safetensors    the parameters
                          moments.safetensors    the optimizer state of each
                          average.safetensors    their moving average, if there is one
                          progress.json          position in the data, best score so far
                          manifest.json          sha256 of each of these files, written last

A checkpoint is renamed to its final name once complete, so a name always means a complete checkpoint. If the disk
damages one, its hashes show it: it is set aside as damaged.00001500, and the newest valid one is used. One that cannot
be read now (an I/O error, a missing permission) may be valid: that is an error, and nothing is touched. No random
state is saved: every random draw is a function of the seed and the update number.
"""

import hashlib
import json
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.config import from_table, load_json
from regard.errors import OutputError, TrainingError
from regard.io import new_directory, remove_drafts, set_aside, write_json
from regard.training.distributed import copy_tensors, full_tensor
from regard.training.muon import Muon
from regard.weights.safetensors_files import mean, parameters, read_file, write_tensors

Optimizers = Sequence[torch.optim.Optimizer]

log = logging.getLogger(__name__)

WEIGHTS, MOMENTS, AVERAGE = "weights.safetensors", "moments.safetensors", "average.safetensors"
PROGRESS, MANIFEST = "progress.json", "manifest.json"
REQUIRED = {WEIGHTS, MOMENTS, PROGRESS}


@dataclass(kw_only=True)
class Progress:
    """How far a run has come."""

    update: int = 0
    """Updates done."""
    epoch: int = 0
    batch: int = 0
    """Index of the next batch of this epoch."""
    tokens: int = 0
    """Target tokens trained on."""
    seconds: float = 0.0
    best: float | None = None
    """Best validation score; larger is better."""
    best_update: int = 0
    waited: int = 0
    """Validations since the best one."""
    score: float | None = None
    """Validation score of this checkpoint, if it was validated."""
    skipped: int = 0
    """Updates without an optimizer step, because loss or gradient was not finite."""
    stopped_by: int | None = None
    """The signal that stopped the run early."""


def save(
    folder: Path,
    progress: Progress,
    model: nn.Module,
    optimizers: Optimizers,
    average: Mapping[str, Tensor] | None,
    *,
    writes: bool,
) -> None:
    """Save a checkpoint of the current update. All workers must call this; the one with `writes` writes it."""
    weights = {name: full_tensor(parameter.detach()) for name, parameter in parameters(model).items()}
    state = {name: full_tensor(tensor) for name, tensor in moments(model, optimizers).items()}
    averaged = None if average is None else {name: full_tensor(tensor) for name, tensor in average.items()}
    path = folder / f"{progress.update:08}"
    if not writes or path.exists():
        return
    try:
        folder.mkdir(exist_ok=True)  # without parents: a run that was removed or renamed must not come back in part
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written ({error.strerror}); was the run removed or renamed?") from None
    with new_directory(path) as draft:
        write_tensors(draft / WEIGHTS, weights)
        write_tensors(draft / MOMENTS, state)
        if averaged is not None:
            write_tensors(draft / AVERAGE, averaged)
        write_json(draft / PROGRESS, asdict(progress))
        write_json(draft / MANIFEST, {file.name: digest(file) for file in sorted(draft.iterdir())})


def load(
    folder: Path, model: nn.Module, optimizers: Optimizers, average: dict[str, Tensor] | None, *, writes: bool
) -> Progress:
    """Load the newest valid checkpoint into the model and the optimizers. Without checkpoints, start from scratch.

    All workers must call this; the one with `writes` tidies the folder.
    """
    if writes:
        remove_drafts(folder)
    if not checkpoints(folder):
        return Progress()
    path = newest(folder)
    if path is None:
        raise TrainingError(f"{folder}: every checkpoint is damaged, so the run cannot be resumed")
    for later in checkpoints(folder):
        if writes and later.name > path.name:  # damaged: it will be written again
            set_aside(later, f"damaged.{later.name}")
            log.warning("%s: kept as damaged.%s, remove it when you like", later, later.name)
    copy_tensors(read_file(path / WEIGHTS), parameters(model))
    progress = read_progress(path)
    progress.score = None  # it belongs to that checkpoint, not to the next one
    make_moments(optimizers, progress.update - progress.skipped)
    copy_tensors(read_file(path / MOMENTS), moments(model, optimizers))
    if average is not None:
        copy_tensors(read_file(path / (AVERAGE if (path / AVERAGE).exists() else WEIGHTS)), average)
    return progress


def read_progress(path: Path) -> Progress:
    """The progress of one checkpoint."""
    return from_table(Progress, load_json(path / PROGRESS), str(path / PROGRESS))


def moments(model: nn.Module, optimizers: Optimizers) -> dict[str, Tensor]:
    """The state of the optimizers, by parameter name."""
    named: dict[str, Tensor] = {}
    for name, parameter in parameters(model).items():
        for optimizer in optimizers:
            for key, moment in optimizer.state.get(parameter, {}).items():
                if key != "step":  # the same for all: the number of optimizer steps
                    named[f"{name}.{key}"] = moment
    return named


def make_moments(optimizers: Optimizers, steps: int) -> None:
    """Create the state that optimizers create with their first step."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if isinstance(optimizer, Muon):
                    optimizer.momentum(parameter)
                    continue
                optimizer.state[parameter] = {
                    "step": torch.tensor(float(steps)),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }


def checkpoints(folder: Path) -> list[Path]:
    """All checkpoint directories, oldest first, valid or not."""
    return sorted(path for path in folder.glob("[0-9]*") if path.is_dir())


def newest(folder: Path) -> Path | None:
    """The newest valid checkpoint. Damaged ones are skipped with a warning."""
    for path in reversed(checkpoints(folder)):
        if (fault := damage(path)) is None:
            return path
        log.warning("%s: skipped, %s", path, fault)
    return None


def damage(path: Path, *, only: str | None = None) -> str | None:
    """What is wrong with a checkpoint (or `only` with one of its files), or None if it is valid.

    A file that cannot be read says nothing about the checkpoint: that is an error.
    """
    try:
        manifest = json.loads((path / MANIFEST).read_bytes()) if (path / MANIFEST).is_file() else None
        if not isinstance(manifest, dict) or not REQUIRED <= manifest.keys() <= REQUIRED | {AVERAGE}:
            return f"{MANIFEST} is missing or incomplete"
        for name in [only] if only else manifest:
            if not (path / name).is_file():
                return f"{name} is missing"
            if digest(path / name) != manifest[name]:
                return f"{name} is damaged"
    except OSError as error:
        raise _unreadable(path, error) from None
    except (ValueError, RecursionError):
        return f"{MANIFEST} is damaged"
    return None


def _unreadable(path: Path, error: OSError) -> TrainingError:
    reason = error.strerror or error
    return TrainingError(
        f"{path}: cannot be read ({reason}); nothing was changed; try again, or move it elsewhere to do without it"
    )


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def validated(folder: Path) -> Iterator[tuple[Path, float]]:
    """The validated checkpoints, oldest first, with their scores."""
    for path in checkpoints(folder):
        try:
            progress = json.loads((path / PROGRESS).read_bytes()) if (path / PROGRESS).is_file() else None
        except OSError as error:
            raise _unreadable(path, error) from None
        except (ValueError, RecursionError):  # damaged
            continue
        score = progress.get("score") if isinstance(progress, dict) else None
        if isinstance(score, int | float):
            yield path, score


def chosen(folder: Path, count: int, *, best: bool) -> list[Path]:
    """The checkpoints to average: the last or the best `count` of the valid ones."""
    return [path for path in _ranked(folder, best=best) if damage(path) is None][-count:]


def _ranked(folder: Path, *, best: bool) -> list[Path]:
    """The validated checkpoints in ascending order: by update, or by score."""
    listed = list(validated(folder))
    if best:
        listed.sort(key=lambda pair: pair[1])
    return [path for path, _ in listed]


def prune(folder: Path, count: int, *, best: bool) -> None:
    """Remove the checkpoints that neither averaging nor resuming needs. The best one always stays."""
    try:
        averaged = (*_ranked(folder, best=best)[-count:], *_ranked(folder, best=True)[-1:])
    except TrainingError as error:  # a score cannot be read: it may be the best
        log.warning("no checkpoint is removed: %s", error)
        return
    kept = {*averaged, *checkpoints(folder)[-2:]}  # two to resume from, in case one is damaged
    for path in checkpoints(folder):
        if path not in kept:
            shutil.rmtree(path)


def mean_weights(paths: list[Path]) -> dict[str, Tensor]:
    """The mean of the weights of several checkpoints."""
    return mean(read_file(path / (AVERAGE if (path / AVERAGE).exists() else WEIGHTS)) for path in paths)
