"""regard fill"""

from pathlib import Path

import click

from regard.cli import options, output


@click.command(
    "fill",
    cls=options.Verb,
    epilog="""\b
Example:
  regard fill "The capital of France is [MASK]." -m bert-base-uncased
""",
)
@click.argument("text")
@options.model_option
@options.device_option
@options.json_option
@click.option("--top", default=5, show_default=True, type=options.COUNT, metavar="N", help="Candidates per mask.")
def command(text: str, directory: Path, device: str, as_json: bool, top: int) -> None:
    """Print the likeliest tokens for each mask in TEXT."""
    masks = options.load(directory, device).fill(text, top=top)
    if as_json:
        output.as_json([[candidate._asdict() for candidate in candidates] for candidates in masks])
        return
    for number, candidates in enumerate(masks, 1):
        title = f"mask {number}" if len(masks) > 1 else ""
        rows = [(f"{candidate.probability:.1%}", candidate.token) for candidate in candidates]
        output.table(rows, title=title, right="r")
