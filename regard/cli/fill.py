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
@click.option("--top", default=5, show_default=True, type=click.IntRange(1), help="How many candidates for each mask.")
def command(text: str, directory: Path, device: str, as_json: bool, top: int) -> None:
    """Say what may stand at each mask in TEXT."""
    gaps = options.load(directory, device).fill(text, top=top)
    if as_json:
        output.as_json([[candidate._asdict() for candidate in gap] for gap in gaps])
        return
    for number, gap in enumerate(gaps, 1):
        title = f"mask {number}" if len(gaps) > 1 else ""
        output.table([(f"{candidate.probability:.1%}", candidate.token) for candidate in gap], title=title, right="r")
