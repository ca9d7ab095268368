"""HTML: what is translated, and that the rest comes back as it was."""

import html
import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.documents.formats.html import parse
from regard.documents.markup import place_marks
from regard.documents.passage import Mark, Passage

MARKUP = re.compile(r"<!--.*?-->|</?[a-z][^<>]*>", re.DOTALL)


def texts(raw: str) -> list[str]:
    return [passage.text for passage in parse(raw).passages]


def same(raw: str) -> str:
    document = parse(raw)
    return document.render(document.passages)


def loud(raw: str) -> str:
    """In capitals, with marks where they were."""
    document = parse(raw)
    return document.render([Passage(p.text.upper(), p.marks) for p in document.passages])


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Log in</title>
<meta name="description" content="A page.">
<style>p > b { color: red }</style><script>if (a < b && c) { document.write("<p>no</p>") }</script></head>
<body>
  <!-- not this -->
  <h1>Welcome</h1>
  <p>Click <b>here</b> to <a href="x?a=1&amp;b=2" title="Log in">log in</a>.</p>
  <ul><li>One<li>Two <img src="a>b.png" alt="A cat"> three</ul>
  <pre>  do  not
  touch </pre>
  <table><tr><td>1&nbsp;kg</td><td> — </td></tr></table>
  <p class="notranslate">Regard</p>
  <textarea>nor <b>this</textarea><svg><text>nor this</text></svg>
