"""What `make demo` shows: translations by the translator in the box, their confidence, word alignment, and a page.

Nothing is downloaded: the model comes with the package. The command line does the same for your own texts.
"""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.documents.document_translator import DocumentTranslator, load_translator
from regard.documents.result import TranslationResult
from regard.explorer.page import translation_page
from regard.io import write_text

SENTENCES = [
    ("I ate an apple.", "de"),
    ("Let's translate this sentence.", "de"),
    ("Where is the nearest train station?", "fr"),
    ("Je suis étudiant.", "en"),
    ("Wir haben gestern einen langen Spaziergang gemacht.", "en"),
    ("Hello {name}, you have 3 new messages.", "de"),
]
ALIGNED = ("The children are playing in the garden.", "de")
PAGE = Path("demo.html")
SHADES = " ·░▒▓█"

console = Console(highlight=False)


def main() -> None:
    box = load_translator()
    card = box.card
    assert card is not None
    console.print(f"[bold]regard[/]  {card.about}\n")
    show_translations(box)
    show_alignment(box)
    show_next_steps()


def show_translations(box: DocumentTranslator) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("", "", "confidence"):
        table.add_column(name, justify="right" if name else "left", header_style="dim")
    for text, to in SENTENCES:
        result = box.translate(text, to=to)
        table.add_row(Text(text), colored(result), f"{result.confidence:.2f}")
    console.print(table)
    console.print(Text("   green: confident, yellow: less so, red: doubtful\n", style="dim"))


def colored(result: TranslationResult) -> Text:
    """Each word in the color of its confidence."""
    text = Text(result.text)
    end = 0
    for word in (word for sentence in result.sentences for word in sentence.words):
        start = result.text.find(word.text, end)
        if start >= 0:
            end = start + len(word.text)
            text.stylize("green" if word.confidence > 0.6 else "yellow" if word.confidence > 0.3 else "red", start, end)
    return text


def show_alignment(box: DocumentTranslator) -> None:
    """Show the cross-attention from each translated word to the source words; write all heads to a page."""
    source, to = ALIGNED
    model = box.model
    translation = model.translations([source], to=to)[0][0]
    weights = model.attention_of_words(translation)
    source_words, target_words = source.split(), translation.text.split()
    console.print(f"[bold]attention between words[/]  “{source}” → “{translation.text}”\n")
    width = max(map(len, target_words))
    for number, word in enumerate(target_words):
        cells = "".join(
            3 * SHADES[min(int(share * len(SHADES)), len(SHADES) - 1)] for share in weights[number].tolist()
        )
        console.print(Text(f"   {word:>{width}}  {cells}"))
    for number, word in enumerate(source_words):
        console.print(Text(f"   {'':>{width}}  {'   ' * number}└─ {word}", style="dim"))
    words = box.translate(source, to=to).sentences[0].words
    config = model.network.config
    about = f"{config.encoder_layers} + {config.decoder_layers} layers of {config.heads} heads: the model in the box"
    write_text(PAGE, translation_page(model, source, translation, words, about))
    console.print(Text(f"\n   every head of every layer: open {PAGE} in a browser\n"))


def show_next_steps() -> None:
    console.print("[bold]what to try next[/]")
    for line in (
        "train on your own data:  .venv/bin/regard train recipes/sample.toml runs/first   (docs/training.md)",
        '.venv/bin/regard translate "Your own sentence." --to de --json',
        ".venv/bin/regard translate-file README.md -o LIESMICH.md --to de",
        ".venv/bin/regard info box",
        '.venv/bin/regard trace "Your own sentence." -m box --to de',
        "make meaning             words in context and sentences by meaning, in an encoder",
    ):
        console.print(Text(f"   {line}"), soft_wrap=True)


if __name__ == "__main__":
    main()
