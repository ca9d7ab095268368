"""Marks in translations: each one once, nested as they were, around the words that theirs became."""

import re
import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.documents.markup import place_marks
from regard.documents.passage import Link, Mark, Passage, Span

PIECE = re.compile(r"(<[^<>]*>)")


def passage(raw: str) -> Passage:
    """From `Click <b>here</b>.`; what ends in /> is single."""
    text, marks = "", list[Mark]()
    for piece in PIECE.split(raw):
        if not PIECE.fullmatch(piece):
            text += piece
        elif piece.startswith("</"):
            marks.append(Mark(len(text), piece, "close"))
        else:
            marks.append(Mark(len(text), piece, "single" if piece.endswith("/>") else "open"))
    return Passage(text, tuple(marks))


def raw(passage: Passage) -> str:
    pieces, done = [], 0
    for mark in passage.marks:
        pieces += [passage.text[done : mark.at], mark.raw]
        done = mark.at
    return "".join([*pieces, passage.text[done:]])


def spans(text: str, words: str) -> Span:
    start = text.index(words)
    return start, start + len(words)


def linked(source: str, target: str, links: str) -> list[Link]:
    """From "here=hier, log in=anmelden"."""
    pairs = [link.split("=") for link in links.split("; ") if link]
    return [(spans(source, here), spans(target, there)) for here, there in pairs]


