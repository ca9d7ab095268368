"""regard translate-file"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from regard.cli import options, output
from regard.documents.formats import files
from regard.errors import InputError
from regard.plural import counted

SEARCH_OPTIONS = [name for name in options.SEARCH_OPTIONS if name != "n_best"]
TRANSLATION_OPTIONS = [name for name in options.TRANSLATION_OPTIONS if name != "alternatives"]
SECONDS_PER_LINE = 10.0
"""Between two lines of progress, where there is no terminal for a bar."""


@click.command(
    "translate-file",
    cls=options.Verb,
    epilog="""\b
Examples:
  regard translate-file film.en.srt -o film.de.srt --to de
  regard translate-file page.html -o seite.html --from en --to de
  regard translate-file messages.po -o de.po --to de --glossary terms.tsv
  regard translate-file notes -o notizen --format markdown --to de
""",
)
@click.argument("source", type=options.PATH)
@click.option("-o", "--output", "target", type=options.PATH, required=True, metavar="FILE", help="Write to this file.")
@options.box_option
@options.device_option
@partial(options.translation_options, names=TRANSLATION_OPTIONS)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(files.FORMATS)),
    help="Format of the file. Default: from its name.",
)
@partial(options.search_options, names=SEARCH_OPTIONS)
def command(
    source: Path, target: Path, directory: Path | None, device: str, form: files.Format | None, **given: Any
) -> None:
    """Translate the file SOURCE and keep its format.

    \b
    plain      .txt            po    .po .pot
    html       .html .xhtml    tmx   .tmx
    markdown   .md             tsv   .tsv
    subtitles  .srt .vtt
    """
    options.check_output(target, source)
    form = form or files.format_of(source)
    text, encoding = files.read_text(source, form)
    translation, search = options.split_options(given)
    translator = options.load_translator(directory, device)
    options.search_settings(search, translator.model)
    wanted = options.make_translation_options(translation, search)
    try:
        document = files.parse(text, form, source=wanted.source, target=wanted.to)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    if form == "tmx" and not translator.has_languages:  # the file needs the language's name, the model does not
        wanted = replace(wanted, to=None)
    translator.check(wanted)
    from regard.documents.translate_document import translate_document

    with output.progress(len(document.passages)) as bar:
        done = translate_document(translator, document, wanted, on_progress(bar))
    files.write_text(target, done.text, encoding)
    if not done.sentences:
        output.status(f"{target}: nothing to translate")
        return
    kept = f", source text kept for {done.kept:,}" if done.kept else ""
    output.status(
        f"{target}: {counted(done.passages, 'passage')}, {counted(done.sentences, 'sentence')}, "
        f"mean confidence {done.confidence:.2f}{kept}"
    )


def on_progress(bar: output.Bar) -> Callable[[int], None]:
    """Show a progress bar on a terminal, a line every few seconds elsewhere."""
    last = -SECONDS_PER_LINE

    def show(count: int) -> None:
        nonlocal last
        now = time.monotonic()
        if bar.live or now - last >= SECONDS_PER_LINE:
            last = now
            bar.update(count, "passages")

    return show
