"""regard info"""

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options, output
from regard.config import to_table
from regard.plural import counted

if TYPE_CHECKING:
    from regard.tasks.base import Model
    from regard.weights.model_directory import Card

MAX_PROBLEMS = 10
"""Files that do not match their hash, in the output."""


@click.command(
    "info",
    cls=options.Verb,
    epilog="""\b
Examples:
  regard info opus-mt-en-de
  regard info box
""",
)
@click.argument("directory", type=options.PATH)
@options.json_option
def command(directory: Path, as_json: bool) -> None:
    """Show a model's family, settings, parameters by part, memory and tokenizer, and verify its hashes."""
    from regard.weights.checksums import SHA256SUMS, verify
    from regard.weights.model_directory import Card

    model = options.load(directory, "cpu")
    about = describe(model)
    card = Card.load(model.source)
    checked = verify(model.source)
    if as_json:
        output.as_json(about | {"card": to_table(card) if card else None, "checksums": asdict(checked)})
        return
    if card:
        show_card(card)
    output.table(
        [
            ("family", str(about["family"])),
            ("tasks", ", ".join(model.tasks) or "logits"),
            ("memory", f"{about['bytes'] / 2**20:,.1f} MB of {about['weights']}"),
            ("tokenizer", counted(about["tokenizer"]["pieces"], "piece") if about["tokenizer"] else "none"),
            ("checksums", f"none, there is no {SHA256SUMS}" if checked.status == "none" else checked.status),
            *(("", problem) for problem in checked.problems[:MAX_PROBLEMS]),
        ],
        title=str(directory),
    )
    output.echo()
    output.table([(name, str(value)) for name, value in about["settings"].items()], title="settings")
    output.echo()
    parts = [(name, f"{count:,}") for name, count in about["parameters"].items()]
    output.table(parts, title="parameters", right=" r")


def show_card(card: "Card") -> None:
    """Print the model card."""
    rows = [("for", card.about), *(("data", line) for line in card.data), ("licence", card.licence)]
    output.table([*rows, *(("limits", line) for line in card.limits)], title=card.name)
    output.echo()
    if card.figures:
        names = list(card.figures[0])
        cells = [[row.get(name, "") for name in names] for row in card.figures]
        output.table(cells, header=names, right=" " + "r" * (len(names) - 1), title="held-out test set")
        output.echo()


def describe(model: "Model") -> dict[str, Any]:
    from regard.weights.quantize import is_quantized
    from regard.weights.safetensors_files import state_tensors

    counts: dict[str, int] = {}
    tensors = state_tensors(model.network)
    for name, tensor in tensors.items():
        part = name.split(".")[0]
        counts[part] = counts.get(part, 0) + tensor.numel()
    settings = to_table(model.config)
    defaults = {field.name: field.default for field in fields(model.config)}
    labels = settings.get("labels")
    if isinstance(labels, list) and len(labels) > 10:
        settings["labels"] = counted(len(labels), "label")
    return {
        "family": model.family,
        "tasks": list(model.tasks),
        "settings": {name: value for name, value in settings.items() if value != defaults[name] and value != []},
        "parameters": counts | {"in all": sum(counts.values())},
        "weights": "int8" if is_quantized(model.network) else "float32",
        "bytes": sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()),
        "tokenizer": {"pieces": model.tokenizer.vocab} if model.has_tokenizer else None,
    }
