"""regard generate"""

from pathlib import Path
from typing import Any

import click

from regard.cli import options, output


@click.command(
    "generate",
    cls=options.Verb,
    epilog="""\b
Examples:
  regard generate "Once upon a time" -m stories --max-new 100
  regard generate -m stories --temperature 0.8 --top-p 0.9 --seed 1
""",
)
@click.argument("prompt", default="")
@options.model_option
@options.device_option
@options.search_options
def command(prompt: str, directory: Path, device: str, **search: Any) -> None:
    """Continue PROMPT; without PROMPT, start a new text."""
    model = options.load(directory, device)
    options.search_settings(model, search)
    output.echo(prompt + model.generate(prompt, **search))
