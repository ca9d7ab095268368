"""regard generate"""

from pathlib import Path

import click

from regard.cli import options, output


@click.command(
    "generate",
    epilog="""\b
Examples:
  regard generate "Once upon a time" -m stories --max-new 100
  regard generate -m stories
""",
)
@click.argument("prompt", default="")
@options.model_option
@options.device_option
@click.option(
    "--max-new", type=click.IntRange(1), help="Longest continuation, in tokens; as long as the context unless given."
)
def command(prompt: str, directory: Path, device: str, max_new: int | None) -> None:
    """Go on after PROMPT, always with the likeliest token. Without a prompt, begin where texts begin."""
    model = options.load(directory, device)
    output.say(prompt + model.generate(prompt, max_new=max_new))
