"""Where sentences end in three languages, and that whatever is cut can be put together again."""

import time
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.documents.sentences import pieces_that_fit, sentences

ENGLISH = """
Dr. Smith met Mrs. Jones. |They left at 5 p.m. and went home.
We met at 5 p.m. |Tom was late.
We met at 9 A.M. |Tom was late.
He lives in the U.S. |The house is big.
The U.S. Army and the U.K. Parliament agreed. |Good.
J. R. R. Tolkien wrote it. |C. S. Lewis read it.
J.R.R. Tolkien wrote it. |George W. Bush did not.
The very long name is A.B.C.D.E.F.G.H.I.J.K.L.M.N. Smith. |And A. B. C. D. E. F. G. H. I. Smith.
Pi is 3.14 and version 1.2.3 is out. |Get it.
It costs $3.50. |$4 is too much.
Well... maybe. |Well... |Maybe not.
Well … maybe. |Well … |That is all.
See www.example.com/a.b?c=d! |Next one.
Look at https://example.com/x.html?q=A.B. |Then go on.
Mail me at a.b@example.com. |Thanks.
The file is called notes.txt and lies in /etc. |Open it.
"Stop!" he cried. |"Go!" |She went.
"Really?" she asked. |“Yes.” |“No.”
He said "No." |Then he left.
(See below.) |Next. |[Sic!] |And so on.
He came (at last!) and left.
No. 5 is alive. |No. |He is not.
I said no. |Tom said yes.
Bring apples, pears, etc. and wine. |Bring pears, etc. |Then go.
1. Open the door. |2. Close it. |3. Go.
It is so.[3] |Then it was not.
... And then he came. |Why?! |I don't know!!! |OK.
Take vitamin C. |It helps.
Apple Inc. announced it. |He works for Apple Inc. |The firm grew.
He was born in 1980. |20 years later he left.
I am 30. |Tom is 20.
Is it e.g. Tom or i.e. Mary? |Both, cf. Smith et al. (2010). |Fine.
St. Mary lived on Main St. |She was happy.
I don't. |Tom does. |It is Mary's. |Bob knows.
Tom vs. Mary. |Who wins?
On Jan. 5 it rained. |It was Jan. |He came late.
Yes. |- No. |– Perhaps. |— Never. |• done
**Stop.** |Next. |_Really?_ |Yes.
MR. SMITH IS HERE. |GO.
"""
GERMAN = """
Das ist z. B. Tom. |Oder z.B. Maria. |Z. B. Anna.
Haben z. B. Sie das gesehen? |D. h. Anna war da.
Am 3. Oktober war es. |Der 2. Weltkrieg endete 1945. |Danach kam Frieden.
Zum 100. Geburtstag kamen alle. |Am 3. 10. 1990 regnete es.
Er ist 30. |Sie ist 20.
Er wohnt in der Hauptstr. 5. |Sie wohnt in Nr. 7. |Das ist gut.
Das gilt bzw. Tom sagt es, ca. 50 Leute, evtl. Maria, ggf. Anna. |So ist es.
Äpfel, Birnen usw. |Dann kam er. |Äpfel usw. sind gut.
Hr. Meier und Fr. Schulze kennen Prof. Dr. Weber. |Er ist nett.
Vgl. Abs. 2 und Art. 5. |Das ist so eine Art. |Mehr nicht.
»Komm!« |»Nein.« |Er ging. |»Ja«, sagte er.
„Gut.“ |Dann ging sie. |„Los!“, rief er. |„Warum?“ fragte sie.
Kaiser Wilhelm II. Kaiser der Deutschen. |Er ging.
Rund 3 Mio. Menschen leben dort. |Es sind 3 Mio. |Das ist viel.
Um 50 v. Chr. lebte er. |Oberst a. D. Müller kam u. a. Montag.
Ich weiß nicht... vielleicht. |Na ja… |Gut!
Die Zahl 3,14 ist bekannt. |10.000 Leute kamen. |Es waren 10.000. |Niemand ging.
Das kostet 5 €. |Teuer!
"""
FRENCH = """
Ça va ? |Oui ! |Et toi ? |Non.
M. Dupont et Mme. Durand sont là. |MM. Petit et Grand aussi.
C'est p. ex. Paul, cf. Marie, env. 50 personnes. |Voilà.
« Viens ! » dit-il. |« Non. » |Elle partit. |« Oui. » |« Bon. »
Il dit : « Viens. » |Puis il partit.
Il y en a. |Paul en a. |Il l'a. |Marie aussi.
En 50 av. J.-C. les Romains vinrent. |J.-P. Sartre est mort.
Quoi ? ! |Non ! ! |Oui… |Bon… mais non.
Des pommes, des poires, etc. |Marie en veut. |Des pommes, etc. sont là.
À quelle heure ? |À 3 h. |C'est tôt.
M. Le Goff est là. |Mlle Petit aussi. |Élise vient.
Il a 30 ans. |20 ans plus tard, il part.
"""
ANY = """
日本語です。|そうですか？|はい！！|「行く。」|次。
これは3.14です。|Next one. |Привет. |Как дела? |¿Qué tal? |¡Bien! |"Sí." |Fin.
Dr. Weber kam z. B. am 3. Oktober. |M. Dupont aussi. |The U.S. Army did not.
① came to ②. |③ left.
はい。 |привет。|あ.。|い
"""
CASES = [
    (language, line)
    for language, lines in (("en", ENGLISH), ("de", GERMAN), ("fr", FRENCH), (None, ANY))
    for line in lines.strip().splitlines()
]
HOSTILE = {
    "dots": "." * 1_000_000,
    "dots before a word": "x" + "." * 1_000_000 + " a",
    "lower case": "a. " * 1_000_000,
    "initials": "A. " * 100_000,
    "sentences": "Go! " * 200_000,
    "no space": "x" * 1_000_000,
    "spaces": "x" + " " * 1_000_000 + "x",
    "line feeds": "x" + "\n" * 1_000_000 + "x",
    "brackets": "x." + ")" * 1_000_000 + " A",
    "opening": "x. " + "( " * 500_000 + "A",
    "guillemets": ". »" * 300_000,
    "footnotes": ".[12" * 250_000,
    "no letters": "? " * 500_000,
    "wide": "。." * 500_000,
    "numbers": "1. " * 100_000,
}
AWKWARD = st.text(st.sampled_from([*"aAzB1 .!?…。」\"'»«)(\n\r\xa0\u2028•-,;M"]))


