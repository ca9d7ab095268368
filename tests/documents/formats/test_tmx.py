"""Translation memories: units get the language that they lack, and not a byte changes elsewhere."""

import time
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.documents.formats.skeleton import Template
from regard.documents.formats.tmx import parse
from regard.documents.passage import Mark, Passage
from regard.errors import InputError

BODY = """<tmx version="1.4">
  <header srclang="en-US" adminlang="en" o-tmf="x" datatype="plaintext" segtype="sentence" creationtool="t"/>
  <body>
    <!-- <tu><tuv xml:lang="en"><seg>not this</seg></tuv></tu> -->
    <tu tuid='1>0'>
      <note>a note</note>
      <tuv xml:lang="en-US" changeid='a > b'>
        <prop type="x">Naïve</prop>
        <seg>Fish &amp; chips &lt; 5&#x20AC;</seg>
      </tuv>
      <tuv xml:lang="FR"><seg>Poisson</seg></tuv>
    </tu>
    <tu><tuv xml:lang="EN"><seg>Done</seg></tuv><tuv xml:lang="de-AT"><seg>Fertig</seg></tuv></tu>
    <tu><tuv xml:lang="fr"><seg>Seul</seg></tuv></tu>
    <tu><tuv xml:lang="en"><seg> </seg></tuv></tu><tu><tuv xml:lang="en"><seg/></tuv></tu>
    <tu><tuv xml:lang="en"/></tu><tu/>
    <tu>\r
\t<tuv xml:lang="en_GB"><seg>\u20acuro <![CDATA[<b> & ]]>more </seg></tuv>\r
    </tu>
  </body>
</tmx>
"""
FILE = f'<?xml version="1.0" encoding="UTF-16"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n{BODY}'


def one(segment: str) -> str:
    return f'<tmx><body><tu><tuv xml:lang="en"><seg>{segment}</seg></tuv></tu></body></tmx>'


def upper(document: Template) -> str:
    return document.render([Passage(passage.text.upper(), passage.marks) for passage in document.passages])


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_units_get_what_they_lack(mark: str) -> None:
    document = parse(mark + FILE, "en", "de")
    assert document.passages == [Passage("Fish & chips < 5€"), Passage("€uro <b> & more")]
    first = """        <seg>Fish &amp; chips &lt; 5&#x20AC;</seg>
      </tuv>
"""
    second = "<seg>€uro <![CDATA[<b> & ]]>more </seg></tuv>"
    expected = FILE.replace(
        first,
        first
        + """      <tuv xml:lang="de">
        <seg>FISH &amp; CHIPS &lt; 5€</seg>
      </tuv>
""",
    ).replace(second, second + '\r\n\t<tuv xml:lang="de"><seg>€URO &lt;B&gt; &amp; MORE </seg></tuv>')
    assert upper(document) == mark + expected


def test_once_translated_nothing_is_left() -> None:
    document = parse(FILE, "EN", "de-DE")
    rendered = document.render(document.passages)
    assert parse(rendered, "en", "de").passages == []
    assert parse(rendered, "en", "DE-de").render([]) == rendered
    found = ElementTree.fromstring(rendered.split("?>\n", 1)[1]).iter("seg")
    assert sum(segment.text == "Fish & chips < 5€" for segment in found) == 2


@pytest.mark.parametrize(
    ("source", "count"), [("en", 2), ("EN", 2), ("en-us", 1), ("en-GB", 1), ("e", 0), ("fr", 2), ("es", 0)]
)
def test_languages_are_matched_by_their_beginning(source: str, count: int) -> None:
    assert len(parse(FILE, source, "de").passages) == count


def test_a_language_of_old() -> None:
    text = '<tmx><tu><tuv lang="en"><seg>a</seg></tuv></tu></tmx>'
    assert upper(parse(text, "en", 'd"e')) == text.replace("</tu>", "<tuv lang='d\"e'><seg>A</seg></tuv></tu>")


