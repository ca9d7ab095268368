"""regard plot"""

from pathlib import Path

import click

from regard import io
from regard.cli import options, output
from regard.errors import OutputError, UsageError, printable


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
@click.option(
    "-o", "--output", "picture", type=options.PATH, metavar="FILE", help="PNG or SVG file; RUN/curves.png by default."
)
def command(runs: tuple[Path, ...], picture: Path | None) -> None:
    """Plot the curves of one or more runs: training and validation loss, learning rate, BLEU."""
    from regard.training.metrics_log import read_log

    try:
        import matplotlib
    except ImportError:
        raise UsageError("regard plot needs matplotlib: pip install 'regard[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    picture = picture or runs[0] / "curves.png"
    panels = {  # both losses without label smoothing, so that they can be compared
        "training nll": ("train", "nll"),
        "learning rate": ("train", "rate"),
        "validation nll": ("valid", "loss"),
        "validation BLEU": ("valid", "bleu"),
    }
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 7), layout="constrained")
    for run in runs:
        records = read_log(run)
        if not records:
            raise UsageError(f"{run}: has no log.jsonl, or an empty one")
        for (title, (kind, key)), axis in zip(panels.items(), axes.flat, strict=True):
            points = [(r["update"], r[key]) for r in records if r.get("kind") == kind and key in r]
            if points:
                axis.plot(*zip(*points, strict=True), label=run.name)
            axis.set(title=title, xlabel="update")
            axis.grid(alpha=0.3)
    for axis in axes.flat:
        if axis.lines:
            axis.legend()
            break
    try:
        with io.atomic_file(picture) as draft:
            figure.savefig(draft, dpi=120, format=picture.suffix[1:] or "png")
    except ValueError as error:  # an unknown format
        raise OutputError(f"{picture}: cannot be written ({error})") from None
    output.echo(printable(str(picture)))
