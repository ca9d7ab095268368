"""What `make demo` shows: the translator in the box at work, how sure it is, which word became which, and a page.

Nothing is fetched: the model comes with the package. Everything that is shown here, the verbs of the command line show
for texts of your own.
"""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.explorer.page import translation_page
from regard.io import write_text
from regard.translate.document_translator import DocumentTranslator, load_translator
from regard.translate.result import TranslationResult

SENTENCES = [
    ("I ate an apple.", "de"),
    ("Let's translate this sentence.", "de"),
    ("Where is the nearest train station?", "fr"),
    ("Je suis étudiant.", "en"),
    ("Wir haben gestern einen langen Spaziergang gemacht.", "en"),
    ("Hello {name}, you have 3 new messages.", "de"),
]
PICTURE = ("The children are playing in the garden.", "de")
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
        found = box.translate(text, to=to)
        table.add_row(Text(text), coloured(found), f"{found.confidence:.2f}")
    console.print(table)
    console.print(Text("   the redder a word, the less sure it is\n", style="dim"))


def coloured(found: TranslationResult) -> Text:
    """Each word in the colour of its confidence."""
    text = Text(found.text)
    at = 0
    for word in (word for sentence in found.sentences for word in sentence.words):
        start = found.text.find(word.text, at)
        if start >= 0:
            at = start + len(word.text)
            text.stylize("green" if word.confidence > 0.6 else "yellow" if word.confidence > 0.3 else "red", start, at)
    return text


def show_alignment(box: DocumentTranslator) -> None:
    """Which words of the source each word of the translation looked at, by cross-attention; and the same as a page."""
    source, to = PICTURE
    model = box.model
    found = model.translations([source], to=to)[0][0]
    looks = model.attention_of_words(found)
    read, written = source.split(), found.text.split()
    console.print(f"[bold]which word looks where[/]  “{source}” → “{found.text}”\n")
    width = max(map(len, written))
    for number, word in enumerate(written):
        cells = "".join(3 * SHADES[min(int(share * len(SHADES)), len(SHADES) - 1)] for share in looks[number].tolist())
        console.print(Text(f"   {word:>{width}}  {cells}"))
    for number, word in enumerate(read):
        console.print(Text(f"   {'':>{width}}  {'   ' * number}└─ {word}", style="dim"))
    words = box.translate(source, to=to).sentences[0].words
    config = model.network.config
    about = f"{config.encoder_layers} + {config.decoder_layers} layers of {config.heads} heads: the model in the box"
    write_text(PAGE, translation_page(model, source, found, words, about))
    console.print(Text(f"\n   every head of every layer: open {PAGE} in a browser\n"))


def show_next_steps() -> None:
    console.print("[bold]what to try next[/]")
    for line in (
        "train on your own data:  .venv/bin/regard train recipes/sample.toml runs/first   (docs/training.md)",
        '.venv/bin/regard translate "Your own sentence." --to de --json',
        ".venv/bin/regard translate-file README.md -o LIESMICH.md --to de",
        ".venv/bin/regard info box",
        '.venv/bin/regard trace "Your own sentence." -m box',
        "make meaning             words in context, sentences by meaning, in a real encoder",
    ):
        console.print(Text(f"   {line}"), soft_wrap=True)


if __name__ == "__main__":
    main()
