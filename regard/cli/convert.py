"""regard convert"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli import options, output
from regard.errors import ModelError, UsageError

if TYPE_CHECKING:
    from regard.tasks.base import Model


@click.command(
    "convert",
    cls=options.Verb,
    epilog="""\b
Examples:
  regard convert opus-mt-en-de en-de
  regard convert stories260K.bin stories
  regard convert en-de en-de-for-transformers --to huggingface
  regard convert en-de en-de-small --int8
  regard convert en-de en-de-quick --int8 --shortlist train.en train.de
A llama2.c checkpoint needs its tokenizer beside it, as tokenizer.bin.
""",
)
@click.argument("source", type=options.PATH)
@click.argument("destination", type=options.PATH)
@click.option(
    "--to",
    "style",
    type=click.Choice(["regard", "huggingface"]),
    default="regard",
    show_default=True,
    help="Format to write.",
)
@click.option("--int8", is_flag=True, help="Quantize the weights to int8: a quarter of the size, and faster.")
@click.option(
    "--shortlist",
    nargs=2,
    type=options.PATH,
    metavar="SOURCE TARGET",
    help="Learn a shortlist from aligned files: searches then score only likely translations of each word.",
)
def command(source: Path, destination: Path, style: str, int8: bool, shortlist: tuple[Path, Path] | None) -> None:
    """Write the model SOURCE to a new directory DESTINATION.

    SOURCE is a model directory of regard or of Hugging Face (Marian/OPUS-MT, BERT, RoFormer, GPT-2, Llama, ViT), or a
    llama2.c .bin file.
    """
    from regard.weights.checksums import new_model

    model = options.load(source, "cpu")
    if shortlist is not None:
        learn_shortlist(model, shortlist)
    if int8:
        from regard.weights.quantize import quantize

        quantize(model.network)
    with new_model(destination) as draft:
        model.save_files(draft, "huggingface" if style == "huggingface" else "regard")
        copy_extras(model.source, draft)
    output.echo(f"{destination}: {model.family} model, tokenizer {'included' if model.has_tokenizer else 'not found'}")


def copy_extras(source: Path, destination: Path) -> None:
    """Copy a translator's files beside the model: card, confidence, languages."""
    from regard.config import MAX_JSON_BYTES, read_file
    from regard.documents.confidence import FILE as CONFIDENCE
    from regard.documents.language_detector import FILE as LANGUAGES
    from regard.io import write_bytes
    from regard.weights.model_directory import CARD

    for name in (CARD, CONFIDENCE, LANGUAGES):
        if (source / name).is_file():
            try:
                content = read_file(source / name, MAX_JSON_BYTES)
            except OSError as error:
                raise ModelError(f"{source / name}: cannot be read ({error.strerror})") from None
            write_bytes(destination / name, content)


def learn_shortlist(model: "Model", paths: tuple[Path, Path]) -> None:
    from regard.data.filter_counts import Stats
    from regard.data.sources import DataSettings, Files, read_pairs
    from regard.tasks.translation import TranslationModel

    if not isinstance(model, TranslationModel):
        raise UsageError("--shortlist is for translation models")
    files = Files(source=str(paths[0].absolute()), target=str(paths[1].absolute()))
    model.learn_shortlist((pair.source, pair.target) for pair in read_pairs([files], DataSettings(), Stats()))
