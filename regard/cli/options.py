"""Options that several verbs share, and the one way in which they load a model and read lines."""

import os
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import click

from regard.errors import ConfigError, InputError, UsageError

if TYPE_CHECKING:
    from regard.decoding.settings import SearchSettings
    from regard.tasks.base import Model
    from regard.translate.document_translator import DocumentTranslator, TranslationOptions

Command = Callable[..., Any]

AT_ONCE = 256
"""Lines that are worked on together at most: memory stays flat, however long the file."""
MOST_ALTERNATIVES = 7


class NamedPath(click.Path):
    """A path that names something: an empty one, often of a variable that is not set, would be the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value):
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


PATH = NamedPath(path_type=Path)


def model_option(command: Command) -> Command:
    return click.option("-m", "--model", "directory", required=True, type=PATH, help="The model's directory.")(command)


def box_option(command: Command) -> Command:
    text = "A model's directory, OPUS-MT's too; without it, the translator in the box."
    return click.option("-m", "--model", "directory", type=PATH, help=text)(command)


def device_option(command: Command) -> Command:
    return click.option("--device", default="auto", show_default=True, help="cpu, cuda, mps or auto.")(command)


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="For programs: JSON instead of text.")(command)


SEARCH: list[
    tuple[str, Any, str]
] = [  # those of decoding/settings.py, which checks them; the model's own settings hold where none is given
    ("--beam", int, "Hypotheses that are followed at a time; 1 is greedy."),
    ("--n-best", int, "How many translations or samples."),
    ("--length-penalty", float, "Exponent: more favours longer texts."),
    ("--length-form", click.Choice(["plain", "paper"]), "Divide by n^α, or by the paper's ((5 + n) / 6)^α."),
    (
        "--patience",
        float,
        "Stop when so many times the beam has ended (1); 1000 is until none can win any more.",
    ),
    ("--temperature", float, "Sample, more boldly the higher; 0 does not."),
    ("--top-k", int, "Sample among so many tokens."),
    ("--top-p", float, "Sample among the fewest tokens with so much probability."),
    ("--min-p", float, "Sample among tokens with so much of the likeliest one's probability."),
    ("--repetition-penalty", float, "Above 1 discourages tokens that were there before."),
    ("--frequency-penalty", float, "Discourages a token for each time it was said."),
    ("--presence-penalty", float, "Discourages a token once it was said."),
    ("--no-repeat-ngram", int, "No run of so many tokens comes twice."),
    ("--min-new", int, "Shortest output, in tokens."),
    ("--max-new", int, "Longest output, in tokens."),
    ("--seed", int, "Of sampling."),
]


WISHES: list[tuple[tuple[str, ...], Any, str]] = [  # those of translate/document_translator.py
    (("--from", "origin"), str, "The language of the text; told by its looks, where the model knows how."),
    (("--to",), str, "The language to translate into, for a model that has several."),
    (("--glossary",), PATH, "Terms to keep to: a line is a term, a tab, its translation; none keeps it as it is."),
    (("--min-confidence",), float, "Leave sentences as they are that are less sure than this, from 0 to 1."),
    (("--alternatives",), int, "Other translations to give as well (--json), so many at most."),
]


def wish_options(command: Command) -> Command:
    for names, kind, text in reversed(WISHES):
        command = click.option(*names, type=kind, help=text)(command)
    return command


def divide(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was given -> wishes about the translation, and settings of the search."""
    names = {names[-1].lstrip("-").replace("-", "_") for names, _, _ in WISHES}
    return {name: given[name] for name in names}, {name: value for name, value in given.items() if name not in names}


def wishes(
    interpreter: "DocumentTranslator", given: dict[str, Any], search: dict[str, Any], *, links: bool = False
) -> "TranslationOptions":
    from regard.translate.document_translator import TranslationOptions
    from regard.translate.glossary import Glossary

    for name, low, high in (("min_confidence", 0, 1), ("alternatives", 0, MOST_ALTERNATIVES)):
        if given[name] is not None and not low <= given[name] <= high:
            raise UsageError(f"--{name.replace('_', '-')} must be in {low} … {high}, not {given[name]}")
    return TranslationOptions(
        to=given["to"],
        source=given["origin"],
        glossary=Glossary.read(given["glossary"]) if given["glossary"] else None,
        min_confidence=given["min_confidence"] or 0.0,
        alternatives=given["alternatives"] or 0,
        links=links,
        search=search,
    )