CASES = {
    "german": (
        "Click <b>here</b> to <a href='x'>log in</a>.",
        "Klicken Sie <b>hier</b>, um sich <a href='x'>anzumelden</a>.",
        "Click=Klicken; here=hier; to=um; log in=anzumelden; .=.",
    ),
    "links with the full stop": (
        "Click <b>here</b> to <a>log in</a>.",
        "Klicken Sie <b>hier</b>, um sich <a>anzumelden</a>.",
        "Click=Klicken; here=hier,; to=um; log=anzumelden.; in.=anzumelden.",
    ),
    "order changes": ("The <b>red</b> <i>house</i>", "La <i>maison</i> <b>rouge</b>", "red=rouge; house=maison"),
    "one of two words": (
        "I have <b>not seen</b> it.",
        "Ich habe es <b>nicht gesehen</b>.",
        "I=Ich; have=habe; not=nicht; seen=gesehen; it=es",
    ),
    "smallest stretch": ("<b>turn off</b> it", "<b>schalte es aus</b>", "turn=schalte; off=aus; it=es"),
    "siblings are cut": (
        "He <b>gave up</b> <i>smoking</i>",
        "Er <b>gab</b> <i>Rauchen</i> auf",
        "gave=gab; up=auf; smoking=Rauchen",
    ),
    "two in one word": ("<b>rain</b> <i>coat</i> x", "<b>Mantel</b> <i>y</i>", "rain=Mantel; coat=Mantel"),
    "whole text": ("<b>Good morning!</b>", "<b>¡Buenos días!</b>", "Good=Buenos; morning=días"),
    "loose signs inside": ("<b>Stop!</b> Go.", "<b>Halt!</b> Los.", "Stop=Halt; Go=Los"),
    "loose signs before": ("He: <b>“Stop”</b>.", "Er: <b>„Halt“</b>.", "He=Er; Stop=Halt"),
    "loose signs outside": ("<b>Stop</b>! Go.", "<b>Halt</b>! Los.", "Stop=Halt; Go=Los"),
    "signs alone": ("Stop<b>!</b> Go", "Halt<b>!</b> Los", "Stop=Halt; Go=Los"),
    "signs that are gone": ("Stop<b>!</b> Go", "Halt<b></b> Los", "Stop=Halt; Go=Los"),
    "french signs": ("<b>Note:</b> read this", "<b>Remarque :</b> à lire", "Note=Remarque; read=lire"),
    "final stop stays out": ("Look <b>here</b>.", "Schau <b>hier</b>.", "Look=Schau; here=hier; here=."),
    "unlinked by its neighbour": (
        "It is <b>really</b> cold",
        "Kalt ist es <b>wirklich</b>",
        "It=es; is=ist; cold=Kalt",
    ),
    "unlinked without a free word": ("of <b>the</b> house", "des <b>Hauses</b>", "of=des; house=Hauses"),
    "nothing linked": ("one <b>two</b> three <i>four.</i>", "eins <b>zwei</b> drei <i>vier.</i>", ""),
    "nothing linked, other length": ("a <b>b</b>.", "r s <b>t</b>.", ""),
    "nested": (
        "See <a>the <b>new</b> page</a> now",
        "Jetzt <a>die <b>neue</b> Seite</a> ansehen",
        "See=ansehen; the=die; new=neue; page=Seite; now=Jetzt",
    ),
    "chain": ("x <a><b><i>y</i></b></a>", "<a><b><i>Y</i></b></a> X", "x=X; y=Y"),
    "single before its word": ("See <img/>this page", "<img/>Diese Seite sehen", "See=sehen; this=Diese; page=Seite"),
    "single after its word": ("Read it<sup/> now", "Lies das<sup/> jetzt", "Read=Lies; it=das; now=jetzt"),
    "single at the ends": ("<img/>one two<br/>", "<img/>zwei eins<br/>", "one=eins; two=zwei"),
    "single in its pair": ("a <b>c<br/></b> d", "D A <b>C<br/></b>", "a=A; c=C; d=D"),
    "single out of others' pairs": ("a<br/> <b>c d</b>", "A<br/> <b>D C</b>", "a=A; c=C; d=D"),
    "empty pair": ("one <a id='x'></a>two", "<a id='x'></a>zwei eins", "one=eins; two=zwei"),
    "copied words keep their insides": ("The H<sub>2</sub>O", "Das H<sub>2</sub>O", "The=Das; H2O=H2O"),
    "translated words do not": ("un<b>believ</b>able", "<b>unglaublich</b>", "unbelievable=unglaublich"),
    "no spaces": ("Click <b>here</b> to log in", "点击<b>这里</b>登录", "Click=点击; here=这里; log in=登录"),
    "elision": ("the <b>man</b> sees", "l'<b>homme</b> voit", "the=l; man=homme; sees=voit"),
    "vowel signs": ("the <b>name</b> is", "यह <b>नाम</b> है", "name=नाम"),
    "no text left": ("a <b>c</b><br/>", "<b></b><br/>", ""),
    "never closed, never opened": ("a </x>b <y>c", "A </x>B <y>C", "a=A; b=B; c=C"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_marks_go_with_their_words(name: str) -> None:
    source, wanted, links = CASES[name]
    here, there = passage(source), passage(wanted).text
    assert raw(place_marks(here, there, linked(here.text, there, links))) == wanted


def test_fixed_stretches_are_found_again() -> None:
    source = Passage("Run make all now", (Mark(4, "<code>", "open"), Mark(12, "</code>", "close")), ((4, 12),))
    placed = place_marks(source, "Jetzt make all ausführen", [((4, 12), (6, 14)), ((0, 3), (15, 24))])
    assert placed.fixed == ((6, 14),)
    assert raw(placed) == "Jetzt <code>make all</code> ausführen"


@pytest.mark.parametrize(
    ("source", "target", "links"),
    [
        ("Call <code>x()</code>, then stop.", "Rufe <code>x()</code>! Dann halt.", "Call=Rufe; x(),=x()!; stop=halt"),
        ("Call <code>x()</code>, then <i>stop</i>.", "<i>Halt</i> nach <code>x()</code>.", "x(),=x().; stop.=Halt"),
        ("Call <code>x()</code> or <code>y.z</code>.", "<code>y.z</code> oder <code>x()</code>?", "Call=oder"),
        ("Call <code>x()</code> <b>now</b>", "<code>x()</code> <b>jetzt</b>", "Call=x(); now=jetzt"),
        ("<b>Call</b> <code>x()</code>", "<code>x()</code> <b>rufen</b>", "Call=x() rufen"),
        ("Call <b>the</b> <code>a b</code>", "Ruf <code>a b</code> <b>auf</b>", "Call=Ruf; the=b auf; a b=a"),
        ("A <code>W<b>iF</b>i</code>, too", "Auch <code>W<b>iF</b>i</code>.", "WiFi,=WiFi."),
        ("<b>Stop</b> <code>x()</code>", "bitte <code>x()</code> <b>stoppen</b>", "Stop=x() stoppen"),
        ("<code>a</code> is it", "Das <code>ist</code>", "is=Das"),
    ],
)
def test_no_mark_enters_what_was_copied(source: str, target: str, links: str) -> None:
    here, there = passage(source), passage(target)
    codes = re.findall("<code>(.*?)</code>", source)
    fixed = tuple(spans(here.text, re.sub("<.*?>", "", code)) for code in codes)
    placed = place_marks(replace(here, fixed=fixed), there.text, linked(here.text, there.text, links))
    assert raw(placed) == target


# --- contracts

TEXTS = st.lists(st.sampled_from(["ab", "c", "def", " ", " ", ".", ", ", "x-y", "日本", "é"]), max_size=12).map("".join)


@st.composite
def passages(draw: st.DrawFn) -> Passage:
    text = draw(TEXTS)
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    marks, opened = list[Mark](), list[int]()
    for number, at in enumerate(places):
        kind = draw(st.sampled_from(["open", "close", "single"]))
        if kind == "open":
            opened.append(number)
            marks.append(Mark(at, f"<{number}>", "open"))
        elif kind == "close" and opened:
            marks.append(Mark(at, f"</{opened.pop()}>", "close"))
        else:
            marks.append(Mark(at, f"<{number}/>"))
    marks += [Mark(len(text), f"</{number}>", "close") for number in reversed(opened)]
    return Passage(text, tuple(marks))


def spans_of(text: str) -> st.SearchStrategy[Span]:
    two = st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))
    words = [found.span() for found in re.finditer(r"\w+|[^\w\s]", text)]
    return (st.sampled_from(words) if words else two) | two.map(lambda ends: (min(ends), max(ends)))


