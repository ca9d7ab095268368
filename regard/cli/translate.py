"""regard translate"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options, output
from regard.cli.lines import InputText
from regard.errors import UsageError
from regard.plural import counted

if TYPE_CHECKING:
    from regard.documents.document_translator import DocumentTranslator
    from regard.documents.formats.files import Format
    from regard.documents.options import TranslationOptions
    from regard.documents.passage import Document, Passage
    from regard.documents.result import TranslationResult
    from regard.tasks import TranslationModel
    from regard.tasks.translation import Translation

Read = Callable[[Callable[[], bool]], Iterator[list[InputText]]]
"""Batches of the lines there are by now; empty ones while the callable says that other work is waiting."""


@click.command(
    "translate",
    cls=options.Verb,
    epilog="""\b
Examples:
  regard translate "I ate an apple." --to de
  regard translate --to fr < letter.en > letter.fr
  regard translate "<p>See <b>here</b></p>" --to de --format html
  regard translate "Where is the station?" --to de --json --alternatives 2
  regard translate -m opus-mt-en-de -i book.en -o book.de --glossary terms.tsv
  regard translate "I am a student." -m en-de --as-is --n-best 3 --align
""",
)
@click.argument("texts", nargs=-1)
@options.box_option
@options.device_option
@click.option("-i", "--input", "source", type=options.PATH, metavar="FILE", help="Translate the lines of this file.")
@click.option("-o", "--output", "target", type=options.PATH, metavar="FILE", help="Write to this file, once complete.")
@options.json_option
@options.translation_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["plain", "html", "markdown"]),
    default="plain",
    show_default=True,
    help="Markup of the texts.",
)
@click.option("--align", is_flag=True, help="Append the word alignment in Moses format: 0-0 1-2.")
@click.option(
    "--as-is",
    is_flag=True,
    help="Search once per line: no sentence splitting, no protected spans, no retries. "
    "Implied by --n-best and by sampling.",
)
@options.search_options
def command(
    texts: tuple[str, ...],
    directory: Path | None,
    device: str,
    source: Path | None,
    target: Path | None,
    as_json: bool,
    form: "Format",
    align: bool,
    as_is: bool,
    **given: Any,
) -> None:
    """Translate TEXTS, or the lines of a file or of standard input.

    Each line becomes one line, in order; empty lines stay empty. Lines are written as soon as they are translated.
    Addresses, numbers, {placeholders} and the like stay unchanged. With --n-best, a line is: number of the source
    line ||| translation ||| score.
    """
    options.check_output(target, source)
    translation, search = options.split_options(given)
    as_is = as_is or (search["n_best"] or 1) > 1 or bool(search["temperature"])
    refused = [
        options.option_name(name) for name in ("glossary", "min_confidence", "alternatives") if translation[name]
    ]
    refused += ["--from"] * bool(translation["origin"]) + ["--format"] * (form != "plain")
    if as_is and refused:
        raise UsageError(f"{refused[0]} does not work with --as-is, --n-best or --temperature")
    if align and form != "plain":
        raise UsageError("--align needs plain text: words of a line with markup have no numbers")
    with output.line_writer(target) as write:
        options.search_settings(search)
        translator = options.load_translator(directory, device)
        options.search_settings(search, translator.model)
        wanted = options.make_translation_options(translation, search, align=align or as_json, words=as_json)
        read = partial(options.read_texts, texts, source)
        if as_is:
            lines = search_lines(translator.model, read, as_json, align, {"to": wanted.to, **search})
        else:
            lines = translate_lines(translator, read, as_json, align, form, wanted)
        for line in lines:
            write(line)


# ---- lines as documents ----


def translate_lines(
    translator: "DocumentTranslator",
    read: Read,
    as_json: bool,
    align: bool,
    form: "Format",
    wanted: "TranslationOptions",
) -> Iterator[str]:
    from regard.documents.stream import TranslationStream

    waiting: deque[tuple[str, Document]] = deque()
    results: deque[TranslationResult] = deque()
    kept = 0

    def finished() -> Iterator[str]:
        nonlocal kept
        results.extend(stream.results())
        while waiting and len(results) >= len(waiting[0][1].passages):
            source, document = waiting.popleft()
            parts = [results.popleft() for _ in document.passages]
            text = document.render([part.passage for part in parts])
            kept += sum(one.keeps_source for part in parts for one in part.sentences if one.notes)
            yield json_line(source, text, wanted.to, parts) if as_json else text_line(source, text, parts, align)

    with TranslationStream(translator, wanted) as stream:
        for batch in read(lambda: bool(waiting)):
            for line in batch:
                document = parse(line.text, form)
                waiting.append((line.text, document))
                for passage in document.passages:
                    with options.locate_errors([line]):
                        stream.add(passage)
                    while stream.full:
                        yield from finished()
            yield from finished()
    if kept and not as_json:
        output.status(f"source text kept for {counted(kept, 'sentence')}; --json tells which and why")


class PlainLine:
    """A line of plain text: one passage, or none if it is blank. The white space around the text stays."""

    def __init__(self, text: str) -> None:
        from regard.documents.passage import Passage

        core = text.strip()
        self.before, _, self.after = text.partition(core) if core else (text, "", "")
        self.passages = [Passage(core)] if core else []

    def render(self, translated: Sequence["Passage"]) -> str:
        return "".join((self.before, *(passage.text.replace("\n", " ") for passage in translated), self.after))


def parse(text: str, form: "Format") -> "Document":
    # a text of the command line may have several lines, a file a byte order mark in the middle
    if form == "plain" and "\n" not in text and "\ufeff" not in text:
        return PlainLine(text)
    from regard.documents.formats.files import parse as parse_format

    return parse_format(text, form, source=None, target=None)


def json_line(source: str, text: str, to: str | None, parts: Sequence["TranslationResult"]) -> str:
    from regard.documents.result import line_as_dict

    return output.json_line(line_as_dict(source, text, to, parts))


def text_line(source: str, text: str, parts: Sequence["TranslationResult"], align: bool) -> str:
    text = text.replace("\n", " ")
    if not align:
        return text
    from regard.decoding.align import moses

    return f"{text} ||| {' '.join(moses(part.word_alignment(source.strip())) for part in parts)}"


# ---- lines as single searches ----


def search_lines(
    model: "TranslationModel", read: Read, as_json: bool, align: bool, search: dict[str, Any]
) -> Iterator[str]:
    from regard.documents.stream import SentenceStream

    number = 0
    waiting: deque[str] = deque()
    results: deque[list[Translation]] = deque()
    to, settings = search.pop("to"), options.search_settings(search, model)

    def finished() -> Iterator[str]:
        nonlocal number
        results.extend(stream.results())
        while waiting and (results or not waiting[0].strip()):
            source = waiting.popleft()
            translations = results.popleft() if source.strip() else []
            yield from translation_lines(number, source, translations, as_json, align, search)
            number += 1

    with SentenceStream(model, settings, to=to, align=align) as stream:
        for batch in read(lambda: bool(waiting)):
            for line in batch:
                waiting.append(line.text)
                if line.text.strip():
                    with options.locate_errors([line]):
                        stream.add(line.text)
                while stream.full:
                    yield from finished()
            yield from finished()


def translation_lines(
    number: int, source: str, found: list["Translation"], as_json: bool, align: bool, search: dict[str, Any]
) -> Iterator[str]:
    """The output for one source line: with n-best a line for each translation, or else one line."""
    if as_json:
        from dataclasses import fields

        shown = [{field.name: getattr(one, field.name) for field in fields(one) if field.repr} for one in found]
        yield output.json_line({"source": source, "translations": shown})
        return
    n_best = (search.get("n_best") or 1) > 1
    if not found and not n_best:
        yield ""
    for one in found:
        parts = [str(number), one.text, f"{one.score:.4f}"] if n_best else [one.text]
        if align:
            from regard.decoding.align import moses

            parts.append(moses(one.alignment or []))
        yield " ||| ".join(part.replace("\n", " ") for part in parts)
