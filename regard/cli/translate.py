"""regard translate"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options, output

if TYPE_CHECKING:
    from regard.pipeline import Translator
    from regard.pipeline.loaded import Translation


@click.command(
    "translate",
    epilog="""\b
Examples:
  regard translate "I am a student." -m opus-mt-en-de
  regard translate -m opus-mt-en-de < letter.en > letter.de
  regard translate -m en-de -i book.en -o book.de --beam 8
  regard translate "I am a student." -m en-de --n-best 3 --align --json
""",
)
@click.argument("texts", nargs=-1)
@options.model_option
@options.device_option
@click.option("-i", "--input", "source", type=options.PATH, help="Read lines from this file.")
@click.option("-o", "--output", "target", type=options.PATH, help="Write to this file, when all is done.")
@options.json_option
@click.option("--to", metavar="LANGUAGE", help="The language to translate into, for a model that has several.")
@click.option("--align", is_flag=True, help="Add which source word each target word comes from, as Moses' 0-0 1-2.")
@options.search_options
def command(
    texts: tuple[str, ...],
    directory: Path,
    device: str,
    source: Path | None,
    target: Path | None,
    as_json: bool,
    to: str | None,
    align: bool,
    **search: Any,
) -> None:
    """Translate TEXTS, or the lines of a file or of standard input.

    One line in is one line out, in order; an empty line stays empty. Lines come out as soon as they are done. With
    --n-best, a line is: number of the source line ||| translation ||| score.
    """
    options.check_output(target, source)
    model = options.load(directory, device)
    if not hasattr(model, "translations"):
        model.translate("")  # which says what this model can do instead
    options.search_settings(model, search)
    with output.lines_to(target) as say:
        lines = options.texts_or_lines(texts, source)
        for line in translate(model, lines, as_json, align, {"to": to, **search}):  # type: ignore[arg-type]
            say(line)


def translate(
    model: "Translator", batches: Iterable[list[options.Line]], as_json: bool, align: bool, search: dict[str, Any]
) -> Iterator[str]:
    number = 0
    for batch in batches:
        full = [line for line in batch if line.text.strip()]
        with options.named(full):
            found = iter(model.translations([line.text for line in full], align=align, **search))
        for text, _ in batch:
            yield from shown(number, text, next(found) if text.strip() else [], as_json, align, search)
            number += 1


def shown(
    number: int, source: str, found: list["Translation"], as_json: bool, align: bool, search: dict[str, Any]
) -> Iterator[str]:
    """The lines for one text."""
    from regard.decoding.align import moses

    if as_json:
        from dataclasses import fields

        told = [{field.name: getattr(one, field.name) for field in fields(one) if field.repr} for one in found]
        yield output.json_line({"source": source, "translations": told})
        return
    listed = (search.get("n_best") or 1) > 1
    if not found and not listed:
        yield ""
    for one in found:
        parts = [one.text]
        if listed:
            parts = [str(number), one.text, f"{one.score:.4f}"]
        if align:
            parts.append(moses(one.alignment or []))
        yield " ||| ".join(part.replace("\n", " ") for part in parts)
