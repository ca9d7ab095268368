"""regard score"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options, output
from regard.errors import printable
from regard.plural import counted

if TYPE_CHECKING:
    from regard.evaluation.likelihood import Likelihood, Perplexity


@click.command(
    "score",
    cls=options.Verb,
    epilog="""\b
Examples:
  regard score test.en test.de -m en-de
  regard score corpus.en.gz corpus.de.gz -m en-de > scores.tsv
  regard score test.en test.de -m en-de --tokens --json | jq .log_prob
""",
)
@click.argument("source", type=options.PATH)
@click.argument("target", type=options.PATH)
@options.model_option
@options.device_option
@click.option("--to", metavar="LANGUAGE", help="Language of TARGET, for a model with several.")
@click.option("--tokens", is_flag=True, help="Add the log-probability of each piece.")
@options.json_option
def command(
    source: Path, target: Path, directory: Path, device: str, to: str | None, tokens: bool, as_json: bool
) -> None:
    """Compute the log-probability of each line of TARGET as the translation of the same line of SOURCE.

    Prints one line per pair: the log-probability of the whole text with its end token, a tab, and the mean per token.
    A pair with an empty source, or longer than the model's context, has no score: its line says nan. Both files may be
    gzipped, and are streamed.
    """
    from regard.evaluation.aligned_files import aligned
    from regard.evaluation.likelihood import Perplexity, likelihoods
    from regard.evaluation.translate_test_set import require_translation_model

    model = require_translation_model(options.load(directory, device))
    model.require_target_language(to)
    total, faults = Perplexity(), dict[str, tuple[int, int]]()
    for number, pair in enumerate(likelihoods(model, aligned(source, target), to=to), 1):
        total.add(pair)
        if pair.fault:
            first, count = faults.get(pair.fault, (number, 0))
            faults[pair.fault] = first, count + 1
        output.echo(output.json_line(as_object(pair, tokens)) if as_json else as_line(pair, tokens))
    for fault, (first, count) in faults.items():
        output.status(f"{count:,} without a score: {fault} (first: {source}:{first})")
    output.status(in_words(total))


def as_line(pair: "Likelihood", tokens: bool) -> str:
    columns = [f"{pair.log_prob:.6f}", f"{pair.mean:.6f}"]
    if tokens:
        scores = zip(pair.pieces, pair.log_probs, strict=True)
        columns.append(" ".join(f"{printable(piece)}={value:.6f}" for piece, value in scores))
    return "\t".join(columns)


def as_object(pair: "Likelihood", tokens: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "log_prob": finite(pair.log_prob),
        "mean": finite(pair.mean),
        "tokens": len(pair.pieces),
    }
    if pair.fault:
        fields["fault"] = pair.fault
    if tokens:
        fields |= {"pieces": pair.pieces, "log_probs": [finite(value) for value in pair.log_probs]}
    return fields


def in_words(total: "Perplexity") -> str:
    left_out = f", {total.left_out:,} left out" if total.left_out else ""
    return (
        f"perplexity {short(total.per_token)} per token, {short(total.per_word)} per word "
        f"({counted(total.pairs, 'pair')}{left_out}, {counted(total.tokens, 'token')}, {counted(total.words, 'word')})"
    )


def short(value: float) -> str:
    return f"{value:,.2f}" if value < 1e6 else f"{value:.3g}"


def finite(value: float) -> float | None:
    """None for nan and infinity, which JSON does not have."""
    return value if math.isfinite(value) else None