@st.composite
def tasks(draw: st.DrawFn) -> tuple[Passage, str, list[Link]]:
    source, target = draw(passages()), draw(TEXTS)
    return source, target, draw(st.lists(st.tuples(spans_of(source.text), spans_of(target)), max_size=8))


def parents(marks: tuple[Mark, ...]) -> dict[str, str]:
    """Each mark that opens or is single -> the pair around it."""
    stack, found = ["root"], {}
    for mark in marks:
        if mark.kind == "close":
            assert stack.pop() == mark.raw.replace("/", "")
        else:
            found[mark.raw] = stack[-1]
            stack += [mark.raw] * (mark.kind == "open")
    assert stack == ["root"]
    return found


def inside_word(text: str, at: int) -> bool:
    return 0 < at < len(text) and bool(re.fullmatch("[a-zé]{2}", text[at - 1 : at + 1]))


def core(target: str, span: Span) -> Span:
    """Without the signs around a word: they may be left out of a pair."""
    within = target[slice(*span)]
    return span[0] + len(within) - len(within.lstrip(" .,-")), span[0] + len(within.rstrip(" .,-"))


@settings(deadline=None, max_examples=400)
@given(tasks())
def test_contract(task: tuple[Passage, str, list[Link]]) -> None:
    source, target, links = task
    placed = place_marks(source, target, links)
    assert placed.text == target
    assert Counter((mark.raw, mark.kind) for mark in placed.marks) == Counter((m.raw, m.kind) for m in source.marks)
    assert all(0 <= mark.at <= len(target) for mark in placed.marks)
    assert all(before.at <= after.at for before, after in pairwise(placed.marks))
    assert parents(placed.marks) == parents(source.marks)
    cut = {mark.at for mark in source.marks}
    if not any(inside_word(source.text, at) for at in cut):
        assert not any(inside_word(target, mark.at) for mark in placed.marks) or target == source.text
    if not any(start < at < end for (start, end), _ in links for at in cut) and target != source.text:
        words = [there for here, there in links if source.text[slice(*here)].strip()]
        cores = [core(target, there) for there in words]
        assert not any(start < mark.at < end for start, end in cores for mark in placed.marks)


