"""regard plot"""

from pathlib import Path

import click

from regard import io
from regard.cli import options, output
from regard.errors import OutputError, UsageError


@click.command(
    "plot",
    cls=options.Verb,
    epilog="""\b
Examples:
  regard plot runs/en-de
  regard plot runs/en-de runs/en-de-deep -o both.svg
""",
)
@click.argument("runs", nargs=-1, required=True, type=options.PATH)
@click.option("-o", "--output", "picture", type=options.PATH, help="PNG or SVG; RUN/curves.png unless given.")
def command(runs: tuple[Path, ...], picture: Path | None) -> None:
    """Draw the curves of one run or several: loss, learning rate, and what validation measured."""
    from regard.training.metrics_log import read_log

    try:
        import matplotlib
    except ImportError:
        raise UsageError("drawing needs matplotlib: pip install 'regard[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    picture = picture or runs[0] / "curves.png"
    panels = [("train", "loss"), ("train", "rate"), ("valid", "loss"), ("valid", "bleu")]
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 7), layout="constrained")
    for run in runs:
        records = read_log(run)
        if not records:
            raise UsageError(f"{run}: there is no log.jsonl with anything in it")
        for (kind, key), axis in zip(panels, axes.flat, strict=True):
            points = [(r["update"], r[key]) for r in records if r.get("kind") == kind and key in r]
            if points:
                axis.plot(*zip(*points, strict=True), label=run.name)
            axis.set(title=f"{kind} {key}", xlabel="update")
            axis.grid(alpha=0.3)
    axes.flat[0].legend()
    try:
        with io.atomic_file(picture) as draft:
            figure.savefig(draft, dpi=120, format=picture.suffix[1:] or "png")
    except ValueError as error:  # a format that there is not
        raise OutputError(f"{picture}: cannot be written ({error})") from None
    output.echo(str(picture))
