"""Everything that is needed to go on, on disk.

    run/state/00001500/   weights.safetensors    the parameters
                          moments.safetensors    what the optimiser remembers of each
                          average.safetensors    their moving average, where there is one
                          progress.json          where in the data we are, what was best
                          manifest.json          the sha256 of each of these, written last

A checkpoint takes its name when it is whole, so whatever has the name is whole, unless the disk damaged it: then its
hashes say so, and the newest valid one is used. Random states need no saving: every draw is a function of the seed
and the number of the update.
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

from regard.config import load_json, read
from regard.errors import RegardError, TrainingError
from regard.io import new_directory, write_json
from regard.training.distributed import fill_from, whole
from regard.training.muon import Muon
from regard.weights.tensors import mean, parameters, read_file, write_tensors

Optimizers = Sequence[torch.optim.Optimizer]

log = logging.getLogger(__name__)

WEIGHTS, MOMENTS, AVERAGE = "weights.safetensors", "moments.safetensors", "average.safetensors"
PROGRESS, MANIFEST = "progress.json", "manifest.json"


@dataclass(kw_only=True)
class Progress:
    """Where a run stands."""

    update: int = 0
    """Updates done."""
    epoch: int = 0
    batch: int = 0
    """The next batch of this epoch."""
    tokens: int = 0
    """Target tokens learnt from."""
    seconds: float = 0.0
    best: float | None = None
    """The best validation score; larger is better."""
    best_update: int = 0
    waited: int = 0
    """Validations since then."""
    score: float | None = None
    """The score of this checkpoint, where it was validated."""
    skipped: int = 0
    """Updates without a step, because the loss was no number."""
    stopped_by: int | None = None
    """The signal that ended the run before its time."""


def save(
    folder: Path,
    progress: Progress,
    model: nn.Module,
    optimizers: Optimizers,
    average: Mapping[str, Tensor] | None,
    *,
    writes: bool,
) -> None:
    """A checkpoint of this update. Every worker takes part, the first one writes."""
    weights = {name: whole(parameter.detach()) for name, parameter in parameters(model).items()}
    second = {name: whole(tensor) for name, tensor in moments(model, optimizers).items()}
    averaged = None if average is None else {name: whole(tensor) for name, tensor in average.items()}
    path = folder / f"{progress.update:08}"
    if not writes or path.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with new_directory(path) as draft:
        write_tensors(draft / WEIGHTS, weights)
        write_tensors(draft / MOMENTS, second)
        if averaged is not None:
            write_tensors(draft / AVERAGE, averaged)
        write_json(draft / PROGRESS, asdict(progress))
        write_json(draft / MANIFEST, {file.name: digest(file) for file in sorted(draft.iterdir())})


def load(folder: Path, model: nn.Module, optimizers: Optimizers, average: dict[str, Tensor] | None) -> Progress:
    """Fill everything from the newest valid checkpoint, and say where it stood: at the start, if there is none yet."""
    for draft in folder.glob(".[0-9]*"):  # of a run that was killed while it wrote
        shutil.rmtree(draft, ignore_errors=True)
    if not checkpoints(folder):
        return Progress()
    path = newest(folder)
    if path is None:
        raise TrainingError(f"{folder}: there is no whole checkpoint to go on from")
    for later in checkpoints(folder):
        if later.name > path.name:  # damaged: another is written in its place
            shutil.rmtree(later)
    fill_from(read_file(path / WEIGHTS), parameters(model))
    progress = read(Progress, load_json(path / PROGRESS), str(path / PROGRESS))
    progress.score = None  # it was that checkpoint's, not the next one's
    make_moments(optimizers, progress.update - progress.skipped)
    fill_from(read_file(path / MOMENTS), moments(model, optimizers))
    if average is not None:
        fill_from(read_file(path / (AVERAGE if (path / AVERAGE).exists() else WEIGHTS)), average)
    return progress


def moments(model: nn.Module, optimizers: Optimizers) -> dict[str, Tensor]:
    """What the optimisers remember, under the names of the parameters."""
    named: dict[str, Tensor] = {}
    for name, parameter in parameters(model).items():
        for optimizer in optimizers:
            for key, moment in optimizer.state.get(parameter, {}).items():
                if key != "step":  # that is the update's number, the same for all
                    named[f"{name}.{key}"] = moment
    return named


def make_moments(optimizers: Optimizers, steps: int) -> None:
    """Optimisers make their moments with their first step; here they are made for them."""
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
    """Every checkpoint's directory, oldest first; whole or not."""
    return sorted(path for path in folder.glob("[0-9]*") if path.is_dir())


def newest(folder: Path) -> Path | None:
    """The newest checkpoint that is whole. Those that are not are passed over, and that is said."""
    for path in reversed(checkpoints(folder)):
        if (fault := damage(path)) is None:
            return path
        log.warning("%s is passed over: %s", path, fault)
    return None


def damage(path: Path) -> str | None:
    """What is wrong with a checkpoint, if anything."""
    try:
        manifest = load_json(path / MANIFEST)
        for name, expected in manifest.items():
            if digest(path / Path(name).name) != expected:
                return f"{name} is damaged"
    except (RegardError, OSError) as error:
        return str(error)
    return None if {WEIGHTS, MOMENTS, PROGRESS} <= manifest.keys() else "its manifest is not complete"


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def validated(folder: Path) -> Iterator[tuple[Path, float]]:
    """The checkpoints that were validated, oldest first, with their scores."""
    for path in checkpoints(folder):
        try:
            score = json.loads((path / PROGRESS).read_text(encoding="utf-8")).get("score")
        except (OSError, ValueError):
            continue
        if score is not None:
            yield path, score


def chosen(folder: Path, count: int, *, best: bool) -> list[Path]:
    """The checkpoints whose mean is the model: the last ones, or the best ones, of those that are whole."""
    return [path for path in _ranked(folder, best=best) if damage(path) is None][-count:]


def _ranked(folder: Path, *, best: bool) -> list[Path]:
    """The validated ones, those that are wanted last."""
    listed = list(validated(folder))
    if best:
        listed.sort(key=lambda pair: pair[1])
    return [path for path, _ in listed]


def prune(folder: Path, count: int, *, best: bool) -> None:
    """Remove what neither averaging nor going on (from two, in case one is damaged) will need. The best one stays."""
    wanted = (*_ranked(folder, best=best)[-count:], *_ranked(folder, best=True)[-1:])
    kept = {*wanted, *checkpoints(folder)[-2:]}
    for path in checkpoints(folder):
        if path not in kept:
            shutil.rmtree(path)


def mean_weights(paths: list[Path]) -> dict[str, Tensor]:
    """The mean of the weights of several checkpoints."""
    return mean(read_file(path / (AVERAGE if (path / AVERAGE).exists() else WEIGHTS)) for path in paths)
