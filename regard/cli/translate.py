"""regard translate"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options, output
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.tasks import TranslationModel
    from regard.tasks.base import Translation
    from regard.translate.document_translator import DocumentTranslator
    from regard.translate.formats.files import Format
    from regard.translate.options import TranslationOptions
    from regard.translate.result import TranslationResult


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
@click.option("-i", "--input", "source", type=options.PATH, help="Read lines from this file.")
@click.option("-o", "--output", "target", type=options.PATH, help="Write to this file, when all is done.")
@options.json_option
@options.translation_options
@click.option("--format", "form", type=click.Choice(["plain", "html", "markdown"]), default="plain", show_default=True)
@click.option("--align", is_flag=True, help="Add which source word each target word comes from, as Moses' 0-0 1-2.")
@click.option(
    "--as-is",
    is_flag=True,
    help="One search for each line, as the model has it: nothing is split, kept out of it or tried again. "
    "--n-best and sampling imply it.",
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
    **rest: Any,
) -> None:
    """Translate TEXTS, or the lines of a file or of standard input.

    One line in is one line out, in order; an empty line stays empty. Lines come out as soon as they are done.
    Addresses, numbers, {placeholders} and the like come out as they went in. With --n-best, a line is: number of the
    source line ||| translation ||| score.
    """
    options.check_output(target, source)
    wished, search = options.split_options(rest)
    interpreter = options.load_translator(directory, device)
    options.search_settings(interpreter.model, search)
    plain = as_is or (search["n_best"] or 1) > 1 or bool(search["temperature"])
    if plain and (given := [name for name in ("glossary", "min_confidence", "alternatives") if wished[name]]):
        raise UsageError(f"--{given[0].replace('_', '-')} does not go with --as-is, --n-best or --temperature")
    if align and form != "plain":
        raise UsageError("--align is for plain text: of a line with markup, no words can be numbered")
    wishes = options.make_translation_options(wished, search, links=align or as_json)
    with output.line_writer(target) as say:
        lines = options.read_texts(texts, source)
        if plain:
            found = searched(interpreter.model, lines, as_json, align, {"to": wishes.to, **search})
        else:
            found = rendered(interpreter, lines, as_json, align, form, wishes)
        for line in found:
            say(line)


# ---- text as people have it ----


def rendered(
    interpreter: "DocumentTranslator",
    batches: Iterable[list[options.InputText]],
    as_json: bool,
    align: bool,
    form: "Format",
    wishes: "TranslationOptions",
) -> Iterator[str]:
    from regard.translate.formats.files import parse

    interpreter.check(wishes)
    for batch in batches:
        documents = [parse(line.text, form, source=wishes.source, target=wishes.to) for line in batch]
        with options.locate_errors(batch):
            found = iter(
                interpreter.translate_passages([one for document in documents for one in document.passages], wishes)
            )
        for line, document in zip(batch, documents, strict=True):
            parts = [next(found) for _ in document.passages]
            text = document.render([part.passage for part in parts])
            yield told(line.text, text, parts) if as_json else shown(line.text, text, parts, align)


def told(source: str, text: str, parts: Sequence["TranslationResult"]) -> str:
    """For programs: all that is known."""
    from dataclasses import asdict

    total = sum(len(part.text) for part in parts)
    sure = sum(len(part.text) * part.confidence for part in parts) / total if total else 1.0
    return output.json_line(
        {
            "source": source,
            "text": text,
            "confidence": round(sure, 4),
            "from": parts[0].language if parts else None,
            "to": parts[0].to if parts else None,
            "notes": list(dict.fromkeys(note for part in parts for note in part.notes)),
            "sentences": [asdict(sentence) for part in parts for sentence in part.sentences],
        }
    )


def shown(source: str, text: str, parts: Sequence["TranslationResult"], align: bool) -> str:
    text = text.replace("\n", " ")
    if not align:
        return text
    from regard.decoding.align import moses

    return f"{text} ||| {' '.join(moses(word_links(source.strip(), part)) for part in parts)}"


def word_links(source: str, part: "TranslationResult") -> set[tuple[int, int]]:
    """Which word became which, words being what white space separates."""
    here, there = ([found.start() for found in re.finditer(r"\S+", text)] for text in (source, part.text))
    return {(bisect_right(here, a) - 1, bisect_right(there, c) - 1) for (a, _), (c, _) in part.links}


# ---- as the model has it ----


def searched(
    model: "TranslationModel",
    batches: Iterable[list[options.InputText]],
    as_json: bool,
    align: bool,
    search: dict[str, Any],
) -> Iterator[str]:
    number = 0
    for batch in batches:
        full = [line for line in batch if line.text.strip()]
        with options.locate_errors(full):
            found = iter(model.translations([line.text for line in full], align=align, **search))
        for text, _ in batch:
            yield from listed(number, text, next(found) if text.strip() else [], as_json, align, search)
            number += 1


def listed(
    number: int, source: str, found: list["Translation"], as_json: bool, align: bool, search: dict[str, Any]
) -> Iterator[str]:
    """The lines for one text."""
    if as_json:
        from dataclasses import fields

        told = [{field.name: getattr(one, field.name) for field in fields(one) if field.repr} for one in found]
        yield output.json_line({"source": source, "translations": told})
        return
    several = (search.get("n_best") or 1) > 1
    if not found and not several:
        yield ""
    for one in found:
        parts = [one.text]
        if several:
            parts = [str(number), one.text, f"{one.score:.4f}"]
        if align:
            from regard.decoding.align import moses

            parts.append(moses(one.alignment or []))
        yield " ||| ".join(part.replace("\n", " ") for part in parts)
