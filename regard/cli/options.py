"""What the verbs share: their command class, common options, loading a model, reading texts."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click

from regard.cli.lines import InputText, no_other_work, read_lines
from regard.decoding.settings import SearchSettings
from regard.errors import ConfigError, InputError, OutputError, UsageError

if TYPE_CHECKING:
    from regard.documents.document_translator import DocumentTranslator
    from regard.documents.options import TranslationOptions
    from regard.tasks.base import Model

Decorated = Callable[..., Any]


class NamedPath(click.Path):
    """A path that must not be empty: an unset shell variable would name the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value):
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


class Count(click.types.IntParamType):
    """A whole number from 1, refused in the words of the settings."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = int(super().convert(value, param, ctx))
        if number < 1:
            self.fail(f"must be at least 1, not {number}", param, ctx)
        return number


PATH = NamedPath(path_type=Path)
COUNT = Count()
OPTION_LIKE = re.compile(r"--?[A-Za-z][\w-]*")
"""What is taken for an option, known or misspelled. Other arguments are texts: "- Buy milk", "-5 degrees"."""


class Option(click.Option):
    """An option with a section in the help text."""

    def __init__(self, *args: Any, section: str = "Options", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.section = section


class Verb(click.Command):
    """A command whose texts may begin with a dash, and whose help text has sections."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, self.with_texts_last(ctx, args))
        except click.NoSuchOption as error:
            if error.possibilities:
                raise
            if not any(
                isinstance(param, click.Argument) and param.name in ("texts", "text", "prompt")
                for param in self.get_params(ctx)
            ):
                raise
            raise click.UsageError(f"{error.message} Put -- before a text that begins with a dash.", ctx) from None

    def with_texts_last(self, ctx: click.Context, args: Sequence[str]) -> list[str]:
        """The same arguments as: options, --, texts. After -- click takes no text for an option."""
        values: dict[str, int] = {}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option):
                values |= dict.fromkeys((*param.opts, *param.secondary_opts), 0 if param.is_flag else param.nargs)
        options, texts, rest = list[str](), list[str](), list(args)
        while rest:
            argument = rest.pop(0)
            if argument == "--":
                texts += rest
                break
            name = argument.partition("=")[0]
            if name in values or argument[:2] in values or OPTION_LIKE.fullmatch(name):
                count = values.get(argument, 0)
                if len(rest) < count:  # a value is missing, and -- must not become it
                    return [*options, argument, *rest]
                options += [argument, *rest[:count]]
                del rest[:count]
            else:
                texts.append(argument)
        return [*options, "--", *texts] if texts else options

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                sections.setdefault(getattr(param, "section", "Options"), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def model_option(command: Decorated) -> Decorated:
    option = click.option(
        "-m", "--model", "directory", required=True, type=PATH, metavar="DIR", help="Model directory."
    )
    return option(command)


def box_option(command: Decorated) -> Decorated:
    text = "Model directory, OPUS-MT's included. Default: the translator in the box."
    return click.option("-m", "--model", "directory", type=PATH, metavar="DIR", help=text)(command)


def device_option(command: Decorated) -> Decorated:
    text = "cpu, cuda, mps or auto."
    return click.option("--device", default="auto", show_default=True, metavar="NAME", help=text)(command)


def json_option(command: Decorated) -> Decorated:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


SEARCH_SECTION = "Search (default: the model's own settings)"


def _search_options() -> dict[str, tuple[Any, str]]:
    """Type and help of every search setting that is an option: decoding/settings.py is the one list of them."""
    options: dict[str, tuple[Any, str]] = {}
    for field in fields(SearchSettings):
        if field.metadata["option"]:
            choices = get_args(field.type) if get_origin(field.type) is Literal else ()
            kind = click.Choice(choices) if choices else float if "float" in str(field.type) else int
            options[field.name] = kind, field.metadata["help"]
    return options


SEARCH_OPTIONS = _search_options()

TRANSLATION_OPTIONS: dict[str, tuple[tuple[str, ...], Any, str, str]] = {
    "origin": (("--from", "origin"), str, "LANGUAGE", "Source language; detected if omitted."),
    "to": (("--to",), str, "LANGUAGE", "Target language, for a model with several."),
    "glossary": (
        ("--glossary",),
        PATH,
        "FILE",
        "Lines of: term, tab, translation. Without translation, keep the term.",
    ),
    "min_confidence": (("--min-confidence",), float, "X", "Keep the source where confidence is below X (0 to 1)."),
    "alternatives": (("--alternatives",), int, "N", "Maximum number of alternative translations, in --json."),
}


def search_options(command: Decorated, names: Iterable[str] = SEARCH_OPTIONS) -> Decorated:
    for name in reversed(list(names)):
        kind, text = SEARCH_OPTIONS[name]
        metavar = {int: "N", float: "X"}.get(kind)
        option = click.option(
            option_name(name), cls=Option, section=SEARCH_SECTION, type=kind, metavar=metavar, help=text
        )
        command = option(command)
    return command


def translation_options(command: Decorated, names: Iterable[str] = TRANSLATION_OPTIONS) -> Decorated:
    for name in reversed(list(names)):
        spellings, kind, metavar, text = TRANSLATION_OPTIONS[name]
        option = click.option(*spellings, cls=Option, section="Translation", type=kind, metavar=metavar, help=text)
        command = option(command)
    return command


def option_name(field: str) -> str:
    """max_tokens -> --max-tokens"""
    return f"--{field.replace('_', '-')}"


def split_options(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """All options of a verb -> those of the translation, those of the search."""
    search = {name: value for name, value in given.items() if name not in TRANSLATION_OPTIONS}
    return {name: given.get(name) for name in TRANSLATION_OPTIONS}, search


def make_translation_options(
    given: dict[str, Any], search: dict[str, Any], *, align: bool = False, words: bool = False
) -> "TranslationOptions":
    from regard.documents.glossary import Glossary
    from regard.documents.options import TranslationOptions

    glossary = Glossary.read(given["glossary"]) if given["glossary"] else None
    try:
        return TranslationOptions(
            to=given["to"],
            source=given["origin"],
            glossary=glossary,
            min_confidence=given["min_confidence"] or 0.0,
            alternatives=given["alternatives"] or 0,
            align=align,
            words=words,
            search={name: value for name, value in search.items() if name != "n_best"},
        )
    except UsageError as error:
        field, _, rest = str(error).partition(" ")
        raise UsageError(f"{option_name(field)} {rest}") from None


def search_settings(given: dict[str, Any], model: "Model | None" = None) -> "SearchSettings":
    """The settings of a search; without a model, those that do not depend on it: to check options before it is loaded.

    Error messages name the options as typed: --max-tokens, not max_tokens.
    """
    from regard.decoding.settings import NEUTRAL_DEFAULTS
    from regard.decoding.settings import search_settings as settings_of

    try:
        return settings_of(model.generation if model else NEUTRAL_DEFAULTS, given)
    except (ConfigError, UsageError) as error:
        message = str(error).removeprefix("search: ")
        for name in (name for name, value in given.items() if value is not None):
            message = re.sub(rf"\b{name}(?= must | is | -?\d)", option_name(name), message)  # not in "widen the beam"
        raise type(error)(message) from None


def check_output(output: Path | None, *inputs: Path | None) -> None:
    """Refuse to overwrite an input, whatever name the output gives it, and a folder that is missing."""
    if output is not None and not output.parent.is_dir():
        raise OutputError(f"{output}: the folder {output.parent} does not exist; create it first")
    if output is None or not os.path.isfile(output):  # a terminal may be both
        return
    for path in inputs:
        with suppress(OSError):  # a missing input is reported when it is read
            if path is not None and path.samefile(output):
                raise UsageError(f"input and output are the same file: {output}")


@contextmanager
def locate_errors(texts: Sequence[InputText]) -> Iterator[None]:
    """Add the location of the text to an error about one of these."""
    try:
        yield
    except InputError as error:
        index = 0 if len(texts) == 1 else error.index
        location = "" if index is None else texts[index].location
        if not location:
            raise
        raise type(error)(f"{location}: {error}") from None


def read_texts(
    texts: tuple[str, ...], source: Path | None = None, other_work: Callable[[], bool] = no_other_work
) -> Iterator[list[InputText]]:
    """The texts of the command line, or the lines of a file or of standard input, as they arrive.

    Where no line is there, this waits for one; or it yields an empty batch while there is other work, also after the
    last line.
    """
    if texts and source is not None:
        raise UsageError("give texts or a file, not both")
    if texts:
        yield [InputText(text, f"text {number}" if len(texts) > 1 else "") for number, text in enumerate(texts, 1)]
    elif source is None and sys.stdin is None:
        raise UsageError("standard input is closed; give texts or a file")
    else:
        try:
            if source is None:
                yield from read_lines(sys.stdin.fileno(), lambda number: f"line {number} of standard input", other_work)
            else:
                with source.open("rb", buffering=0) as file:
                    yield from read_lines(file.fileno(), lambda number: f"{source}:{number}", other_work)
        except OSError as error:
            raise InputError(f"{source or 'standard input'}: cannot be read ({error.strerror})") from None
    while other_work():
        yield []


def load(directory: Path, device: str = "auto") -> "Model":
    """Load a model, with one thread per core."""
    from regard.tasks import load as load_model

    return load_model(directory, device=device, threads=0)


def load_translator(directory: Path | None, device: str = "auto") -> "DocumentTranslator":
    """Load a translation model, or the translator in the box."""
    from regard.tasks import load as load_model

    model = load_model("box" if directory is None else directory, device=device, threads=0)
    from regard.documents.document_translator import DocumentTranslator

    return DocumentTranslator(model)
