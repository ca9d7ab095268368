"""Terms: read from a file, and found in texts."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.documents.glossary import MAX_TERM_PARTS, Glossary, Term
from regard.errors import InputError, UsageError

SIZE = 100_000


def glossary(*sources: str) -> Glossary:
    return Glossary([Term(source, source.upper()) for source in sources])


def found(terms: Glossary, text: str) -> list[tuple[str, str]]:
    """What stands in the text, and the term that it was taken for."""
    return [(text[start:end], term.source) for start, end, term in terms.find(text)]


def words(terms: Glossary, text: str) -> list[str]:
    return [word for word, _ in found(terms, text)]


def test_a_path_may_be_a_string_and_terms_must_be_terms(tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("cat\tKatze\n")
    assert Glossary.read(str(tmp_path / "terms.tsv")).terms == (Term("cat", "Katze"),)
    with pytest.raises(UsageError, match=r"terms must be Term\(source, target\), not \('cat', 'Katze'\)"):
        Glossary([("cat", "Katze")])  # type: ignore[list-item]


# matching


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("bulb", "A bulb, a Bulb; BULB!", ["bulb", "Bulb", "BULB"]),
        ("bulb", "bulbs, lightbulb, bulb5, bulb_x, 5bulb", []),
        ("bulb", "the bulb's light, light-bulb", ["bulb", "bulb"]),
        ("light bulb", "a light  bulb, a light\n\tbulb, a light-bulb", ["light  bulb", "light\n\tbulb"]),
        ("well-known", "a well-known man, well known, well - known, well‑known", ["well-known", "well‑known"]),
        ("don't", "I don't, I don’t, I do n't", ["don't", "don’t"]),
        ("ACME", "ACME, acme, Acme", ["ACME"]),
        ("New York", "New York, new york, NEW YORK", ["New York"]),
        ("C++", "C++, c++, C++11, AC++", ["C++"]),
        (".net", "use .NET, not ASP.NET", [".NET"]),
        ("straße", "die STRASSE, die Straße", ["STRASSE", "Straße"]),
        ("café", "a cafe\u0301, a café, a cafe", ["cafe\u0301", "café"]),
        ("cafe", "a cafe\u0301", []),
        ("l'eau", "de L’eau", ["L’eau"]),
        ("a (b) c", "x a (b) c y, a(b)c", ["a (b) c"]),
        ("→", "a → b→c", ["→"]),
        ("привет", "Привет, мир", ["Привет"]),
    ],
)
def test_whole_words_are_found(source: str, text: str, expected: list[str]) -> None:
    assert words(glossary(source), text) == expected


def test_the_longest_wins_and_none_overlap() -> None:
    terms = glossary("light", "light bulb", "bulb holder", "light bulb holder x")
    assert words(terms, "light bulb holder") == ["light bulb"]
    assert words(terms, "light bulb holder x light") == ["light bulb holder x", "light"]
    assert words(terms, "bulb holder light light bulb") == ["bulb holder", "light", "light bulb"]


def test_a_term_as_it_is_written_wins_over_one_in_any_case() -> None:
    terms = glossary("march", "March")
    assert found(terms, "March, march, MARCH") == [("March", "March"), ("march", "march"), ("MARCH", "march")]


def test_a_term_in_lower_case_may_begin_a_sentence() -> None:
    terms = Glossary([Term("polish up", "x", exact_case=True), Term("iPhone", "y", exact_case=True)])
    text = "Polish up. Polish up! «Polish up», then polish up the Polish up. POLISH UP. Polish Up.\nPolish up IPhone"
    assert words(terms, text) == ["Polish up", "Polish up", "Polish up", "polish up", "Polish up"]
    assert words(terms, "I know the Polish up there") == []
    assert words(terms, "x" + " " * 20 + "Polish up") == ["Polish up"]  # too far away to tell


def test_places_are_those_of_the_text() -> None:
    terms = Glossary([light := Term("light bulb", "Glühbirne"), acme := Term("ACME", "ACME")])
    assert terms.find("The light  bulb of ACME.") == [(4, 15, light), (19, 23, acme)]
    assert terms.terms == (light, acme)


def test_no_terms_and_no_text() -> None:
    assert Glossary([]).find("a text") == []
    assert glossary("a").find("") == []


def test_terms_that_cannot_be_are_a_mistake() -> None:
    with pytest.raises(AssertionError, match="'a  b' is in the glossary twice"):
        glossary("a b", "a  b")
    with pytest.raises(AssertionError, match="a term has 1 to 32 words, not 0"):
        glossary(" ")


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.text("aB'- .é", min_size=1, max_size=5).filter(str.strip), max_size=6, unique_by=lambda t: t.lower()),
    st.text("aB'- .éx5", max_size=40),
)
def test_what_is_found_is_in_order_and_whole(sources: list[str], text: str) -> None:
    sources = list({" ".join(source.split()).lower(): " ".join(source.split()) for source in sources}.values())
    terms = glossary(*sources)
    end = 0
    for start, stop, term in terms.find(text):
        assert end <= start < stop
        assert " ".join(text[start:stop].split()).lower() == term.source.lower()
        assert not text[start - 1 : start].isalnum()
        assert not text[stop : stop + 1].isalnum()
        end = stop
    for source in sources:
        assert terms.find(f"5 {source} 5")[:1] != []


# time


def seconds(terms: Glossary, text: str) -> float:
    start = time.process_time()
    terms.find(text)
    return time.process_time() - start


def test_many_terms_take_no_longer() -> None:
    terms = Glossary([Term(f"term{number} of part{number % 7}", "x") for number in range(10_000)])
    text = " ".join(f"term{number} of part{number % 5}" for number in range(SIZE // 16))
    assert len(terms.find(text)) > 800
    assert seconds(terms, text) < 2


@pytest.mark.parametrize("seed", ["a ", "a", "-", "a-", "'", "e\u0301", "🙂", "A ", " "])
def test_no_text_takes_long(seed: str) -> None:
    longest = " ".join("a" * (MAX_TERM_PARTS - 1))
    terms = Glossary(
        [Term(f"{longest} b", "x"), Term(f"{longest} c", "x", exact_case=True), Term("-" * MAX_TERM_PARTS, "x")]
    )
    assert seconds(terms, (seed * SIZE)[:SIZE]) < 2


# files


def write(path: Path, content: str | bytes) -> Path:
    file = path / "terms.tsv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def test_a_file_is_read(tmp_path: Path) -> None:
    content = (
        "\ufeff# source\ttarget\tflags\r\n\r\n"
        "light  bulb\tGlühbirne \r\nACME\r\nFoo\t\r\nBar\tBar\t\n   \n  # more\n"
        "house\tHaus\tinflect\nstate\tStaat\tinflect, case\t\t\nhouse\tHaus\tinflect"
    )
    assert Glossary.read(write(tmp_path, content)).terms == (
        Term("light bulb", "Glühbirne"),
        Term("ACME", "ACME"),
        Term("Foo", "Foo"),
        Term("Bar", "Bar"),
        Term("house", "Haus", inflect=True),
        Term("state", "Staat", inflect=True, exact_case=True),
    )


def test_an_empty_file_has_no_terms(tmp_path: Path) -> None:
    assert Glossary.read(write(tmp_path, "")).terms == ()


def test_how_case_matters_tells_terms_apart(tmp_path: Path) -> None:
    terms = Glossary.read(write(tmp_path, "march\tmarschieren\nMarch\tMärz\nmay\tdürfen\nmay\tMai\tcase\n"))
    assert [term.target for _, _, term in terms.find("march March may MAY")] == ["marschieren", "März", "Mai", "dürfen"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\n\tc\n", ":2: has no source term; write it before the first tab, or remove the line"),
        ("\t\t\n", ":1: has no source term; write it before the first tab, or remove the line"),
        ("a\tb\tloud\n", ":1: unknown flag 'loud'; expected inflect or case"),
        ("a\tb\tcase\td\n", ":1: has 4 columns; expected source, target and flags"),
        ("a\tb\n\na\tc\n", ":3: 'a' has another translation or other flags in line 1; remove one of the lines"),
        (
            "it’s\tb\nit's\tb\tinflect\n",
            ":2: 'it's' has another translation or other flags in line 1; remove one of the lines",
        ),
        (b"a\tb\nc\t\xff\n", ":2: is not UTF-8 (byte 3 of the line); save it as UTF-8"),
        ("a\n".encode("utf-16"), ":1: is not UTF-8 (byte 1 of the line); save it as UTF-8"),
        ("a " * 33, ":1: the source term has more than 32 words; make it shorter"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(InputError) as error:
        Glossary.read(path)
    assert str(error.value) == f"{path}{message}"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        Glossary.read(tmp_path / "none.tsv")
