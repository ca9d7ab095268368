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
  regard generate "Once upon a time" -m stories --max-tokens 100
  regard generate "Once upon" -m stories --temperature 0.8 --top-p 0.9 --n-best 3
""",
)
@click.argument("prompt", default="")
@options.model_option
@options.device_option
@options.json_option
@options.search_options
def command(prompt: str, directory: Path, device: str, as_json: bool, **search: Any) -> None:
    """Continue PROMPT; without PROMPT, start a new text.

    With --n-best, prints one text per line, as: number ||| text. Line breaks inside a text become spaces; --json keeps
    them, in a list of texts.
    """
    model = options.load(directory, device)
    settings = options.search_settings(search, model)
    texts = [prompt + text for text in model.generations(prompt, **search)]
    if as_json:
        output.as_json(texts)
    elif settings.n_best == 1:
        output.echo(texts[0])
    else:
        for number, text in enumerate(texts, 1):
            output.echo(f"{number} ||| {' '.join(text.splitlines())}")
