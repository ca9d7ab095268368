"""regard translate-file"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from regard.cli import options, output
from regard.plural import counted

AT_ONCE = 512
"""Passages that are searched together: memory stays flat, and the bar moves."""
SAMPLE = 20_000
"""Characters of a file that its language is told from."""


@click.command(
    "translate-file",
    cls=options.Verb,
    epilog="""\b
Examples:
  regard translate-file film.en.srt -o film.de.srt --to de
  regard translate-file page.html -o seite.html --from en --to de
  regard translate-file messages.po -o de.po --to de --glossary terms.tsv
""",
)
@click.argument("source", type=options.PATH)
@click.option("-o", "--output", "target", type=options.PATH, required=True, help="The file to write, when all is done.")
@options.box_option
@options.device_option
@options.translation_options
@click.option("--format", "form", help="As which kind of file to read it, unless its name says so.")
@options.search_options
def command(source: Path, target: Path, directory: Path | None, device: str, form: str | None, **rest: Any) -> None:
    """Translate the file SOURCE and keep its form: text, HTML, Markdown, subtitles (.srt, .vtt), .po, TMX and TSV."""
    from regard.errors import InputError
    from regard.translate.formats import files

    options.check_output(target, source)
    kind = form if form in files.FORMATS else files.format_of(Path(f"file.{form}") if form else source)
    wished, search = options.split_options(rest)
    text, encoding = files.read_text(source)
    interpreter = options.load_translator(directory, device)
    options.search_settings(interpreter.model, search)
    wishes = options.make_translation_options(wished, search)
    interpreter.check(wishes)
    try:
        document = files.parse(text, kind, source=wishes.source, target=wishes.to)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    passages = document.passages
    if wishes.source is None:  # once for all of it: "Menu" and "Version" by themselves are anybody's
        sample = "\n".join(one.text for one in passages)[:SAMPLE]
        wishes = replace(wishes, source=interpreter.source_language(sample, wishes))
    found = []
    with output.progress(len(passages)) as bar:
        for start in range(0, len(passages), AT_ONCE):
            found += interpreter.translate_passages(passages[start : start + AT_ONCE], wishes)
            bar.update(len(found), "passages")
    files.write_text(target, document.render([one.passage for one in found]), encoding)
    sentences = [sentence for one in found for sentence in one.sentences]
    kept = sum("kept" in one.notes or "abstained" in one.notes for one in sentences)
    sure = sum(one.confidence for one in sentences) / max(len(sentences), 1)
    output.status(
        f"{target}: {counted(len(passages), 'passage')}, {counted(len(sentences), 'sentence')}, "
        f"confidence {sure:.2f} on average" + (f", {kept:,} left as they were" if kept else "")
    )
