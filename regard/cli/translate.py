"""regard translate"""

from pathlib import Path

import click

from regard.cli import options, output


@click.command(
    "translate",
    epilog="""\b
Examples:
  regard translate "I am a student." -m opus-mt-en-de
  regard translate -m opus-mt-en-de < letter.en > letter.de
""",
)
@click.argument("texts", nargs=-1)
@options.model_option
@options.device_option
@click.option("--max-new", type=click.IntRange(1), help="Longest translation, in tokens.")
def command(texts: tuple[str, ...], directory: Path, device: str, max_new: int | None) -> None:
    """Translate TEXTS, or the lines of standard input: one line in is one line out, an empty line stays empty."""
    model = options.load(directory, device)
    for line in options.texts_or_lines(texts):
        output.say(model.translate(line, max_new=max_new) if line.strip() else "")
