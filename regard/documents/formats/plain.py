r"""Plain text: each line that is not blank is a passage.

    "  One.\n\nTwo."   ->   "One.", "Two."   ->   "  Eins.\n\nZwei."

White space around a line, blank lines and line ends stay unchanged.
"""

from regard.documents.formats.skeleton import Template, edges, lines_of, raw_text
from regard.documents.passage import Passage


def parse(text: str) -> Template:
    pieces: list[str | int] = []
    passages: list[Passage] = []
    for content, end in lines_of(text):
        before, core, after = edges(content)
        if core:
            pieces += [before, len(passages), after + end]
            passages.append(Passage(core))
        else:
            pieces.append(content + end)
    return Template(pieces, passages, _one_line)


def _one_line(passage: Passage) -> str:
    """A line stays one line, so that line numbers stay the same."""
    return raw_text(passage).replace("\n", " ")
