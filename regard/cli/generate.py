"""regard generate"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options, output
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.decoding.settings import SearchSettings
    from regard.tasks.base import Model


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
    settings = options.search_settings(model, search)
    one = settings.n_best == 1 or "generate" not in model.tasks  # for another family, generate() is the error
    texts = [prompt + model.generate(prompt, **search)] if one else n_best_texts(model, prompt, settings)
    if as_json:
        output.as_json(texts)
    elif settings.n_best == 1:
        output.echo(texts[0])
    else:
        for number, text in enumerate(texts, 1):
            output.echo(f"{number} ||| {' '.join(text.splitlines())}")


def n_best_texts(model: "Model", prompt: str, settings: "SearchSettings") -> list[str]:
    """The prompt with each of its n best continuations, or with each sample."""
    from regard.tasks import LanguageModel

    assert isinstance(model, LanguageModel)
    ids = model.tokenizer.encode(prompt)
    if not ids:
        if model.generation.start is None:
            raise InputError("the prompt is empty, and this model has no start token")
        ids = [model.generation.start]
    (hypotheses,) = model._search([model._ids(ids)], settings)
    decode = model.tokenizer.decode
    return [prompt + decode([*ids, *one.tokens]).removeprefix(decode(ids)) for one in hypotheses]