@pytest.mark.parametrize(("language", "marked"), CASES)
def test_sentences_of_real_texts(language: str | None, marked: str) -> None:
    assert sentences(marked.replace("|", ""), language) == marked.split("|")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t", [" \n\t"]),
        ("  \n Hello.  World", ["  \n Hello.  ", "World"]),
        ("a title\n\nand text\nin lines.\r\nEnd.\n", ["a title\n\n", "and text\n", "in lines.\r\n", "End.\n"]),
        ("Mr.\nSmith", ["Mr.\n", "Smith"]),
        ("One. \n  Two.\u2028Three.", ["One. \n  ", "Two.\u2028", "Three."]),
        (
            "M.\xa0Blanc et p.\xa0ex.\u202fPaul.\xa0 Oui\u202f? Non",
            ["M.\xa0Blanc et p.\xa0ex.\u202fPaul.\xa0 ", "Oui\u202f? ", "Non"],
        ),
    ],
)
def test_white_space(text: str, expected: list[str]) -> None:
    assert sentences(text, "fr") == expected


def test_the_language_decides_what_is_an_abbreviation() -> None:
    text = "Sie wurde 30. Karl kam."
    assert len(sentences(text, "de")) == len(sentences(text, "de-AT")) == len(sentences(text, "de_CH")) == 1
    assert len(sentences(text, "en")) == 2
    assert len(sentences(text)) == len(sentences(text, "xx")) == 1


