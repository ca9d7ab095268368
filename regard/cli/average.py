"""regard average"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from regard.cli import options, output
from regard.plural import counted


@click.command(
    "average",
    cls=options.Verb,
    epilog="""\b
Examples:
  regard average runs/en-de mean --last 5
  regard average runs/en-de mean --best 5
  regard average runs/one/model runs/other/model mean
""",
)
@click.argument("sources", type=options.PATH, nargs=-1, required=True)
@click.argument("destination", type=options.PATH)
@click.option("--last", type=click.IntRange(1), help="The mean of the last so many validated checkpoints.")
@click.option("--best", type=click.IntRange(1), help="Of the best so many.")
def command(sources: tuple[Path, ...], destination: Path, last: int | None, best: int | None) -> None:
    """Make a model of the mean of several checkpoints of a run, or of several models that went on from one, as a new
    directory DESTINATION."""
    from regard.errors import UsageError

    if len(sources) > 1:
        if last or best:
            raise UsageError("--last and --best are for the checkpoints of one run, not for several models")
        _of_models(sources, destination)
    else:
        _of_checkpoints(sources[0], destination, last, best)


def _of_models(paths: Sequence[Path], destination: Path) -> None:
    from regard.errors import ModelError
    from regard.io import new_directory
    from regard.text import tokenizer as text
    from regard.weights.average import average_models
    from regard.weights.checkpoint import write_model

    made = average_models(paths)
    with new_directory(destination) as draft:
        if tokenizer := text.load(paths[0]):
            tokenizer.save(draft)
        tokens = _tokens(paths[0])
        for path in paths[1:]:
            if _tokens(path) != tokens:
                raise ModelError(f"{path}: has other tokens than {paths[0]}, so there is no mean of them")
        write_model(draft, made)
    for path in paths:
        output.echo(str(path))


def _tokens(path: Path) -> dict[str, bytes]:
    """A tokenizer as it would be saved: the contents of its files."""
    from regard.text import tokenizer as text

    tokenizer = text.load(path)
    if tokenizer is None:
        return {}
    with TemporaryDirectory() as folder:
        tokenizer.save(Path(folder))
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def _of_checkpoints(run: Path, destination: Path, last: int | None, best: int | None) -> None:
    from regard.errors import TrainingError, UsageError
    from regard.training import checkpoint
    from regard.training.export import write_mean
    from regard.training.run_directory import STATE, read_recipe

    if (last is None) == (best is None):
        raise UsageError("give either --last or --best, with a number")
    recipe = read_recipe(run)
    asked = last or best or 1
    paths = checkpoint.chosen(run / STATE, asked, best=best is not None)
    if not paths:
        raise TrainingError(f"{run}: there is no validated checkpoint")
    if len(paths) < asked:
        option, there = "--best" if last is None else "--last", counted(len(paths), "validated checkpoint")
        raise UsageError(f"{option} {asked}: {run} has {there}")
    if (best or 1) > 1 and not recipe.train.average_best:
        raise UsageError(
            f"--best {best}: {run} kept its last checkpoints and the best one; average_best = true keeps more"
        )
    write_mean(destination, recipe, run, paths)
    for path in paths:
        output.echo(str(path))
