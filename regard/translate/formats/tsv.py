r"""Columns between tabs: one is translated into another, or into a new last one.

    "7\tGood morning.\n"   ->   column 2: "Good morning."   ->   "7\tGood morning.\tGuten Morgen.\n"

Quotation marks mean nothing, as in regard/data/sources.py. All other columns, blank lines and line ends stay as they
are. Columns are counted from 1.
"""

import re

from regard.errors import InputError, UsageError
from regard.plural import counted
from regard.translate.formats.template import Template, edges, lines_of, raw_text
from regard.translate.passage import Passage

BOM = "\ufeff"
BREAKS = re.compile(r"[\t\n]")


def parse(text: str, column: int = 1, into: int | None = None) -> Template:
    """`into` may be the column itself, another one, or one beyond the last: a row that is too short gets empty ones."""
    for asked in (column, into):
        if asked is not None and asked < 1:
            raise UsageError(f"columns are counted from 1, so there is no column {asked}; name another")
    rest = text.removeprefix(BOM)
    pieces: list[str | int] = [text[: len(text) - len(rest)]]
    passages: list[Passage] = []
    for number, (content, end) in enumerate(lines_of(rest), 1):
        if not content.strip():
            pieces.append(content + end)
            continue
        cells = content.split("\t")
        if len(cells) < column:
            raise InputError(
                f"line {number}: has {counted(len(cells), 'column')} between tabs, but column {column} is asked for; "
                "mend the line, or name another column"
            )
        pieces += _row(cells, cells[column - 1], into, passages)
        pieces.append(end)
    return Template(pieces, passages, _cell)


def _row(cells: list[str], cell: str, into: int | None, passages: list[Passage]) -> list[str | int]:
    """The row with a place for the translation of the cell, which joins the passages."""
    before, core, after = edges(cell)
    if not core:  # a new last column is there in every row; a column that was there stays as it was
        return ["\t".join([*cells, ""] if into is None else cells)]
    place = len(cells) if into is None else into - 1
    left = cells[:place] + [""] * (place - len(cells))
    right = cells[place + 1 :]
    passages.append(Passage(core))
    return [
        "".join(f"{other}\t" for other in left) + before,
        len(passages) - 1,
        after + "".join(f"\t{other}" for other in right),
    ]


def _cell(passage: Passage) -> str:
    """A tab or a line feed in a translation would be a column or a row too many."""
    return BREAKS.sub(" ", raw_text(passage))
