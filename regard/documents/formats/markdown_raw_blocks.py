"""Raw blocks of Markdown, which are not translated: front matter, code, HTML and formulas. Finds where they end.

    "- ```", "  code", "  ```", "- item"   ->   lines 0 to 2; 3 is the first line after the block

Lines are given without trailing white space. An unclosed block extends to the end of the file; code in a list item or a
quote, to the end of that. A formula that is not closed before a blank line is not a formula.
"""

import re
from collections.abc import Sequence

QUOTE = re.compile(r"(?:[ \t]{0,3}+>)*+")
INDENT = re.compile(r"[ \t]*+")
FENCE = re.compile(r"[ \t]*+(`{3,}+(?!.*`)|~{3,}+)")
BLOCKS = (
    "address article aside base basefont blockquote body caption center col colgroup dd details dialog dir div dl dt "
    "fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hr html iframe legend li link "
    "main menu menuitem nav noframes ol optgroup option p param search section summary table tbody td tfoot th thead "
    "title tr track ul"
)
RAW = "script|pre|style|textarea"
HTML = [  # how a block of HTML begins, and what its last line has
    (re.compile(rf"[ \t]*+<(?:{RAW})(?=[\s>]|$)", re.I), re.compile(rf"</(?:{RAW})>", re.I)),
    (re.compile(r"[ \t]*+<!--"), re.compile("-->")),
    (re.compile(r"[ \t]*+<\?"), re.compile(r"\?>")),
    (re.compile(r"[ \t]*+<!\[CDATA\["), re.compile(r"\]\]>")),
    (re.compile(r"[ \t]*+<![A-Za-z]"), re.compile(">")),
    (re.compile(rf"[ \t]*+</?(?:{'|'.join(BLOCKS.split())})(?=[\s/>]|$)", re.I), re.compile(r"^[ \t>]*$")),
]  # fmt: skip
TAG_ALONE = re.compile(r"""[ \t]*+</?[A-Za-z][\w-]*+(?:[^<>"']|"[^"]*+"|'[^']*+')*+>[ \t]*+$""")
BLANK = HTML[-1][1]
FRONT = {"---": re.compile(r"""[\w.$"'-]++[ \t]*+:(?:[ \t]|$)"""), "+++": re.compile(r"""[\w."'-]++[ \t]*+=|\[""")}
"""The delimiter of front matter -> how its first line begins. Otherwise the delimiter is a horizontal rule."""


def block_end(lines: Sequence[str], at: int, prefix: int, items: Sequence[int], in_paragraph: bool) -> int:
    """The first line after the block that begins with line `at`; 0 if none begins there.

    `prefix` is the length of the > and list markers before its text, `items` the columns of the list items around it.
    """
    text = lines[at][prefix:]
    if fence := FENCE.match(text):
        column = column_of(lines[at], prefix + fence.start(1))
        return _fence_end(lines, at, fence[1], max((start for start in items if start <= column), default=0))
    return _html_end(lines, at, text, in_paragraph) or _formula_end(lines, at, text.lstrip())


def front_matter_end(lines: Sequence[str]) -> int:
    border = lines[0] if lines else ""
    first = next((line for line in lines[1:] if line and not line.lstrip().startswith("#")), "")
    if border in FRONT and FRONT[border].match(first):
        return next((at + 1 for at in range(1, len(lines)) if lines[at] in (border, "...")), 0)
    return 0


def _fence_end(lines: Sequence[str], at: int, fence: str, item: int) -> int:
    closing = re.compile(rf"[ \t>]*+{re.escape(fence[0])}{{{len(fence)},}}+$")
    depth = matched(QUOTE, lines[at]).count(">")
    for end in range(at + 1, len(lines)):
        if closing.match(lines[end]):
            return end + 1
        quote = matched(QUOTE, lines[end])
        column = column_of(lines[end], len(quote) + len(matched(INDENT, lines[end][len(quote) :])))
        if quote.count(">") < depth or (column < item and not BLANK.match(lines[end])):
            return end
    return len(lines)


def _html_end(lines: Sequence[str], at: int, text: str, in_paragraph: bool) -> int:
    ending = next((ending for beginning, ending in HTML if beginning.match(text)), None)
    if not ending and not in_paragraph and TAG_ALONE.match(text):
        ending = BLANK
    if not ending:
        return 0
    for end in range(at, len(lines)):
        if ending.search(lines[end]):
            return end if ending is BLANK else end + 1
    return len(lines)


def _formula_end(lines: Sequence[str], at: int, text: str) -> int:
    """From $$ to the next $$, if nothing follows that on its line."""
    if not text.startswith("$$"):
        return 0
    if "$$" in text[2:]:
        return at + 1 if text.find("$$", 2) == len(text) - 2 else 0
    for end in range(at + 1, len(lines)):
        if "$$" in lines[end] or BLANK.match(lines[end]):
            return end + 1 if lines[end].endswith("$$") else 0
    return 0


def matched(pattern: re.Pattern[str], text: str) -> str:
    """The match at the start of the text; may be empty."""
    found = pattern.match(text)
    return found[0] if found else ""


def column_of(line: str, at: int) -> int:
    return len(line[:at].expandtabs(4))
