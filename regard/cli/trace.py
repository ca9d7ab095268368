"""regard trace"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli import options, output
from regard.errors import UsageError
from regard.plural import counted
from regard.text.words import readable

if TYPE_CHECKING:
    from regard.explorer.capture import BlockView, Embedded, Head, Journey, Tokens

LINKS = {80: 2, 100: 3}
"""Links that are shown of each head, by the width of the terminal."""


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
@click.option("--target", help="A translation to follow; the model's own unless given.")
@click.option("--to", metavar="LANGUAGE", help="The language to translate into, for a model that has several.")
@click.option("--block", "only", type=click.IntRange(1), help="Show this block only.")
@click.option("--top", default=5, show_default=True, type=click.IntRange(1), help="How many next tokens.")
@options.json_option
def command(
    text: str,
    directory: Path,
    device: str,
    target: str | None,
    to: str | None,
    only: int | None,
    top: int,
    as_json: bool,
) -> None:
    """Show the path of TEXT through a model: tokens, embeddings, what each head looks at, the likeliest next tokens."""
    from regard.explorer.capture import capture

    model = options.load(directory, device)
    for name, given in (("--target", target), ("--to", to)):
        if given is not None and model.family != "seq2seq":
            raise UsageError(f"{name} is for models that translate, and this is of family {model.family}")
    journey = capture(model, text, target, to=to, top=top)
    if only is not None:
        blocks = [block for block in journey.blocks if block.index == only - 1]
        if not blocks:
            there = max(block.index for block in journey.blocks) + 1
            raise UsageError(f"--block {only}: this model has {counted(there, 'block')}")
        journey = replace(journey, blocks=blocks)
    if as_json:
        output.as_json(asdict(journey))
    else:
        show(journey)


def show(journey: "Journey") -> None:
    for tokens, embedded in zip(journey.tokens, journey.embeddings, strict=True):
        show_tokens(tokens, embedded)
    for block in journey.blocks:
        show_block(block, journey)
    show_next(journey)


def show_tokens(tokens: "Tokens", embedded: "Embedded") -> None:
    positions = embedded.position_norms
    rows = [
        (
            str(place),
            visible(piece),
            str(number),
            f"{embedded.token_norms[place]:.2f}",
            f"{positions[place]:.2f}" if positions else "in attention",
            f"{embedded.output_norms[place]:.2f}",
        )
        for place, (piece, number) in enumerate(zip(tokens.pieces, tokens.ids, strict=True))
    ]
    header = ("place", "piece", "id", "|token|", "|position|", "|into block 1|")
    output.table(rows, title=f"{tokens.side} -> tokens -> embeddings + positions", header=header, right="r rrrr")
    output.echo()


def show_block(block: "BlockView", journey: "Journey") -> None:
    own = journey.tokens[-1 if block.stack == "decoder" else 0]
    rows = [(f"head {i}", *head_cells(head, own, own)) for i, head in enumerate(block.attention, 1)]
    if block.cross is not None:
        source = journey.tokens[0]
        rows += [(f"cross {i}", *head_cells(head, own, source)) for i, head in enumerate(block.cross, 1)]
    name = "" if block.stack == "stack" else f"{block.stack} "
    output.table(rows, title=f"{name}block {block.index + 1}")
    for part, norms in block.norms.items():
        mean = sum(norms) / len(norms)
        output.echo(f"  residual {part.replace('_', ' '):18} |x| {min(norms):.2f} … {max(norms):.2f}, mean {mean:.2f}")
    output.echo()


def head_cells(head: "Head", queries: "Tokens", keys: "Tokens") -> list[str]:
    """The strongest links of a head between words, one for a token, and its habit.

    Starts and separators are left out of the links: heads rest on them when they have nothing to do, and the
    habit says how much. So is a token's look at itself.
    """
    telling = [
        [
            look
            for look in looks
            if not queries.special[look.query]
            and not keys.special[look.key]
            and (look.query != look.key or keys != queries)
        ]
        for looks in head.looks
    ]
    count = LINKS[80 if output.width() < 100 else 100]
    best = [looks[0] for looks in telling if looks]
    strongest = sorted(best, key=lambda look: (-round(look.weight, 2), look.query))[:count]
    links = [
        f"{visible(queries.pieces[look.query])} → {visible(keys.pieces[look.key])} {look.weight:.2f}"
        for look in strongest
    ]
    habit = f"{head.share:.0%} to {head.habit}" if head.habit else ""
    return [*links, *[""] * (count - len(links)), habit]


def show_next(journey: "Journey") -> None:
    if journey.labels:
        output.table([(f"{chance:.1%}", name) for name, chance in journey.labels.items()], title="labels", right="r")
    if not journey.next:
        return
    pieces = journey.tokens[-1].pieces
    after = "at each place" if journey.family == "encoder" else "after each token"
    rows = [
        (visible(piece), *(f"{visible(guess.token)} {guess.probability:.1%}" for guess in guesses))
        for piece, guesses in zip(pieces, journey.next, strict=True)
    ]
    output.table(rows, title=f"logits -> the likeliest tokens {after}")


def visible(piece: str) -> str:
    """A piece with its spaces and line ends to be seen: byte-level BPE spells them Ġ and Ċ, sentencepiece ▁."""
    return readable(piece).replace(" ", "▁").replace("Ġ", "▁").replace("\n", "⏎")
