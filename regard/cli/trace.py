"""regard trace"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli import options, output
from regard.errors import UsageError
from regard.plural import counted, with_article
from regard.text.word_ids import readable

if TYPE_CHECKING:
    from regard.explorer.capture import BlockView, EmbeddingView, HeadView, TokenView, TraceView

LINKS_PER_HEAD = {80: 2, 100: 3}
"""By the width of the terminal."""


@click.command(
    "trace",
    cls=options.Verb,
    epilog="""\b
Examples:
  regard trace "The bank raised its rates." -m all-MiniLM-L6-v2
  regard trace "I am a student." --to de -m box
  regard trace "I am a student." --target "Ich bin Student." -m opus-mt-en-de
  regard trace "Once upon a time" -m stories --json | jq .next[-1]
""",
)
@click.argument("text")
@options.model_option
@options.device_option
@click.option("--target", metavar="TEXT", help="Translation to trace. Default: the model's own.")
@click.option("--to", metavar="LANGUAGE", help="Target language, for a model with several.")
@click.option("--block", type=options.COUNT, metavar="N", help="Show only this block.")
@click.option("--top", default=5, show_default=True, type=options.COUNT, metavar="N", help="Number of next tokens.")
@options.json_option
def command(
    text: str,
    directory: Path,
    device: str,
    target: str | None,
    to: str | None,
    block: int | None,
    top: int,
    as_json: bool,
) -> None:
    """Show what a model computes for TEXT: tokens, embeddings, attention of each head, likeliest next tokens."""
    from regard.explorer.capture import capture
    from regard.tasks import TranslationModel

    model = options.load(directory, device)
    for name, given in (("--target", target), ("--to", to)):
        if given is not None and model.family != "seq2seq":
            raise UsageError(f"{name} is for translation models; this is {with_article(model.family)} model")
    if isinstance(model, TranslationModel):
        model.require_target_language(to)
    view = capture(model, text, target, to=to, top=top)
    if block is not None:
        blocks = [one for one in view.blocks if one.index == block - 1]
        if not blocks:
            count = max(one.index for one in view.blocks) + 1
            raise UsageError(f"--block {block}: this model has {counted(count, 'block')}")
        view = replace(view, blocks=blocks)
    if as_json:
        output.as_json(asdict(view))
    else:
        show(view)


def show(view: "TraceView") -> None:
    for tokens, embedding in zip(view.tokens, view.embeddings, strict=True):
        show_tokens(tokens, embedding)
    for block in view.blocks:
        show_block(block, view)
    show_next(view)


def show_tokens(tokens: "TokenView", embedding: "EmbeddingView") -> None:
    position_norms = embedding.position_norms
    rows = [
        (
            str(position),
            visible(piece),
            str(token),
            f"{embedding.token_norms[position]:.2f}",
            f"{position_norms[position]:.2f}" if position_norms else "in attention",
            f"{embedding.output_norms[position]:.2f}",
        )
        for position, (piece, token) in enumerate(zip(tokens.pieces, tokens.ids, strict=True))
    ]
    header = ("position", "piece", "id", "|token|", "|position|", "|into block 1|")
    output.table(rows, title=f"{tokens.side} -> tokens -> embeddings + positions", header=header, right="r rrrr")
    output.echo()


def show_block(block: "BlockView", view: "TraceView") -> None:
    tokens = view.tokens[-1 if block.stack == "decoder" else 0]
    rows = [(f"head {i}", *head_cells(head, tokens, tokens)) for i, head in enumerate(block.attention, 1)]
    if block.cross is not None:
        source = view.tokens[0]
        rows += [(f"cross {i}", *head_cells(head, tokens, source)) for i, head in enumerate(block.cross, 1)]
    name = "" if block.stack == "stack" else f"{block.stack} "
    output.table(rows, title=f"{name}block {block.index + 1}")
    for part, norms in block.norms.items():
        mean = sum(norms) / len(norms)
        output.echo(f"  residual {part.replace('_', ' '):18} |x| {min(norms):.2f} … {max(norms):.2f}, mean {mean:.2f}")
    output.echo()


def head_cells(head: "HeadView", queries: "TokenView", keys: "TokenView") -> list[str]:
    """The strongest links of a head, one per query token, and its pattern.

    Links leave out start and separator tokens, where heads rest when they have nothing to do (the pattern says how
    much), and a token's attention to itself.
    """
    between_words = [
        [
            link
            for link in links
            if not queries.special[link.query]
            and not keys.special[link.key]
            and (link.query != link.key or keys != queries)
        ]
        for links in head.links
    ]
    count = LINKS_PER_HEAD[80 if output.width() < 100 else 100]
    best = [links[0] for links in between_words if links]
    strongest = sorted(best, key=lambda link: (-round(link.weight, 2), link.query))[:count]
    cells = [
        f"{visible(queries.pieces[link.query])} → {visible(keys.pieces[link.key])} {link.weight:.2f}"
        for link in strongest
    ]
    pattern = f"{head.share:.0%} to {head.pattern}" if head.pattern else ""
    return [*cells, *[""] * (count - len(cells)), pattern]


def show_next(view: "TraceView") -> None:
    if view.labels:
        output.table(
            [(f"{probability:.1%}", name) for name, probability in view.labels.items()], title="labels", right="r"
        )
    if not view.next:
        return
    pieces = view.tokens[-1].pieces
    after = "at each position" if view.family == "encoder" else "after each token"
    rows = [
        (visible(piece), *(f"{visible(one.token)} {one.probability:.1%}" for one in predictions))
        for piece, predictions in zip(pieces, view.next, strict=True)
    ]
    output.table(rows, title=f"logits -> likeliest tokens {after}")


def visible(piece: str) -> str:
    """A piece with visible spaces and line ends, which byte-level BPE writes as Ġ and Ċ, sentencepiece as ▁."""
    return readable(piece).replace(" ", "▁").replace("Ġ", "▁").replace("\n", "⏎")
