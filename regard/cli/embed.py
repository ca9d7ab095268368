"""regard embed"""

from pathlib import Path

import click

from regard.cli import options, output


@click.command(
    "embed",
    cls=options.Verb,
    epilog="""\b
Examples:
  regard embed "I ate an apple." "She had some fruit." -m all-MiniLM-L6-v2
  regard embed -m all-MiniLM-L6-v2 < sentences.txt > vectors.jsonl
""",
)
@click.argument("texts", nargs=-1)
@options.model_option
@options.device_option
def command(texts: tuple[str, ...], directory: Path, device: str) -> None:
    """Turn TEXTS, or the lines of standard input, into vectors: one JSON list per line."""
    model = options.load(directory, device)
    for batch in options.read_texts(texts):
        with options.locate_errors(batch):
            vectors = model.embed([line.text for line in batch]).tolist()
        for vector in vectors:
            output.echo(output.json_line(vector))