@pytest.mark.parametrize(
    ("segment", "text", "marks"),
    [
        (
            'A <bpt i="1">&lt;b></bpt>B<ept i="1">&lt;/b></ept>.',
            "A B.",
            (Mark(2, '<bpt i="1">&lt;b></bpt>', "open"), Mark(3, '<ept i="1">&lt;/b></ept>', "close")),
        ),
        (
            "A <bpt x='>' i = '1'/>B<bpt i='2'/>C<ept i='2'/><ept i=\"1\"/>",
            "A BC",
            (
                Mark(2, "<bpt x='>' i = '1'/>", "open"),
                Mark(3, "<bpt i='2'/>", "open"),
                Mark(4, "<ept i='2'/>", "close"),
                Mark(4, '<ept i="1"/>', "close"),
            ),
        ),
        (
            "<bpt i='1'/>A<bpt i='2'/>B<ept i='1'/>C<ept i='2'/>",
            "ABC",
            (
                Mark(0, "<bpt i='1'/>", "open"),
                Mark(1, "<bpt i='2'/>"),
                Mark(2, "<ept i='1'/>", "close"),
                Mark(3, "<ept i='2'/>"),
            ),
        ),
        (  # tags stay pairs, whatever crosses them
            "<bpt i='1'/>A<hi>B<ept i='1'/>C<bpt i='2'/></hi>D<ept i='2'/>",
            "ABCD",
            (
                Mark(0, "<bpt i='1'/>"),
                Mark(1, "<hi>", "open"),
                Mark(2, "<ept i='1'/>"),
                Mark(3, "<bpt i='2'/>"),
                Mark(3, "</hi>", "close"),
                Mark(4, "<ept i='2'/>"),
            ),
        ),
        ("A<ph/>B<it pos='begin'>x</it>", "AB", (Mark(1, "<ph/>"), Mark(2, "<it pos='begin'>x</it>"))),
        ("<ph>a<sub>b<ph>c</ph></sub></ph>D", "D", (Mark(0, "<ph>a<sub>b<ph>c</ph></sub></ph>"),)),
        (
            '<hi type="a>b">A <hi>B</hi></hi>',
            "A B",
            (
                Mark(0, '<hi type="a>b">', "open"),
                Mark(2, "<hi>", "open"),
                Mark(3, "</hi>", "close"),
                Mark(3, "</hi>", "close"),
            ),
        ),
        (
            "A<ut>{\\b </ut>B<!-- <c> --><?p <q>?>",
            "AB",
            (Mark(1, "<ut>{\\b </ut>"), Mark(2, "<!-- <c> -->"), Mark(2, "<?p <q>?>")),
        ),
        ("<ph><!-- </ph> --><![CDATA[</ph>]]></ph>A", "A", (Mark(0, "<ph><!-- </ph> --><![CDATA[</ph>]]></ph>"),)),
        ("&quot;&#65;&#x42;&apos;", "\"AB'", ()),
    ],
)
def test_inline_elements_are_marks(segment: str, text: str, marks: tuple[Mark, ...]) -> None:
    document = parse(one(segment), "en", "de")
    assert document.passages == [Passage(text, marks)]
    rendered = document.render(document.passages)
    assert rendered.startswith(one(segment)[: one(segment).index("</tu>")])
    assert ElementTree.fromstring(rendered).findall(".//tuv")[1].find("seg") is not None
    assert parse(rendered.replace('"en"', '"fr"'), "de", "es").passages == document.passages


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("hello", 1),
        ("<tmx>\n<tu>\n</tmx>", 3),
        ("<tmx>\n&none;</tmx>", 2),
        ("<tmx>\n\x00</tmx>", 2),
        ("<tmx>\ud800</tmx>", 1),
        ("<tmx>\n" + "<a>" * 50_000, 2),
        ("\n<html></html>", 2),
        ('<!DOCTYPE tmx [\n<!ENTITY a "b">\n]>\n<tmx/>', 2),
        ('<!DOCTYPE tmx [\n<!ENTITY % a "b">\n]>\n<tmx/>', 2),
        ('<!DOCTYPE tmx [\n<!ENTITY a SYSTEM "a.xml">\n]>\n<tmx/>', 2),
    ],
)
def test_a_broken_file_names_the_line(text: str, line: int) -> None:
    with pytest.raises(InputError, match=rf"^line {line}: [^\n]+$"):
        parse(text, "en", "de")


