"""The only file that prints: results on stdout, everything else on stderr.

Errors, progress, tables and JSON may quote a file of a stranger, so control characters never reach a terminal that
way. Translations and the like are printed as they are.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import CONTROL, printable

if TYPE_CHECKING:
    from rich.console import Console


def echo(text: str = "") -> None:
    """Print a result, flushed: the other end of a pipe sees it now."""
    print(text, flush=True)


def as_json(value: Any) -> None:
    echo(_escape(json.dumps(value, indent=2, ensure_ascii=False)))


def json_line(value: Any) -> str:
    return _escape(json.dumps(value, ensure_ascii=False))


def _escape(text: str) -> str:
    """Escape the control characters that JSON allows in strings; the first 32 are escaped already."""
    return re.sub(CONTROL, lambda found: found.group() if found.group() < " " else f"\\u{ord(found.group()):04x}", text)


@contextmanager
def line_writer(path: Path | None) -> Iterator[Callable[[str], None]]:
    """A function that writes a line: to standard output, or to a file written atomically."""
    if path is None:
        yield echo
        return
    from regard import io

    with io.open_text(path) as file:
        yield lambda line: print(line, file=file, flush=True)


def error(text: str) -> None:
    print(f"regard: {printable(text)}", file=sys.stderr, flush=True)


def width() -> int:
    """Columns of the terminal; 160 where there is none."""
    import shutil

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 160


def table(rows: Iterable[Sequence[str]], *, title: str = "", header: Sequence[str] = (), right: str = "") -> None:
    """Print aligned columns; `right` has an 'r' at the index of each right-aligned column."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, show_header=bool(header), pad_edge=False, padding=(0, 2, 0, 0), title_justify="left")
    listed = [[printable(cell) for cell in row] for row in rows]
    for i in range(max(map(len, listed), default=0)):
        name = Text(printable(header[i]) if i < len(header) else "")
        grid.add_column(name, justify="right" if right[i : i + 1] == "r" else "left", header_style="dim")
    for row in listed:
        grid.add_row(*(Text(cell) for cell in row))  # Text: brackets in tokens are not markup
    console = Console(width=width(), highlight=False)
    with console.capture() as captured:
        if title:
            console.print(Text(printable(title), style="bold"))
        for parts in console.render_lines(grid, pad=False):
            line = Text.assemble(*((part.text, part.style or "") for part in parts))
            line.rstrip()
            console.print(line, soft_wrap=True)
    # not printed by rich, which exits with 1 on a closed pipe
    print(captured.get(), end="", flush=True)


def status(text: str) -> None:
    """Print progress and the like, to stderr."""
    print(_printable_lines(text), file=sys.stderr, flush=True)


def _printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def _console() -> "Console":
    """For progress, on stderr. rich would exit with 1 when the reader is gone; main() handles it, as elsewhere."""
    from rich.console import Console

    class Stderr(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Stderr(stderr=True, highlight=False)


class Bar:
    """A progress bar with rate and time left on a terminal, lines of text elsewhere."""

    def __init__(self, total: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.console = _console()
        self.total, self.live = total, self.console.is_terminal
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
        self.rich = Progress(*columns, console=self.console, disable=not self.live)
        self.task = self.rich.add_task("", total=total)

    def update(self, done: int, text: str) -> None:
        if self.live:
            self.rich.update(self.task, completed=done, description=printable(text))
        else:
            self.status(f"{done:,}/{self.total:,}  {text}")

    def advance(self, done: int) -> None:
        """Move the bar, keeping its text."""
        if self.live:
            self.rich.update(self.task, completed=done)

    def status(self, text: str) -> None:
        self.rich.console.print(_printable_lines(text), markup=False, soft_wrap=True)


@contextmanager
def progress(total: int) -> Iterator[Bar]:
    bar = Bar(total)
    with bar.rich:
        yield bar
