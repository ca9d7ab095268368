"""regard calibrate"""

from pathlib import Path

import click

from regard.cli import options, output
from regard.errors import UsageError
from regard.plural import counted

LEAST = 100
"""Pairs below which a fit is worth nothing."""


@click.command(
    "calibrate",
    cls=options.Verb,
    epilog="""\b
Example:
  regard calibrate runs/en-de/model valid.en valid.de
""",
)
@click.argument("directory", type=options.PATH)
@click.argument("source", type=options.PATH)
@click.argument("target", type=options.PATH)
@click.option("--to", help="The language of TARGET, for a model that has several.")
@options.device_option
def command(directory: Path, source: Path, target: Path, to: str | None, device: str) -> None:
    """Fit what the translator in DIRECTORY says about its confidence, on texts and translations that it has not seen.

    SOURCE and TARGET are aligned line by line. The directory gets a file confidence.json.
    """
    from regard.config import plain
    from regard.evaluation.calibration import Known, calibrate
    from regard.evaluation.test_set import aligned
    from regard.io import write_json
    from regard.translate.confidence import FILE

    translator = options.load_translator(directory, device).model
    pairs = [(one, other) for one, other in aligned(source, target) if one and other]
    if len(pairs) < LEAST:
        raise UsageError(f"{counted(len(pairs), 'pair')} are too few to fit anything on; take {LEAST} at least")
    found = calibrate(translator, [Known([one for one, _ in pairs], [other for _, other in pairs], to)])
    write_json(directory / FILE, plain(found))
    assert found.error is not None
    output.table([(name, f"{error:.3f}") for name, error in found.error.items()], header=("calibration", "error"))