</body></html>
"""


def test_a_page() -> None:
    assert texts(PAGE) == [
        "Log in", "A page.", "Welcome", "Log in", "Click here to log in.", "One", "A cat", "Two three", "1\xa0kg",
    ]  # fmt: skip
    assert same(PAGE) == PAGE


def test_marks_are_where_the_tags_were() -> None:
    (passage,) = parse("<p>Click <b>here</b><br/>now.</p>").passages
    assert passage == Passage("Click here now.", (Mark(6, "<b>", "open"), Mark(10, "</b>", "close"), Mark(10, "<br/>")))


def test_there_and_back_with_marks_in_their_new_places() -> None:
    document = parse("<p>Click <b>here</b> to <a href='x'>log in</a>.</p>")
    (source,) = document.passages
    links = [((0, 5), (0, 7)), ((6, 10), (12, 16)), ((11, 13), (18, 20)), ((14, 20), (26, 36))]
    placed = place_marks(source, "Klicken Sie hier, um sich anzumelden.", links)
    assert document.render([placed]) == "<p>Klicken Sie <b>hier</b>, um sich <a href='x'>anzumelden</a>.</p>"


BYTE_EQUAL = [
    "",
    " ",
    "plain",
    " \n two words \n ",
    "<p>a</p>",
    "a <b>c</b> d",
    "<p>a<p>b",
    "a<br>b",
    "a <br> b",
    "a<br>\n<br/>b<br>",
    "a <b><br>c</b>",
    "a <b>c<br></b>",
    "a<br><b>c</b>",
    "a <b> <br> </b> c",
    "<b>a</i>b",
    "<b><i>a</b></i> c",
    "<p> <a> <b> x </b> </a> </p>",
    "<b> a</b> c",
    "a <b>c </b>",
    "a<!-- x -->c",
    "a <?php echo 1 > 0 ?> b",
    "&nbsp;a&nbsp;b",
    "<![CDATA[ x < y ]]>",
    "<p>a <code>x &lt;  y</code> b</p>",
    "<p title=\"a 'b' c\">x</p>",
    "<p title='a \"b\" c'>x</p>",
    "<p title=plain>x</p>",
    "<A HREF=x>Y</A> z",
    "&lt;b&gt; &amp; x",
    "<p data-x='a>b'>c</p>",
    "a &custom; b",
    "<a/>b<a/>",
    "<p>a <span translate='no'>X <b>y</b></span> z",
    "<div translate=no><p>a</p></div>b",
    "<code>only</code>",
    "x <code></code> y",
    "<p>a <svg><path d='M0'/><title>t</title></svg> b</p>",
    "<!-- never closed <p>a</p>",
    "a <script>b</SCRIPT > c",
    "<script>never",
    "<img alt='a'><img alt='b'> c",
    "<my-thing>a</my-thing>",
    "<p>a&#160;b</p>",
    "<p>Hello <%= name %>!</p>",
    "{% if a > b %}One{% else %}Two{% endif %}",
    "a {% if b && c > d %} e",
    "a ${b && c} d {{ e < f }} g {{{h}}}",
    "a {{ b\n  && '<i>' }} c",
    "<a href=\"<%= url('x', \"y\") %>\" title='To <%= t('x') && \"y\" %> z'>a</a>",
    "<option {% if a > b %}selected{% endif %}>One",
    "<div <%= a > b %>>a</div>",
    "<a <%= link title='Home' %>>a</a>",
    "<code>a {{ b && c }}</code> d",
    "a &lt;%= b %&gt; <%= c %> d",
    "<code>&lt;%= b %&gt;</code> a",
    "a {{ b</p><p>c }} d",
    "<script>{{</script><p>a</p>}}",
    "a {% b",
    "a {{ b {% c ${ d",
    "<?xml:namespace prefix = o ns = 'urn:x' /><p>a</p>",
    "a<?php b->c(); ",
    "<? a",
    "a <svg><path/></svg> b <math><mi>x</mi></math>",
    "<pre>a\n  b <p>c\n",
]


@pytest.mark.parametrize("raw", BYTE_EQUAL)
def test_simple_input_comes_back_byte_by_byte(raw: str) -> None:
    assert same(raw.replace("&#160;", "\xa0")) == raw.replace("&#160;", "\xa0")
    assert same(raw) == raw


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("a < b", "a &lt; b"),
        ("AT&T", "AT&amp;T"),
        ("a <b and c", "a &lt;b and c"),
        ("a\n  b", "a b"),
        ("a <b>\n c</b>", "a <b>\n c</b>"),
        ("&copy; me", "© me"),
        ("<", "<"),
        ("x &#" + "9" * 5000 + ";", "x &amp;#" + "9" * 5000 + ";"),
        ('x <a title="never closed>y</a>', 'x <a title="never closed>y</a>'),
    ],
)
def test_what_is_spelled_otherwise(raw: str, expected: str) -> None:
    assert same(raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("<p>one <b>two</b></p> <p>three</p>", ["one two", "three"]),
        ("one<div>two</div>three", ["one", "two", "three"]),
        ("<td>1</td><td>-</td><td> </td>", ["1"]),
        ("use <kbd>Ctrl</kbd> now", ["use Ctrl now"]),
        ("<pre>a</pre><script>b</script><style>c</style>", []),
        ("<input placeholder='Your name' value='x'>", ["Your name"]),
        ("<a title=' Two\n words '>x</a>", ["Two words", "x"]),
        ("<b>a</b> <p>x</p> <b>b</b>", ["a", "x", "b"]),
        ("<br><img src=x> Save <br>", ["Save"]),
        ("<a><i class=icon></i> Save</a>", ["Save"]),
        ("<option>a<option>b", ["a", "b"]),
        ("caf&eacute; &lt;3", ["café <3"]),
        ("Click <svg><path/></svg> to save", ["Click to save"]),
        ("so <math><mi>x</mi><p>y</p></math> it is", ["so it is"]),
        ("one <pre>a\n  b<p>two", ["one"]),
        ("<?xml:namespace prefix = o /><p>one</p>", ["one"]),
        ("<p>one</p><?php if ($a->b) { ?><p>two</p><?php echo $a->b; three", ["one", "two"]),
        ("{% if a %}<b>one</b> two{% endif %}", ["one two"]),
        ("<%= a %> is {{ b }}", ["<%= a %> is {{ b }}"]),
        ("<td>{{ a }}</td><td>${b}</td><%= c %>", []),
        ("<img alt='{{ a }}'><img alt='{{ b }} c'>", ["{{ b }} c"]),
        ("one {{ two</p>three }}", ["one {{ two", "three }}"]),
    ],
)
def test_what_is_a_passage(raw: str, expected: list[str]) -> None:
    assert texts(raw) == expected


def test_code_within_a_sentence_is_fixed() -> None:
    (passage,) = parse("<p>Run <code>make  &lt;x&gt;</code> or <span translate=no>Wi<b>Fi</b></span>.</p>").passages
    assert passage.text == "Run make  <x> or WiFi."
    assert [passage.text[slice(*span)] for span in passage.fixed] == ["make  <x>", "WiFi"]
    assert [mark.raw for mark in passage.marks] == [
        "<code>",
        "</code>",
        "<span translate=no>",
        "<b>",
        "</b>",
        "</span>",
    ]


def test_templates_are_fixed_and_come_out_as_they_were() -> None:
    document = parse(
        """<p title="To {{ a && 'b' }} &amp; &quot;c&quot;">Hello <%= a && b %>, &lt;%= c %&gt; & {{ d > e }}!</p>"""
    )
    title, text = document.passages
    assert [title.text[slice(*span)] for span in title.fixed] == ["{{ a && 'b' }}"]
    assert [text.text[slice(*span)] for span in text.fixed] == ["<%= a && b %>", "{{ d > e }}"]
    said = [Passage("""<{{ a && 'b' }}" """), Passage("{{ d > e }}, <%= c %> & <%= a && b %> {{ a && 'b' }}")]
    assert document.render(said) == (
        """<p title="&lt;{{ a && 'b' }}&quot; ">"""
        """{{ d > e }}, &lt;%= c %&gt; &amp; <%= a && b %> {{ a &amp;&amp; 'b' }}</p>"""
    )


def test_what_is_never_closed_or_never_opened_stands_for_itself() -> None:
    (passage,) = parse("<p>a <b>c </i>d</p>").passages
    assert [(mark.raw, mark.kind) for mark in passage.marks] == [("<b>", "single"), ("</i>", "single")]


