"""regard calibrate"""

from pathlib import Path

import click

from regard.cli import options, output
from regard.errors import UsageError
from regard.plural import counted

MIN_PAIRS = 100
"""A fit on fewer means nothing."""


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
@click.option("--to", metavar="LANGUAGE", help="Language of TARGET, for a model with several target languages.")
@options.device_option
def command(directory: Path, source: Path, target: Path, to: str | None, device: str) -> None:
    """Calibrate the confidence of the translation model in DIRECTORY.

    SOURCE and TARGET are parallel files, one sentence per line, not seen in training; at least 100 pairs. The result
    is written to DIRECTORY/confidence.json.
    """
    from regard.config import to_table
    from regard.documents.confidence import FILE
    from regard.evaluation.aligned_files import aligned
    from regard.evaluation.calibration import ParallelTexts, calibrate
    from regard.io import write_json
    from regard.weights.checksums import refresh

    model = options.load_translator(directory, device).model
    pairs = [(text, reference) for text, reference in aligned(source, target) if text and reference]
    if len(pairs) < MIN_PAIRS:
        raise UsageError(f"{counted(len(pairs), 'sentence pair')} are too few to calibrate; give at least {MIN_PAIRS}")
    data = ParallelTexts([text for text, _ in pairs], [reference for _, reference in pairs], to)
    confidence = calibrate(model, [data])
    write_json(directory / FILE, to_table(confidence))
    refresh(directory, FILE)
    assert confidence.error is not None
    output.table([(name, f"{error:.3f}") for name, error in confidence.error.items()], header=("calibration", "error"))
