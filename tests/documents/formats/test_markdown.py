"""Markdown: what is translated, and that the rest comes back as it was."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.documents.formats.markdown import parse
from regard.documents.markup import place_marks
from regard.documents.passage import Mark, Passage


def texts(raw: str) -> list[str]:
    return [passage.text for passage in parse(raw).passages]


def same(raw: str) -> str:
    document = parse(raw)
    return document.render(document.passages)


PAGE = """---
title: not this
---

# Title ##

Some *text* with **bold _and_ more**, `code *x*`, a [link](http://x.y/a_b_c "T"), and ![a cat](cat.png).

Heading two
-----------

- one
- [x] two
  - three

    still three

        code here

1. first
2) second

> A quote with <https://x.y> and a \\* star.

```python
x = "not this"
```

    nor this

| A | B \\| b |
|---|:-:|
| c d | `e` |
| 1 |

***

<div>
not this
</div>

[ref]: http://x.y "not this"
[^1]: A note.

See [the docs][ref], [ref] and this[^1].<br>And <kbd>Ctrl</kbd> &amp; www.x.y/a_b_c.
"""


def test_a_page() -> None:
    assert same(PAGE) == PAGE
    assert texts(PAGE) == [
        "Title",
        "Some text with bold and more, `code *x*`, a link, and a cat.",
        "Heading two",
        "one",
        "two",
        "three",
        "still three",
        "first",
        "second",
        "A quote with <https://x.y> and a \\* star.",
        "A",
        "B \\| b",
        "c d",
        "1",
        "A note.",
        "See the docs, [ref] and this. And <kbd>Ctrl</kbd> &amp; www.x.y/a_b_c.",
    ]


def marks(raw: str) -> list[tuple[int, str, str]]:
    (passage,) = parse(raw).passages
    return [(mark.at, mark.raw, mark.kind) for mark in passage.marks]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("a *b* c", [(2, "*", "open"), (3, "*", "close")]),
        ("a ***b*** c", [(2, "*", "open"), (2, "**", "open"), (3, "**", "close"), (3, "*", "close")]),
        ("a **b *c* d**", [(2, "**", "open"), (4, "*", "open"), (5, "*", "close"), (7, "**", "close")]),
        ("~~a~~ b ~c~", [(0, "~~", "open"), (1, "~~", "close")]),
        ("snake_case_word and 2 * 3 * 4", []),
        ("a [b *c](u) d*", [(2, "[", "open"), (6, "](u)", "close")]),
        ("[a [b](u)", [(3, "[", "open"), (4, "](u)", "close")]),
        ("[![i](s)](u) b", [(0, "[", "open"), (0, "![", "open"), (1, "](s)", "close"), (1, "](u)", "close")]),
        ("a <b>c</b> <br/>d", [(2, "<b>", "open"), (3, "</b>", "close"), (3, " <br/>", "single")]),
        ("a <b>c *d</b> e*", [(2, "<b>", "open"), (6, "</b>", "close")]),
        ("a<br>c <br> d<br>", [(1, "<br>", "single"), (3, " <br> ", "single"), (5, "<br>", "single")]),
        ("a <i>c", [(2, "<i>", "single")]),
        ("a<!-- x -->", [(1, "<!-- x -->", "single")]),
        ("[a](<u v> 'w') b", [(0, "[", "open"), (1, "](<u v> 'w')", "close")]),
        ("[a](u(v)) b", [(0, "[", "open"), (1, "](u(v))", "close")]),
        ("[a][b] c", []),
        ("one  \ntwo", [(3, "  \n", "single")]),
        ("> one\\\n> two", [(3, "\\\n> ", "single")]),
    ],
)
def test_marks(raw: str, expected: list[tuple[int, str, str]]) -> None:
    assert marks(raw) == expected
    assert same(raw) == raw


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("a `b` c", ["`b`"]),
        ("a ``b ` c`` d", ["``b ` c``"]),
        ("a `b c", []),
        ("a `b\\ c`", ["`b\\ c`"]),
        ("a \\*b\\* c", ["\\*", "\\*"]),
        ("<http://x.y> <me@x.y> a", ["<http://x.y>", "<me@x.y>"]),
        ("see https://x.y/a_b_c.", ["https://x.y/a_b_c"]),
        ("a <code>x y</code> &copy; b", ["<code>x y</code>", "&copy;"]),
        ("[r] and [r][] x\n\n[r]: u", ["[r]", "[r][]"]),
    ],
)
def test_fixed_stretches(raw: str, expected: list[str]) -> None:
    passage = parse(raw).passages[0]
    assert [passage.text[slice(*span)] for span in passage.fixed] == expected
    assert same(raw) == raw


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("one\ntwo\n\nthree", ["one two", "three"]),
        ("> one\n> two\nlazy", ["one two lazy"]),
        ("- one\n  two\n- three", ["one two", "three"]),
        ("text\n- item", ["text", "item"]),
        ("in the year\n2010. What", ["in the year 2010. What"]),
        ("text\n```\ncode\n```\nmore", ["text", "more"]),
        ("> ```\n> code\n\ntext", ["text"]),
        ("# One {#name}\ntext", ["One", "text"]),
        ("#hashtag", ["#hashtag"]),
        ("a\n===\nb", ["a", "b"]),
        ("<p>\nx\n\ny", ["y"]),
        ("<!-- a\n\nb --> c\nd", ["d"]),
        ("--- x", ["--- x"]),
        ("`only`", []),
        ("---\na: b\n", ["a: b"]),
        ("a | b\n--|--\nc | d\n\ne", ["a", "b", "c", "d", "e"]),
        ("a | b\ntext", ["a | b text"]),
        ("- > - x", ["x"]),
        ("[^1]: a\n[^2]: b", ["a", "b"]),
        ("-\n  a", ["a"]),
        ("---\nHello there.\n\n---\nBye.", ["Hello there.", "Bye."]),
        ("---\n# c\n\ntitle: x\n---\nBye.", ["Bye."]),
        ("+++\na = 1\n+++\nBye.", ["Bye."]),
        ("- ```\n  code\n\nText", ["Text"]),
        ("- a\n\n  ```\n  code\n\n  more\n- b", ["a", "b"]),
        ("- ```\n  code\n```\nText", ["Text"]),
        ("- a\n```\ncode\n```\nb", ["a", "b"]),
        ("> - ```\n>   code\n>\n> a", ["a"]),
        ("```\ncode\n\nmore", []),
        ("!!! note\n    a\n\n        code\n\n    b\n\n    ```\n    code\nc", ["a", "b", "c"]),
        ("$$x$$ is a\nb", ["$$x$$ is a b"]),
        ("$$ a\n\nb", ["$$ a", "b"]),
        ("a\n> [!NOTE]\n> b\n> [!NOTE] c", ["a", "b [!NOTE] c"]),
        ("[!NOTE]\na", ["[!NOTE] a"]),
    ],
)
def test_what_is_a_passage(raw: str, expected: list[str]) -> None:
    assert texts(raw) == expected


def test_lines_of_a_paragraph_become_one() -> None:
    assert same("> one\n> two\r\n\n- three\n  four  \n  five\n") == "> one two\r\n\n- three four  \n  five\n"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("> [!NOTE]\n> Be careful", ["Be careful"]),
        ("> [!tip]- A title\n> Be careful", ["A title", "Be careful"]),
        (":::note\nOne\n:::\nTwo", ["One", "Two"]),
        ("One\n::: tip A title\nTwo\n:::", ["One", "A title", "Two"]),
        (":::note[A title]\nOne\n:::", ["A title", "One"]),
        (":::note[ A title ]\nOne\n:::", ["A title", "One"]),
        ("::: {.note}\nOne\n:::", ["One"]),
        ("One\n$$\nx = y\n$$\nTwo", ["One", "Two"]),
        ("$$ x\n= y $$\nOne", ["One"]),
        ("> $$ x $$\n> One", ["One"]),
        ("Term\n: One\n: Two\n\n    Three", ["Term", "One", "Two", "Three"]),
        ("!!! note\n    One\n\n    Two\n\nThree", ["One", "Two", "Three"]),
        ('!!! note inline "A title"\n    One', ["A title", "One"]),
        ('??? note\n    One\n=== "Tab"\n    Two', ["One", "Tab", "Two"]),
        ("- One\n\n    !!! note\n        Two\n- Three", ["One", "Two", "Three"]),
    ],
)
def test_lines_that_stay_lines(raw: str, expected: list[str]) -> None:
    assert texts(raw) == expected
    assert same(raw) == raw


def test_there_and_back_with_marks_in_their_new_places() -> None:
    document = parse("- Click **here** to [log in](x).\n")
    links = [((0, 5), (0, 7)), ((6, 10), (12, 16)), ((11, 13), (18, 20)), ((14, 20), (26, 36))]
    placed = place_marks(document.passages[0], "Klicken Sie hier, um sich anzumelden.", links)
    assert document.render([placed]) == "- Klicken Sie **hier**, um sich [anzumelden](x).\n"


@pytest.mark.parametrize(
    ("raw", "new", "expected"),
    [
        ("a\n", "1. b", "1\\. b\n"),
        ("a\n", "- b\nc", "\\- b c\n"),
        ("# a\n", "b", "# b\n"),
        ("# 1. a\n", "1. b", "# 1. b\n"),
        ("|a|\n|-|\n", "b|c", "|b\\|c|\n|-|\n"),
    ],
)
def test_translations_cannot_become_blocks(raw: str, new: str, expected: str) -> None:
    assert parse(raw).render([Passage(new)]) == expected


@pytest.mark.parametrize("raw", ["a<br><br>", "[r]<br> <br>b", "*r* <br><br/> <br>b", "one  \n<br>two"])
def test_a_break_after_a_break_gets_no_space_between(raw: str) -> None:
    document = parse(raw)
    assert document.render(document.passages) == raw


def test_a_break_goes_with_its_words() -> None:
    document = parse("> one  \n> two")
    assert document.passages[0].text == "one two"
    assert document.render([Passage("zwei eins", (Mark(5, "  \n> "),))]) == "> zwei  \n> eins"


# --- anything at all

PARTS = (
    "*|**|_|__|~~|`|``|[|](u)|![|]|[r]|](u 't')|<b>|</b>|<br>|\\*|\\|  \n|\\\n|\n|\n\n|\n\n|> |- |1. |2) |# |### |"
    "---\n|```\n|~~~\n|    |\t| |word|two words|a|.|é|日本|&amp;|<http://x>|http://x.y |:|\n[r]: u\n|[^1]|[^1]: |"
    "<div>\n|<!-- c -->|\r\n|=|+ |[ ] |: |:::|:::a|[!A]|$$|!!! a|\n    "
)
TABLE = st.sampled_from(["|", "|-|-|\n", "|a|b|\n", "\n| c | d |\n"])
FRAGMENTS = st.sampled_from(PARTS.split("|")) | TABLE


def bare(raw: str) -> str:
    """Up to joined lines: without white space and what is at the start of a line for the lines before it."""
    return re.sub(r"[\s>]+", "", raw)


@settings(deadline=None, max_examples=500)
@given(st.lists(FRAGMENTS, max_size=25).map("".join) | st.text())
def test_all_of_it_comes_back(raw: str) -> None:
    document = parse(raw)
    back = document.render(document.passages)
    assert bare(back) == bare(raw)
    for passage in document.passages:
        assert passage.text == passage.text.strip(" \t\n") or passage.fixed or passage.marks
        assert [mark.at for mark in passage.marks] == sorted(mark.at for mark in passage.marks)
        depth = 0
        for mark in passage.marks:
            depth += {"open": 1, "close": -1, "single": 0}[mark.kind]
            assert depth >= 0
        assert depth == 0
        assert all(0 <= start < end <= len(passage.text) for start, end in passage.fixed)


LINES = st.lists(st.sampled_from([part for part in PARTS.split("|") if "\n" not in part]) | st.just("|"), max_size=12)


@settings(deadline=None, max_examples=300)
@given(st.lists(LINES.map("".join), max_size=4).map("\n\n".join))
def test_what_has_no_lines_to_join_comes_back_byte_by_byte(raw: str) -> None:
    assert same(raw) == raw


SIZE = 100_000
HOSTILE = [
    "*",
    "[",
    "`",
    "_",
    ">",
    "a*",
    "*a ",
    "*a_b",
    "[a](",
    "](",
    "](a '",
    '](a "',
    "![",
    "<",
    "<b>",
    "<b ",
    '<b x="',
    "- ",
    "1. ",
    "# ",
    "|",
    "-|",
    "a|\n",
    "|-|\n",
    "` `` ",
    "``a`",
    "\\",
    "~",
    "~~a",
    " ",
    "\t",
    "\n",
    "> \n",
    ">- ",
    "&",
    "www.",
    "http://",
    "<a:",
    "<!--",
    "[a]: ",
    "[^",
    "```\n",
    "a\n",
    "a  \n",
    "a\\\n",
    "---\n",
    "<div>\n\n",
    "**a* ",
    "_a **b",
    "<code>",
    "(",
    "{",
    ": ",
    ": a\n",
    ":::\n",
    ":::{",
    "$$\n",
    "$$a\n",
    "!!! a\n",
    "!!! a\n    ",
    "> [!A]\n",
    "- ```\n",
    "- ```\n  a\n",
]


@pytest.mark.parametrize("fragment", HOSTILE)
def test_time_is_linear(fragment: str) -> None:
    start = time.thread_time()
    same(fragment * (SIZE // len(fragment)))
    same("x" + fragment * (SIZE // len(fragment)) + "x'\"")
    assert time.thread_time() - start < 8