def test_attributes_are_filled_and_escaped() -> None:
    document = parse("""<p><a title="x" href=y>a</a> <img alt='x'> <img alt='x'> b</p>""")
    new = {"x": """1 < 2 & "3" '4'"""}
    filled = document.render([Passage(new.get(p.text, p.text), p.marks) for p in document.passages])
    assert filled.count("""alt='1 &lt; 2 &amp; "3" &#x27;4&#x27;'""") == 2
    assert """<a title="1 &lt; 2 &amp; &quot;3&quot; '4'" href=y>""" in filled


def test_translations_cannot_become_markup() -> None:
    document = parse("<p>x</p>")
    assert document.render([Passage("<b> &amp; \xa0")]) == "<p>&lt;b&gt; &amp;amp; \xa0</p>"


def test_the_rest_is_untouched_when_texts_change() -> None:
    changed = loud(PAGE)
    assert "CLICK <b>HERE</b> TO <a href=\"x?a=1&amp;b=2\" title=\"LOG IN\">LOG IN</a>." in changed  # fmt: skip
    assert "1&nbsp;KG" in changed
    for kept in ("  do  not\n  touch ", "<!-- not this -->", '"<p>no</p>"', "nor <b>this", "nor this", "Regard"):
        assert kept in changed


# --- anything at all

PARTS = (
    """<b>|</b>|<i class="x">|</i>|<p>|</p>|<div>|</div>|<br>|<img alt="a b">|<!-- c -->|<code>|</code>|<pre>|</pre>|"""
    """<a title='t'>|</a>|<span translate="no">|</span>| |\n|  |word|two words|&amp;|&nbsp;|&lt;|&x;|.|é|日本|1|"""
    """<svg>|</svg>|<li>|<script>|</script>|<br/>|{{ a < b }}|<%= a & b %>|{% c %}|${d > e}"""
)
FRAGMENTS = st.sampled_from(PARTS.split("|"))
HOSTILE_FRAGMENTS = st.sampled_from(
    [
        "<",
        ">",
        "&",
        '"',
        "'",
        "=",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "<?",
        "</",
        "/>",
        "<!",
        "&#",
        ";",
        "x",
        "<b ",
        "<a x=",
        "<%",
        "%>",
        "{{",
        "}}",
        "{%",
        "%}",
        "${",
    ]
)


def seen(raw: str) -> str:
    """What a browser shows, more or less: without white space, as that may go with a mark."""
    return re.sub(r"[ \t\n\r\f]+", "", html.unescape(MARKUP.sub("", raw)))


@settings(deadline=None, max_examples=400)
@given(st.lists(FRAGMENTS, max_size=25).map("".join))
@example("<code> x</code>  y <b> </b> z")
def test_tags_and_texts_are_kept(raw: str) -> None:
    document = parse(raw)
    back = document.render(document.passages)
    assert MARKUP.findall(back) == MARKUP.findall(raw)
    assert seen(back) == seen(raw)
    assert same(back) == back
    for passage in document.passages:
        assert passage.text.strip(" \t\n\r\f") or passage.fixed
        assert any(map(str.isalnum, passage.text))
        assert [mark.at for mark in passage.marks] == sorted(mark.at for mark in passage.marks)
        depth = 0
        for mark in passage.marks:
            depth += {"open": 1, "close": -1, "single": 0}[mark.kind]
            assert depth >= 0
        assert depth == 0


@settings(deadline=None, max_examples=400)
@given(st.lists(FRAGMENTS | HOSTILE_FRAGMENTS, max_size=20).map("".join) | st.text())
def test_nothing_is_too_broken(raw: str) -> None:
    back = same(raw)
    assert same(back) == back


SIZE = 100_000
HOSTILE = [
    "<",
    "<b>",
    "&",
    "<!--",
    "<!-- -->",
    "<b x",
    '<b x="',
    "<b x='\"",
    "<?",
    "<?x>",
    "<![CDATA[",
    "</b>",
    "<div>",
    "<code>",
    "<code>x ",
    "<b>x ",
    "</script ",
    "<script>",
    "<script></script ",
    "<b><i></b>",
    "<p translate=no>",
    "<a title='x'>x",
    "x &foo; ",
    " <b> ",
    "<a b c d ",
    "= ",
    '="',
    "&#",
    "x<b>x</i>",
    "<svg>",
    "<b/>x",
    "\xa0<",
    "<%",
    "<% ",
    "<%= %>",
    "{{",
    "{{ ",
    "{{}",
    "{% ",
    "${",
    "${{%",
    "<b <% ",
    "<b {{ ",
    '<b x="<% ',
    '<b x="{{"}}',
    "<? ",
    "<?php ",
    "<pre>",
]


@pytest.mark.parametrize("fragment", HOSTILE)
def test_time_is_linear(fragment: str) -> None:
    start = time.thread_time()
    same(fragment * (SIZE // len(fragment)))
    same("x" + fragment * (SIZE // len(fragment)) + "'x\"")
    assert time.thread_time() - start < 8