@pytest.mark.parametrize("number", ["0" * 5000 + "65", "x" + "0" * 5000 + "41", "0" * 3 + "65", "x41"])
def test_a_number_may_have_many_digits(number: str) -> None:
    assert parse(one(f"A &#{number};"), "en", "de").passages == [Passage("A A")]


@pytest.mark.parametrize("number", ["0", "x0", "1", "-1", "x110000", "xD800", "xFFFF", "9" * 5000, "x", "", "0" * 5000])
def test_a_number_of_no_character(number: str) -> None:
    with pytest.raises(InputError, match=r"^line 1: is not well-formed XML [^\n]+$"):
        parse(one(f"A &#{number};"), "en", "de")


def test_entities_are_not_multiplied() -> None:
    entities = '<!ENTITY a0 "ha">' + "".join(f'<!ENTITY a{n} "&a{n - 1};&a{n - 1};">' for n in range(1, 60))
    with pytest.raises(InputError, match="entity a0"):
        parse(f"<!DOCTYPE tmx [{entities}]>{one('&a59;')}", "en", "de")


def test_an_entity_from_elsewhere_is_a_mark() -> None:
    document = parse(f'<!DOCTYPE tmx SYSTEM "x.dtd">{one("A &x; B")}', "en", "de")
    assert document.passages == [Passage("A  B", (Mark(2, "&x;"),))]


NESTED = st.recursive(
    st.sampled_from(["a", " ", "&lt;", "ä", "<ph/>", "\n", "<seg/>", "<tuv/>", "<tu/>"]),
    lambda inner: st.builds(
        lambda name, parts: f"<{name}>{''.join(parts)}</{name.split()[0]}>",
        st.sampled_from(["tu", "tuv", 'tuv xml:lang="en"', "seg", "hi", "bpt", "sub"]),
        st.lists(inner, max_size=4),
    ),
)


@settings(deadline=None, max_examples=300)
@given(NESTED)
def test_nested_in_any_way(inner: str) -> None:
    text = f"<tmx>{inner}</tmx>"
    document = parse(text, "en", "de")
    rendered = upper(document)
    ElementTree.fromstring(rendered)
    assert len(rendered) >= len(text)
    assert parse(text, "en", "en").render([]) == text


@settings(deadline=None, max_examples=200)
@given(st.text() | st.text(alphabet="<>/tmxuvseg \"'=&;![]-").map(lambda text: f"<tmx>{text}"))
def test_any_text_is_taken_or_refused(text: str) -> None:
    refusal = "line 1: none"
    try:
        parse(text, "en", "de")
    except InputError as error:
        refusal = str(error)
    assert refusal.startswith("line ")
    assert "\n" not in refusal


def test_long_lines_and_many() -> None:
    start = time.thread_time()
    unit = '<tu>\n  <tuv xml:lang="en"><seg>One <hi>two</hi></seg></tuv>\n</tu>\n'
    for text, count in (
        (f"<tmx>{unit * 50_000}</tmx>", 50_000),
        (one("word " * 20_000), 1),
        (one("a<hi>" * 50_000 + "</hi>" * 50_000), 1),
        (one("<ph>" * 50_000 + "</ph>" * 50_000 + "a"), 1),
        (one("a<bpt i='1'/>" * 50_000 + "<ept i='1'/>" * 50_000), 1),
        (one("a<bpt" + "".join(f" a{n}='b'" for n in range(20_000)) + "/>"), 1),
        (one("<!-- a -->" * 20_000 + "&lt;" * 50_000), 1),
        ("<tmx>" + "<tu><tuv>" * 30_000 + "</tuv></tu>" * 30_000 + "</tmx>", 0),
        (f"<tmx><tu>{' ' * 100_000}<tuv xml:lang='en'>{' ' * 100_000}<seg>a</seg></tuv></tu></tmx>", 1),
    ):
        document = parse(text, "en", "de")
        assert len(document.passages) == count
        assert len(upper(document)) >= len(text)
    assert time.thread_time() - start < 30