@settings(deadline=None, max_examples=300)
@given(tasks(), st.data())
def test_fixed_stretches_stay_whole(task: tuple[Passage, str, list[Link]], data: st.DataObject) -> None:
    source, target, links = task
    words = [found.span() for found in re.finditer(r"\S+", source.text)]
    fixed = data.draw(st.lists(st.sampled_from(words), unique=True, max_size=3)) if words else []
    copies = "".join(f" {source.text[slice(*span)]}" for span in data.draw(st.permutations(fixed)))
    source = replace(source, fixed=tuple(sorted(fixed)))
    placed = place_marks(source, target + copies, links)
    wanted, found = ([one.text[slice(*span)] for span in one.fixed] for one in (source, placed))
    assert Counter(found) <= Counter(wanted)
    assert links or len(found) == len(fixed)
    inside = [mark.at for mark in source.marks if any(start < mark.at < end for start, end in fixed)]
    if not inside:
        assert not any(start < mark.at < end for start, end in placed.fixed for mark in placed.marks)


@given(passages(), st.data())
def test_an_unchanged_text_keeps_its_marks(source: Passage, data: st.DataObject) -> None:
    links = data.draw(st.lists(st.tuples(spans_of(source.text), spans_of(source.text)), max_size=5))
    assert place_marks(source, source.text, links).marks == source.marks


@settings(deadline=None)
@given(st.permutations([f"w{number}" for number in range(6)]), st.integers(0, 5), st.integers(1, 6))
def test_a_pair_goes_around_the_smallest_stretch(order: list[str], first: int, count: int) -> None:
    words = [f"w{number}" for number in range(6)]
    held = words[first : first + count]
    before, after = words[:first], words[first + count :]
    source = passage(" ".join([*before, "<b>" + " ".join(held) + "</b>", *after]))
    target = " ".join(order).upper()
    links = [(spans(source.text, word), spans(target, word.upper())) for word in words]
    opened, closed = (mark.at for mark in place_marks(source, target, links).marks)
    ends = [spans(target, word.upper()) for word in held]
    assert (opened, closed) == (min(start for start, _ in ends), max(end for _, end in ends))


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(1, 9))
def test_what_held_text_holds_a_word_while_there_are_words(pairs: int, words: int) -> None:
    source = passage(" ".join(f"<{n}>v{n}</{n}>" for n in range(pairs)))
    target = " ".join(f"w{n}" for n in range(words))
    placed = place_marks(source, target, [((0, 2), (0, 2))])
    opened = {mark.raw: mark.at for mark in placed.marks if mark.kind == "open"}
    held = [mark.at > opened[mark.raw.replace("/", "")] for mark in placed.marks if mark.kind == "close"]
    assert sum(held) == min(pairs, words)


COUNT = 10_000
LONG = {
    "pairs in a row": "<b>a</b> " * COUNT,
    "pairs in pairs": "<b>a " * COUNT + "</b>" * COUNT,
    "a comb": "a <b>c</b><i> " * COUNT + "</i>" * COUNT,
    "points": "a<br/> " * COUNT,
    "signs": "<b>!" * COUNT + "</b>" * COUNT,
}


@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("name", LONG)
def test_long_passages_take_no_longer_than_that(name: str, some: bool) -> None:
    source = passage(LONG[name])
    target = "b " * COUNT
    links = [((at, at + 1), (at // 2 * 2, at // 2 * 2 + 1)) for at in range(0, len(source.text), 40 if some else 4)]
    start = time.thread_time()
    place_marks(source, target, [(here, there) for here, there in links if there[1] <= len(target)])
    assert time.thread_time() - start < 5


@pytest.mark.parametrize("word", ["x", "b", "w{}"])
def test_many_fixed_stretches_take_no_longer_than_that(word: str) -> None:
    words = [word.format(number) for number in range(COUNT)]
    source = passage(" ".join(f"<b>{one}</b>" for one in words) + " a")
    ends = [found.span() for found in re.finditer(r"\S+", source.text)][:-1]
    start = time.thread_time()
    placed = place_marks(replace(source, fixed=tuple(ends)), " ".join(words[::-1]), [])
    assert time.thread_time() - start < 10
    assert len(placed.fixed) == COUNT
