"""regard average"""

from pathlib import Path

import click

from regard.cli import options, output
from regard.wording import counted


@click.command(
    "average",
    epilog="""\b
Examples:
  regard average runs/en-de mean --last 5
  regard average runs/en-de mean --best 5
""",
)
@click.argument("run", type=options.PATH)
@click.argument("destination", type=options.PATH)
@click.option("--last", type=click.IntRange(1), help="The mean of the last so many validated checkpoints.")
@click.option("--best", type=click.IntRange(1), help="Of the best so many.")
def command(run: Path, destination: Path, last: int | None, best: int | None) -> None:
    """Make a model of the mean of several checkpoints of RUN, as a new directory DESTINATION."""
    from regard.errors import TrainingError, UsageError
    from regard.training import state
    from regard.training.translation import reopen_run, write_mean

    if (last is None) == (best is None):
        raise UsageError("give either --last or --best, with a number")
    recipe = reopen_run(run)
    asked = last or best or 1
    paths = state.chosen(run / "state", asked, best=best is not None)
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
        output.say(str(path))
