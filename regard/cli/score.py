"""regard score"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options, output
from regard.plural import counted

if TYPE_CHECKING:
    from regard.evaluation.likelihood import Likelihood, Perplexity


@click.command(
    "score",
    cls=options.Verb,
    epilog="""\b
Examples:
  regard score test.en test.de -m en-de
  regard score corpus.en.gz corpus.de.gz -m en-de | paste - corpus.en corpus.de | sort -t$'\\t' -k2,2g
  regard score test.en test.de -m en-de --tokens --json | jq .log_probability
""",
)
@click.argument("source", type=options.PATH)
@click.argument("target", type=options.PATH)
@options.model_option
@options.device_option
@click.option("--to", metavar="LANGUAGE", help="The language that TARGET is in, for a model that has several.")
@click.option("--tokens", is_flag=True, help="Add the log-probability of each piece.")
@options.json_option
def command(
    source: Path, target: Path, directory: Path, device: str, to: str | None, tokens: bool, as_json: bool
) -> None:
    """Ask a model how likely each line of TARGET is as the translation of the same line of SOURCE.

    A line for each pair: the log-probability of the whole text and its end, and the mean for a token, with a tab
    between. A pair with an empty source, or longer than the model reads, has no score: its line says nan. Both files
    may be gzipped, and are never in memory whole.
    """
    from regard.evaluation.decode import require_translation_model
    from regard.evaluation.likelihood import Perplexity, likelihoods
    from regard.evaluation.test_set import aligned

    model = require_translation_model(options.load(directory, device))
    options.require_target_language(model, to)
    total, faults = Perplexity(), dict[str, tuple[int, int]]()
    for number, one in enumerate(likelihoods(model, aligned(source, target), to=to), 1):
        total.add(one)
        if one.fault:
            first, count = faults.get(one.fault, (number, 0))
            faults[one.fault] = first, count + 1
        output.echo(output.json_line(as_object(one, tokens)) if as_json else as_line(one, tokens))
    for fault, (first, count) in faults.items():
        output.status(f"{count:,} without a score: {fault} (first: {source}:{first})")
    output.status(in_words(total))


def as_line(one: "Likelihood", tokens: bool) -> str:
    columns = [f"{one.log_probability:.6f}", f"{one.mean:.6f}"]
    if tokens:
        pairs = zip(one.pieces, one.log_probabilities, strict=True)
        columns.append(" ".join(f"{piece}={value:.6f}" for piece, value in pairs))
    return "\t".join(columns)


def as_object(one: "Likelihood", tokens: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "log_probability": finite(one.log_probability),
        "mean": finite(one.mean),
        "tokens": len(one.pieces),
    }
    if one.fault:
        shown["fault"] = one.fault
    if tokens:
        shown |= {"pieces": one.pieces, "log_probabilities": [finite(value) for value in one.log_probabilities]}
    return shown


def in_words(total: "Perplexity") -> str:
    left_out = f", {total.left_out:,} left out" if total.left_out else ""
    return (
        f"perplexity {short(total.per_token)} per token, {short(total.per_word)} per word "
        f"({counted(total.pairs, 'pair')}{left_out}, {counted(total.tokens, 'token')}, {counted(total.words, 'word')})"
    )


def short(value: float) -> str:
    return f"{value:,.2f}" if value < 1e6 else f"{value:.3g}"


def finite(value: float) -> float | None:
    """JSON has no word for what is not a number, or for infinity."""
    return value if math.isfinite(value) else None
