"""Options that several verbs share, and the one way in which they load a model and read lines."""

import queue
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from regard.errors import InputError, UsageError

if TYPE_CHECKING:
    from regard.pipeline.loaded import Model

Command = Callable[..., Any]

AT_ONCE = 256
"""Lines that are worked on together at most: memory stays flat, however long the file."""


def model_option(command: Command) -> Command:
    return click.option(
        "-m", "--model", "directory", required=True, type=click.Path(path_type=Path), help="The model's directory."
    )(command)


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
    ("--patience", float, "Stop when so many times the beam has ended, not when none can win any more."),
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


def search_options(command: Command) -> Command:
    for name, kind, text in reversed(SEARCH):
        command = click.option(name, type=kind, help=text)(command)
    return command


def texts_or_lines(texts: tuple[str, ...], source: Path | None = None) -> Iterator[list[str]]:
    """The texts of the command line, or the lines of a file or of standard input: as many as are there by now."""
    if texts and source is not None:
        raise UsageError("give texts or a file, not both")
    if texts:
        yield list(texts)
        return
    if source is None:
        yield from lines_as_they_come(sys.stdin.buffer, "standard input")
        return
    try:
        with source.open("rb") as file:
            yield from lines_as_they_come(file, str(source))
    except OSError as error:
        raise InputError(f"{source}: cannot be read ({error.strerror})") from None


def lines_as_they_come(file: IO[bytes], name: str) -> Iterator[list[str]]:
    """Whole lines, in lists: one by one while someone types, many at once from a file."""
    waiting: queue.Queue[bytes | None] = queue.Queue(AT_ONCE)

    def read() -> None:
        for line in file:
            waiting.put(line)
        waiting.put(None)

    threading.Thread(target=read, daemon=True).start()
    number, done = 0, False
    while not done:
        batch = [waiting.get()]
        while batch[-1] is not None and len(batch) < AT_ONCE and not waiting.empty():
            batch.append(waiting.get())
        done = batch[-1] is None
        texts: list[str] = []
        for line in batch:
            if line is not None:
                number += 1
                try:
                    texts.append(line.decode("utf-8").rstrip("\r\n"))
                except UnicodeDecodeError as error:
                    raise InputError(f"{name}:{number}: is not UTF-8 (byte {error.start + 1} of the line)") from None
        if texts:
            yield texts


def load(directory: Path, device: str = "auto") -> "Model":
    """Load a model, with as many threads as there are cores to run them."""
    from regard import hardware

    hardware.prepare()
    hardware.use_threads()
    from regard.pipeline import load as load_model

    return load_model(directory, device=device)