def search_options(command: Command) -> Command:
    for name, kind, text in reversed(SEARCH):
        command = click.option(name, type=kind, help=text)(command)
    return command


def search_settings(model: "Model", given: dict[str, Any]) -> "SearchSettings":
    """How to search. A complaint speaks of the options as they were typed: --max-new, not max_new."""
    from regard.tasks.generation_settings import search_settings as settings_of

    try:
        return settings_of(model.generation, given)
    except (ConfigError, UsageError) as error:
        message = str(error).removeprefix("search: ")
        for name in (name for name, value in given.items() if value is not None):
            typed = f"--{name.replace('_', '-')}"
            message = re.sub(rf"\b{name}(?= must | is | -?\d)", typed, message)  # and not in "widen the beam"
        raise type(error)(message) from None


def check_output(written: Path | None, *inputs: Path | None) -> None:
    """What is read must not be overwritten, whatever name it is given."""
    if written is None or not os.path.isfile(written):  # a terminal may well be both
        return
    for path in inputs:
        with suppress(OSError):  # one that is not there is complained of when it is read
            if path is not None and path.samefile(written):
                raise UsageError(f"{written}: is read here, so nothing can be written to it")


class Line(NamedTuple):
    """A text to work on, and what a complaint about it calls it."""

    text: str
    name: str


@contextmanager
def named(lines: Sequence[Line]) -> Iterator[None]:
    """A complaint about one of these texts says where it stands."""
    try:
        yield
    except InputError as error:
        name = "" if error.place is None else lines[error.place].name
        if not name:
            raise
        raise type(error)(f"{name}: {error}") from None


def texts_or_lines(texts: tuple[str, ...], source: Path | None = None) -> Iterator[list[Line]]:
    """The texts of the command line, or the lines of a file or of standard input: as many as are there by now."""
    if texts and source is not None:
        raise UsageError("give texts or a file, not both")
    if texts:
        yield [Line(text, f"text {number}" if len(texts) > 1 else "") for number, text in enumerate(texts, 1)]
        return
    if source is None:
        if sys.stdin is None:
            raise UsageError("standard input is closed; give texts, or a file")
        yield from lines_as_they_come(sys.stdin.buffer, lambda number: f"line {number} of standard input")
        return
    try:
        with source.open("rb") as file:
            yield from lines_as_they_come(file, lambda number: f"{source}:{number}")
    except OSError as error:
        raise InputError(f"{source}: cannot be read ({error.strerror})") from None


def lines_as_they_come(file: IO[bytes], name: Callable[[int], str]) -> Iterator[list[Line]]:
    """Whole lines, in lists: one by one while someone types, many at once from a file."""
    waiting: queue.Queue[bytes | OSError | None] = queue.Queue(AT_ONCE)

    def read() -> None:
        end: OSError | None = None
        try:
            for line in file:
                waiting.put(line)
        except OSError as error:
            end = error  # for the one who waits
        waiting.put(end)

    threading.Thread(target=read, daemon=True).start()
    number, done = 0, False
    while not done:
        batch = [waiting.get()]
        while isinstance(batch[-1], bytes) and len(batch) < AT_ONCE and not waiting.empty():
            batch.append(waiting.get())
        done = not isinstance(batch[-1], bytes)
        lines: list[Line] = []
        for line in batch:
            if isinstance(line, bytes):
                number += 1
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise InputError(f"{name(number)}: is not UTF-8 (byte {error.start + 1} of the line)") from None
                lines.append(Line(text.rstrip("\r\n"), name(number)))
        if lines:
            yield lines
        if isinstance(batch[-1], OSError):
            raise batch[-1]


def load(directory: Path, device: str = "auto") -> "Model":
    """Load a model, with as many threads as there are cores to run them."""
    from regard.cpu import threads

    threads.use()
    from regard.tasks import load as load_model

    return load_model(model_path(directory), device=device)


def model_path(directory: Path) -> Path:
    """The directory, or that of the model in the box, which is known by this name."""
    from regard.translate.document_translator import BOX

    return BOX if str(directory) == "box" and not directory.exists() else directory


def interpreter(directory: Path | None, device: str = "auto") -> "DocumentTranslator":
    """Load a model that translates; the one in the box, unless there is another."""
    from regard.cpu import threads

    threads.use()
    from regard.translate.document_translator import load_translator

    return load_translator(directory, device=device)
