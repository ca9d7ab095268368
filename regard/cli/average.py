"""regard average"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from regard.cli import options, output
from regard.errors import printable
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
@click.option("--last", type=options.COUNT, metavar="N", help="Average the last N validated checkpoints.")
@click.option("--best", type=options.COUNT, metavar="N", help="Average the best N validated checkpoints.")
def command(sources: tuple[Path, ...], destination: Path, last: int | None, best: int | None) -> None:
    """Average several checkpoints of a run, or several models fine-tuned from the same one, into a new model directory
    DESTINATION."""
    from regard.errors import UsageError

    if len(sources) > 1:
        if last or best:
            raise UsageError("--last and --best select checkpoints of one run; they do not work with several models")
        _average_models(sources, destination)
    else:
        _average_checkpoints(sources[0], destination, last, best)


def _average_models(paths: Sequence[Path], destination: Path) -> None:
    from regard.errors import ModelError
    from regard.text import tokenizer as text
    from regard.weights.average import average_models
    from regard.weights.checksums import new_model
    from regard.weights.model_io import write_model

    made = average_models(paths)
    with new_model(destination) as draft:
        if tokenizer := text.load(paths[0]):
            tokenizer.save(draft)
        tokens = _tokens(paths[0])
        for path in paths[1:]:
            if _tokens(path) != tokens:
                raise ModelError(f"{path}: its tokenizer differs from that of {paths[0]}, so they cannot be averaged")
        write_model(draft, made)
    for path in paths:
        output.echo(printable(str(path)))


def _tokens(path: Path) -> dict[str, bytes]:
    """The contents of the files that the tokenizer is saved to."""
    from regard.text import tokenizer as text

    tokenizer = text.load(path)
    if tokenizer is None:
        return {}
    with TemporaryDirectory() as folder:
        tokenizer.save(Path(folder))
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def _average_checkpoints(run: Path, destination: Path, last: int | None, best: int | None) -> None:
    from regard.errors import TrainingError, UsageError
    from regard.training import checkpoint
    from regard.training.export import write_mean
    from regard.training.run_directory import STATE, read_recipe

    if (last is None) == (best is None):
        raise UsageError("give either --last N or --best N")
    recipe = read_recipe(run)
    count = last or best or 1
    paths = checkpoint.chosen(run / STATE, count, best=best is not None)
    if not paths:
        raise TrainingError(f"{run}: there is no validated checkpoint")
    if len(paths) < count:
        option, available = "--best" if last is None else "--last", counted(len(paths), "validated checkpoint")
        raise UsageError(f"{option} {count}: {run} has only {available}")
    if (best or 1) > 1 and not recipe.train.average_best:
        raise UsageError(
            f"--best {best}: {run} kept its best checkpoint and the last ones; average_best = true keeps more"
        )
    write_mean(destination, recipe, run, paths)
    for path in paths:
        output.echo(printable(str(path)))
