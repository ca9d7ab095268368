r"""Tab-separated values: one column is translated into another, or into a new last one.

    "7\tGood morning.\n"   ->   column 2: "Good morning."   ->   "7\tGood morning.\tGuten Morgen.\n"

Quotation marks have no meaning, as in regard/data/sources.py. All other columns, blank lines and line ends stay
unchanged. Columns are counted from 1.
"""

import re

from regard.documents.formats.skeleton import Template, edges, lines_of, raw_text
from regard.documents.passage import Passage
from regard.errors import InputError, UsageError
from regard.plural import counted

BOM = "\ufeff"
BREAKS = re.compile(r"[\t\n]")


def parse(text: str, column: int = 1, into: int | None = None) -> Template:
    """`into` may be the column itself, another, or one beyond the last: short rows are filled up with empty columns."""
    for number in (column, into):
        if number is not None and number < 1:
            raise UsageError(f"columns are counted from 1; there is no column {number}")
    rest = text.removeprefix(BOM)
    pieces: list[str | int] = [text[: len(text) - len(rest)]]
    passages: list[Passage] = []
    for line, (content, end) in enumerate(lines_of(rest), 1):
        if not content.strip():
            pieces.append(content + end)
            continue
        cells = content.split("\t")
        if len(cells) < column:
            raise InputError(
                f"line {line}: has {counted(len(cells), 'column')}, but column {column} is to be translated; "
                "correct the line, or choose another column"
            )
        pieces += _row(cells, cells[column - 1], into, passages)
        pieces.append(end)
    return Template(pieces, passages, _cell)


def _row(cells: list[str], cell: str, into: int | None, passages: list[Passage]) -> list[str | int]:
    """The pieces of a row, with the cell as a new passage."""
    before, core, after = edges(cell)
    if not core:  # every row gets a new last column; an existing column stays unchanged
        return ["\t".join([*cells, ""] if into is None else cells)]
    index = len(cells) if into is None else into - 1
    left = cells[:index] + [""] * (index - len(cells))
    right = cells[index + 1 :]
    passages.append(Passage(core))
    return [
        "".join(f"{other}\t" for other in left) + before,
        len(passages) - 1,
        after + "".join(f"\t{other}" for other in right),
    ]


def _cell(passage: Passage) -> str:
    """A tab or a line feed in a translation would add a column or a row."""
    return BREAKS.sub(" ", raw_text(passage))
