"""regard classify"""

from pathlib import Path

import click

from regard.cli import options, output


@click.command(
    "classify",
    cls=options.Verb,
    epilog="""\b
Example:
  regard classify "What a lovely film." -m sst2
""",
)
@click.argument("text")
@options.model_option
@options.device_option
@options.json_option
def command(text: str, directory: Path, device: str, as_json: bool) -> None:
    """Print the probability of each label for TEXT."""
    labels = options.load(directory, device).classify(text)
    if as_json:
        output.as_json(labels)
    else:
        output.table([(f"{probability:.1%}", name) for name, probability in labels.items()], right="r")
