"""What a person or a program gets to see. The only file that prints: results on stdout, everything else on stderr."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def say(text: str = "") -> None:
    """A result, flushed: whoever is at the other end of a pipe sees it now."""
    print(text, flush=True)


def as_json(value: Any, *, indent: int | None = 2) -> None:
    say(json.dumps(value, indent=indent, ensure_ascii=False))


def error(text: str) -> None:
    print(f"regard: {text}", file=sys.stderr, flush=True)


def table(rows: Iterable[Sequence[str]], *, title: str = "", header: Sequence[str] = (), right: str = "") -> None:
    """Columns, lined up; `right` has an 'r' at the place of each column that is lined up on its right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, show_header=bool(header), pad_edge=False, padding=(0, 2, 0, 0), title_justify="left")
    listed = [list(row) for row in rows]
    for i in range(max(map(len, listed), default=0)):
        name = header[i] if i < len(header) else ""
        grid.add_column(name, justify="right" if right[i : i + 1] == "r" else "left", header_style="dim")
    for row in listed:
        grid.add_row(*(Text(cell) for cell in row))  # Text: brackets in pieces are no markup
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    if title:
        console.print(Text(title, style="bold"))
    console.print(grid)


def heading(text: str) -> None:
    from rich.console import Console
    from rich.text import Text

    Console(highlight=False).print(Text(text, style="bold"))
