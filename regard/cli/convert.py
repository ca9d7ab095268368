"""regard convert"""

from pathlib import Path

import click

from regard.cli import options, output


@click.command(
    "convert",
    epilog="""\b
Examples:
  regard convert opus-mt-en-de en-de
  regard convert stories260K.bin stories
  regard convert en-de en-de-for-transformers --to huggingface
  regard convert en-de en-de-small --int8
A llama2.c tokenizer must lie beside its checkpoint as tokenizer.bin.
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
    help="Whose format.",
)
@click.option("--int8", is_flag=True, help="A quarter of the size, and faster: weights as whole numbers.")
def command(source: Path, destination: Path, style: str, int8: bool) -> None:
    """Write the model in SOURCE as a new directory DESTINATION.

    SOURCE is a directory of regard or of Hugging Face (Marian/OPUS-MT, BERT, RoFormer, GPT-2, Llama, ViT), or a
    llama2.c .bin file.
    """
    model = options.load(source, "cpu")
    if int8:
        from regard.weights.quantize import quantize

        quantize(model.network)
    model.save(destination, "huggingface" if style == "huggingface" else "regard")
    output.say(f"{destination}: {model.family} model, tokenizer {'included' if model.has_tokenizer else 'not found'}")
