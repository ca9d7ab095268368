"""Options that several verbs share, and the one way in which they load a model."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.errors import InputError

if TYPE_CHECKING:
    from regard.loaded import Model

Command = Callable[..., Any]


def model_option(command: Command) -> Command:
    return click.option(
        "-m", "--model", "directory", required=True, type=click.Path(path_type=Path), help="The model's directory."
    )(command)


def device_option(command: Command) -> Command:
    return click.option("--device", default="auto", show_default=True, help="cpu, cuda, mps or auto.")(command)


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="For programs: JSON instead of text.")(command)


def texts_or_lines(texts: tuple[str, ...]) -> Iterator[str]:
    """The texts of the command line, or the lines of standard input as they come."""
    if texts:
        yield from texts
        return
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise InputError(f"line {number} of the input is not UTF-8 (byte {error.start + 1} of it)") from None


def load(directory: Path, device: str = "auto") -> "Model":
    """Load a model, with as many threads as there are cores to run them."""
    from regard import hardware

    hardware.prepare()
    hardware.use_threads()
    from regard.pipeline import load as load_model

    return load_model(directory, device=device)