@settings(deadline=None, max_examples=300)
@given(text=AWKWARD | st.text(), language=st.sampled_from([None, "en", "de", "fr"]))
@example("\ud800. A\u0301. B", None)
def test_sentences_join_to_the_text_and_are_whole(text: str, language: str | None) -> None:
    found = sentences(text, language)
    assert "".join(found) == text
    assert not any(piece[0].isspace() for piece in found[1:])
    assert all(sentences(piece, language) == [piece] for piece in found)
    assert all(len(piece.strip().splitlines()) <= 1 for piece in found)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_take_linear_time(name: str) -> None:
    start = time.process_time()
    found = sentences(HOSTILE[name])
    assert time.process_time() - start < 4.0  # each takes less than 1 on a free machine; quadratic time would be hours
    assert "".join(found) == HOSTILE[name]


def shorter_than(limit: int) -> Callable[[str], bool]:
    return lambda piece: len(piece) < limit


def few_words(limit: int) -> Callable[[str], bool]:
    return lambda piece: len(piece.split()) <= limit


@pytest.mark.parametrize(
    ("limit", "marked"),
    [
        (40, "This is short enough."),
        (33, "I came because I wanted to, |and I left as I had to."),
        (26, "Tom ging heute nach |Hause weil er müde war."),
        (30, "Tom went home early |because he was very tired."),
        (30, "Je suis venu; |il était déjà parti, hélas"),
        (21, "one two three four |five six seven"),
        (14, "The number |3,14 is, |or is not, |pi."),
        (9, "abcdefg|hijklmn|opq rs"),
        (9, "私はもう、|行きます、|ではまた"),
    ],
)
def test_long_sentences_are_cut_where_it_hurts_least(limit: int, marked: str) -> None:
    assert pieces_that_fit(marked.replace("|", ""), shorter_than(limit)) == marked.split("|")


def test_no_more_pieces_than_needed() -> None:
    found = pieces_that_fit("x" * 2010, lambda piece: len(piece) <= 1010)
    assert len(found) == 2
    assert pieces_that_fit("a b " * 600, few_words(1200)) == ["a b " * 600]


def test_what_is_seen_as_one_character_stays_one() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert pieces_that_fit(family * 3, shorter_than(9)) == [family] * 3
    assert pieces_that_fit("e\u0301" * 4, shorter_than(4)) == ["e\u0301"] * 4
    assert pieces_that_fit("\ud83d\ude00" * 4, shorter_than(4)) == ["\ud83d\ude00"] * 4
    assert pieces_that_fit("e\u0301", shorter_than(2)) == ["e", "\u0301"]  # it cannot be helped


@settings(deadline=None, max_examples=300)
@given(text=AWKWARD | st.text(), limit=st.integers(0, 12))
def test_pieces_join_to_the_text_and_fit(text: str, limit: int) -> None:
    for fits in (shorter_than(limit), few_words(limit)):
        found = pieces_that_fit(text, fits)
        assert "".join(found) == text
        assert all(fits(piece) or len(piece) == 1 for piece in found)
        assert all(found)


@given(text=st.text(), answers=st.randoms(use_true_random=False))
def test_any_answers_end(text: str, answers: object) -> None:
    assert "".join(pieces_that_fit(text, lambda _: answers.random() < 0.5)) == text  # type: ignore[attr-defined]


@pytest.mark.parametrize("limit", [0, 2, 100, 5000, 99_999])
@pytest.mark.parametrize("text", ["x" * 100_000, "," * 100_000, ", " * 50_000, "\u0301" * 100_000, "a " * 50_000])
def test_little_is_looked_at_to_cut_long_lines(text: str, limit: int) -> None:
    seen = 0

    def fits(piece: str) -> bool:
        nonlocal seen
        seen += len(piece)
        return len(piece) < limit

    start = time.process_time()
    found = pieces_that_fit(text, fits)
    assert time.process_time() - start < 4.0
    assert "".join(found) == text
    assert seen < 12 * len(text)
    assert len(found) <= max(1.1 * len(text) / max(limit - 1, 1), 2)
