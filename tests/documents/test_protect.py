"""What must come out of a translation as it went in: found, hidden, put back, and looked for."""

import random
import time
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from survival import intact

from regard.documents.protect import Protected, in_groups, protect, restore, restored_spans, spans, widened
from regard.text.placeholders import PLACEHOLDERS

KEPT: dict[str, list[str]] = {
    # links and addresses
    "See https://example.org/a?b=c#d.": ["https://example.org/a?b=c#d"],
    "See https://en.wikipedia.org/wiki/Bank_(law)!": ["https://en.wikipedia.org/wiki/Bank_(law)"],
    "(see http://a.org/x_(y)_z), then": ["http://a.org/x_(y)_z"],
    "It is there (www.example.com).": ["www.example.com"],
    "“https://a.org/x”, he said": ["https://a.org/x"],
    "ftp://files.a.org/pub; mailto:tom@a.org?": ["ftp://files.a.org/pub", "mailto:tom@a.org"],
    "clone git+ssh://git@a.org/b.git now": ["git+ssh://git@a.org/b.git"],
    "at https://a.org/b…": ["https://a.org/b"],
    "Look at github.com/python/cpython, please.": ["github.com/python/cpython"],
    "localhost is not example.com:8080/x": ["example.com:8080/x"],
    "Besuchen Sie beispiel.de!": ["beispiel.de"],
    "Write to tom.sawyer+x@mail.example.co.uk.": ["tom.sawyer+x@mail.example.co.uk"],
    "Écris à jean@exemple.fr, s'il te plaît": ["jean@exemple.fr"],
    # formats of programs
    "Hello %s, you have %d items.": ["%s", "%d"],
    "%1$s of %2$d": ["%1$s", "%2$d"],
    "%(name)s has %(count)d and %(share).1f": ["%(name)s", "%(count)d", "%(share).1f"],
    "Price: %-5.2f, %+d, %05d, %.3g": ["%-5.2f", "%+d", "%05d", "%.3g"],
    "It is %d%% done": ["%d%%"],
    "Hi %@, %ld left, %zu more": ["%@", "%ld", "%zu"],
    "a width of %dpx here": ["%dpx"],
    "on %Y-%m-%d there": ["%Y-%m-%d"],
    "the folder %APPDATA% is": ["%APPDATA%"],
    "Qt has %1 and %2.": ["%1", "%2"],
    "Tom came %dth, %sfoo": ["%dth", "%sfoo"],
    "100%s of it, %1%2": ["100%s", "%1%2"],
    "eine 100 %ige Lösung": ["100"],
    "Hi {name}, {0} and {}!": ["{name}", "{0}", "{}"],
    "as {user.name!r:>10} and {x:.2f}": ["{user.name!r:>10}", "{x:.2f}"],
    "Dear {{ user.name }} and {{{raw}}},": ["{{ user.name }}", "{{{raw}}}"],
    "{% if x %}yes{% endif %}": ["{% if x %}yes{% endif %}"],
    "with ${x}, $x_name, #{y} and %{z}": ["${x}", "$x_name", "#{y}", "%{z}"],
    "Hello <%= user.name %>, welcome": ["<%= user.name %>"],
    "{{#if a}}yes{{/if}} no": ["{{#if a}}yes{{/if}}"],
    "{n, plural, one {# item} other {# items}} found": ["{n, plural, one {# item} other {# items}}"],
    "on {d, date, short} at": ["{d, date, short}"],
    ":count messages for :user_name": [":count", ":user_name"],
    "well done :tada: and :+1:": [":tada:", ":+1:"],
    "a&nbsp;b, it&#39;s &lt; and &#x27;": ["a&nbsp;b", "it&#39;s", "&lt;", "&#x27;"],
    # code
    "Run `git add .` now": ["`git add .`"],
    "Run ``a ` b`` now": ["``a ` b``"],
    "an open ` is nothing": [],
    "in /usr/bin/env or C:\\dir\\f.txt.": ["/usr/bin/env", "C:\\dir\\f.txt"],
    "in ./a/b.py, ../c, ~/.bashrc and /etc.": ["./a/b.py", "../c", "~/.bashrc", "/etc"],
    "in \\\\server\\share\\x, there": ["\\\\server\\share\\x"],
    "Open src/main.py and README.md.": ["src/main.py", "README.md"],
    "Thanks @tom_s and @x, #winning #1!": ["@tom_s", "@x", "#winning", "#1"],
    "Use v1.2.3 or 2.0.0-rc.1 instead": ["v1.2.3", "2.0.0-rc.1"],
    "the snake_case and __init__ names": ["snake_case", "__init__"],
    "call os.path.join(a, b) or run()": ["os.path.join(a, b)", "run()"],
    "std::vector and torch.nn.functional": ["std::vector", "torch.nn.functional"],
    "a camelCase name, an iPhone, JavaScript": ["camelCase", "iPhone", "JavaScript"],
    "in UTF-8, not ISO-8859-1, against COVID-19": ["UTF-8", "ISO-8859-1", "COVID-19"],
    "id 550e8400-e29b-41d4-a716-446655440000 is": ["550e8400-e29b-41d4-a716-446655440000"],
    # numbers
    "It is 5 km, 3.5 kg and 20 °C.": ["5 km", "3.5 kg", "20 °C"],
    "at 12:30, not 10:45:03": ["12:30", "10:45:03"],
    "à 14 h 30 précises": ["14 h 30"],
    "50 % of $5.99": ["50 %", "$5.99"],
    "für 1.000,50 € oder € 5": ["1.000,50 €", "€ 5"],
    "US$5, USD 7 and 8 CHF": ["US$5", "USD 7", "8 CHF"],
    "1 000 000 de gens, 1/2 et 1½": ["1 000 000", "1/2", "1½"],
    "on 2024-05-01 and 01.05.2024.": ["2024-05-01", "01.05.2024"],
    "at 2024-05-01T10:45:03Z sharp": ["2024-05-01T10:45:03Z"],
    "Call +49 30 123456 or +1 (555) 123-4567.": ["+49 30 123456", "+1 (555) 123-4567"],
    "pages 10–20, at -5 °C": ["10–20", "-5 °C"],
    "at 100 km/h over 30 m²": ["100 km/h", "30 m²"],
    "I have 3 apples, 42.": ["3", "42"],
    "a 5-year-old in the A4 with MP3s": ["5", "A4", "MP3s"],
    "In 2005 a man came at 5 in 3 A": ["2005", "5", "3"],
    "5 l'homme, 5 s'il": ["5", "5"],
    "eine 50%ige Lösung": ["50"],
    "between 5%-10%": ["5%-10%"],
    "DE89 3704 0044 0532 0130 00": ["DE89 3704 0044 0532 0130 00"],
    # what the models cannot read
    "I like it 🙂!": ["🙂"],
    "a family: 👩‍👩‍👧 here": ["👩‍👩‍👧"],
    "press #️⃣ or 5️⃣ ©️": ["#️⃣", "5️⃣", "©️"],
    "flag 🇩🇪, thumb 👍🏽": ["🇩🇪", "👍🏽"],
    "He said «Привет, мир» to me": ["Привет, мир"],
    "东京 is 2024年5月": ["东京", "2024年5月"],
    "السلام عليكم, he said": ["السلام عليكم"],
    "Acme™ sells H₂O → us": ["Acme™", "H₂O", "→"],
    "a\x00b and \ue000 and \ud800": ["a\x00b", "\ue000", "\ud800"],
    "the ① and x②y": ["①", "x②y"],
    # what touches a word takes it in
    "an x{name}y here": ["x{name}y"],
    "{a}{b} and {c}/{d}": ["{a}{b}", "{c}", "{d}"],
    "{name}'s dog": ["{name}"],
    "%s{x}": ["%s{x}"],
}
NOTHING = [
    "He said: yes/no?",
    "Tom's dog, and the boys' too",
    "l'homme qu'il aime",
    "etc.",
    "Dr. Smith, e.g., i.e., z.B., d. h., u.s.w., a.m.",
    "a well-known and/or little-known man",
    "Ja! Nein? Doch… – „gut“, »sehr« gut.",
    "Où est-il ? Là-bas : « voilà » !",
    "C'est-à-dire, aujourd'hui, n'est-ce pas ?",
    "Mr. McDonald and Leonardo DiCaprio met O'Brien, MacArthur and FitzGerald.",
    "die StudentInnen, der LehrerIn, Lehrer*innen, Lehrer:innen",
    "GmbH, PhD, NASA, AT&T, R&D; Q&A; TVs",
    "word(s), he/she (s)he, n/a, w/o",
    "the 1980s, his 1st, 2nd and 3rd, the 1,250th at 9pm; die 80er, 3fach; le 1er, 2e, 2ème",
    "Über die Straße, naïve café, Łódź, ţară, ﬁn",
    "a cafe\u0301 and a soft\u00adhyphen",
    "«quoted» ‘this’ “that” — dash – dash",
    "Wait... what?! (really) [sic] *no* _yes_ ~so~",
    "Click <b>here</b>, please.",  # markup is for those who know the format
    "I said that he -- no, she -- left.",
    "one & two; three @ four # five % six $ seven",
    "Note:this and that :yes",
    "She is 'ere; rock 'n' roll",
    "{this is prose} {and so, well",
    "a < b and c > d",
    "\ttabs\nand lines\r\n",
    "black&white; yes",
    "",
]


def kept(text: str) -> list[str]:
    return [text[start:end] for start, end in spans(text)]


@pytest.mark.parametrize("text", KEPT)
def test_what_is_kept(text: str) -> None:
    assert kept(text) == KEPT[text]


@pytest.mark.parametrize("text", NOTHING)
def test_prose_is_left_to_the_model(text: str) -> None:
    assert kept(text) == []


def test_of_prose_only_numbers_are_kept() -> None:
    assert kept("It's 100 % true: in 1999, 3 of 5 said so.") == ["100 %", "1999", "3", "5"]


def test_what_is_fixed_is_kept_too() -> None:
    text = "Say foo bar or 5."
    assert spans(text, [(8, 11), (4, 7)]) == [(4, 7), (8, 11), (15, 16)]
    assert spans(text, [(4, 9)]) == [(4, 11), (15, 16)]  # with all of "bar"
    assert spans(text, [(0, 17), (3, 3)]) == [(0, 17)]


def test_spans_that_touch_are_one() -> None:
    assert widened("ab/cd/ef", [(2, 3), (5, 6)]) == [(0, 8)]
    assert widened("a / b", [(2, 3), (2, 2)]) == [(2, 3)]


def test_a_span_outside_the_text_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="not a span of a text of 3"):
        spans("abc", [(2, 4)])


# any text

ODD = [
    *KEPT,
    *NOTHING,
    *PLACEHOLDERS,
    " ",
    "x",
    "5",
    "{",
    "}",
    "%",
    "`",
    "\u0301",
    "\u200d",
    "\ufe0f",
    "http://",
    "@",
    ".",
]


def any_text() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(ODD) | st.text(st.characters(), max_size=6), max_size=10).map("".join)


@settings(deadline=None, max_examples=300)
@given(any_text(), st.data())
def test_spans_are_in_order_and_touch_nothing(text: str, data: st.DataObject) -> None:
    places = st.integers(0, len(text))
    fixed = [(min(pair), max(pair)) for pair in data.draw(st.lists(st.tuples(places, places), max_size=3))]
    found = spans(text, fixed)
    borders = [0, *(place for span in found for place in span), len(text)]
    assert borders == sorted(borders)
    assert all(start < end for start, end in found)
    assert all(end < start for (_, end), (start, _) in pairwise(found))
    for start, end in found:
        assert not text[start - 1 : start].isalnum()
        assert not text[end : end + 1].isalnum()
    assert all(any(start <= low and high <= end for start, end in found) for low, high in fixed if low < high)
    between = "".join(text[end:start] for end, start in zip(borders[::2], borders[1::2], strict=True))
    assert not set(between) & set(PLACEHOLDERS)


@settings(deadline=None, max_examples=300)
@given(any_text())
@example("①②③④⑤⑥⑦⑧ ① x① ②, ③")
@example("1 a 2 a 3 a 4 a 5 a 6 a 7 a 8 a 9 a 10")
def test_what_was_protected_is_restored(text: str) -> None:
    groups = in_groups(text, spans(text), len(PLACEHOLDERS))
    assert "".join(piece for piece, _ in groups) == text
    for piece, found in groups:
        hidden = protect(piece, found)
        assert all(hidden.text.count(mark) == 1 for mark in hidden.marks)
        assert not any(mark in hidden.text for mark in PLACEHOLDERS if mark not in hidden.marks)
        assert list(hidden.kept) == [piece[start:end] for start, end in found]
        assert restore(hidden, hidden.text) == piece
        assert intact(hidden.kept, piece)
    everything = [text[start:end] for start, end in spans(text)]
    assert intact(everything, text)
    assert intact(everything, " | ".join(reversed(everything)))


@settings(deadline=None, max_examples=300)
@given(any_text(), st.integers(1, 4))
def test_groups_are_the_text(text: str, most: int) -> None:
    found = spans(text)
    groups = in_groups(text, found, most)
    assert "".join(piece for piece, _ in groups) == text
    assert all(len(own) <= most for _, own in groups)
    assert [piece[start:end] for piece, own in groups for start, end in own] == [text[a:b] for a, b in found]


# protect and restore


def test_kept_texts_stand_behind_placeholders() -> None:
    text = "Ask {name} at https://a.org/x, it is 5 km."
    assert spans(text) == [(4, 10), (14, 29), (37, 41)]
    hidden = protect(text, spans(text))
    assert hidden == Protected("Ask ① at ②, it is ③.", ("{name}", "https://a.org/x", "5 km"), ("①", "②", "③"))
    assert restore(hidden, "③ sind es, frag ① unter ②.") == "5 km sind es, frag {name} unter https://a.org/x."


@pytest.mark.parametrize("translated", ["", "①", "① ② ②", "① ① ②", "① ② ③", "1 2", "③ ④"])
def test_a_placeholder_that_is_lost_or_doubled_or_new_is_noticed(translated: str) -> None:
    assert restore(Protected("① ②", ("a", "b"), ("①", "②")), translated) is None


@pytest.mark.parametrize("translated", ["①② Hunde", "② ①er", "x① ②"])
def test_what_was_kept_must_not_run_into_its_neighbours(translated: str) -> None:
    assert restore(Protected("① and ②", ("5", "7"), ("①", "②")), translated) is None


def test_what_touched_before_may_touch_again_and_so_may_what_knows_no_spaces() -> None:
    assert restore(Protected("①② x①", ("5", "7"), ("①", "②")), "①② y") == "57 y"
    assert restore(Protected("See ①.", ("5",), ("①",)), "请看①的书") == "请看5的书"


def test_where_it_stands_then() -> None:
    hidden = Protected("① and ②", ("{name}", "5 km"), ("①", "②"))
    text = restore(hidden, "② und ①!")
    assert text == "5 km und {name}!"
    assert [text[start:end] for start, end in restored_spans(hidden, "② und ①!")] == ["{name}", "5 km"]


def test_what_was_kept_may_be_a_placeholder() -> None:
    text = "② and ① of x③"
    hidden = protect(text, spans(text))
    assert hidden.text == "① and ② of ③"
    assert restore(hidden, "③: ②, ①") == "x③: ①, ②"


def test_nothing_to_keep() -> None:
    hidden = protect("Well.", [])
    assert hidden == Protected("Well.", (), ())
    assert restore(hidden, "Gut.") == "Gut."
    assert restore(hidden, "Gut ①.") is None


@pytest.mark.parametrize("found", [[(0, 1)] * 2, [(4, 5), (0, 1)], [(1, 1)], [(i, i + 1) for i in range(9)]])
def test_spans_that_cannot_be_protected_are_a_mistake(found: list[tuple[int, int]]) -> None:
    with pytest.raises(AssertionError):
        protect("a b c d e f g h i j", found)


def test_a_placeholder_outside_of_the_spans_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="is in no span"):
        protect("a ① b", [(0, 1)])


# intact


@pytest.mark.parametrize(
    ("source_kept", "text", "is_intact"),
    [
        ([], "", True),
        (["5 km"], "es sind 5 km.", True),
        (["5 km"], "es sind 5 Kilometer.", False),
        (["%s", "%s)"], "%s) und %s", True),
        (["%s", "%s)"], "%s)", False),
        (["%s", "%s"], "%s", False),
        (["%s"], "%s %s", True),
        (["5"], "15", False),
        (["5", "7"], "57", False),
        (["5", "15"], "15, 5", True),
        (["5", "15"], "15", False),
        (["aa", "aaa"], "aaaaa", True),
        (["\ue000", "\ue001a"], "\ue001a\ue000", True),
        ([""], "", True),
    ],
)
def test_each_kept_text_is_there_as_often_as_it_was(source_kept: list[str], text: str, is_intact: bool) -> None:
    assert intact(source_kept, text) is is_intact


# groups


def test_a_cut_is_made_where_it_harms_least() -> None:
    def pieces(text: str, most: int) -> list[str]:
        return [piece for piece, _ in in_groups(text, spans(text), most)]

    assert pieces("1 a. B 2 c, d 3 e f 4", 1) == ["1 a. ", "B 2 c, ", "d 3 e f ", "4"]
    assert pieces("1 a 2 a 3 a 4 a 5", 4) == ["1 a 2 a 3 a ", "4 a 5"]  # not four and one
    assert pieces("{a} {b}/{c}/{d}", 3) == ["{a} ", "{b}/{c}/{d}"]
    assert pieces("{a} {b}/{c}/{d}", 2) == ["{a} ", "{b}/{c}/", "{d}"]
    assert pieces("{a}/{b}/{c}", 1) == ["{a}/", "{b}/", "{c}"]
    assert pieces("", 1) == [""]


def test_spans_are_counted_from_the_piece() -> None:
    assert in_groups("1 a 2", [(0, 1), (4, 5)], 1) == [("1 a ", [(0, 1)]), ("2", [(0, 1)])]
    assert in_groups("12", [(0, 1), (1, 2)], 1) == [("1", [(0, 1)]), ("2", [(0, 1)])]


def test_groups_of_nothing_are_a_mistake() -> None:
    with pytest.raises(AssertionError, match="holds nothing"):
        in_groups("1", [(0, 1)], 0)


# hostile texts

HOSTILE = [
    "{",
    "%",
    "<",
    "a@a@a@",
    "5",
    "🙂",
    "http://",
    "<%",
    "{a,plural,",
    "{a,plural,{b{c}",
    "`a``a```a",
    "a.",
    "a/",
]
HOSTILE += ["_", "a_", "aB", "+1 ", "1 ", "1 000 ", "a(", "a.b(", "http://a)", "<a b='", "%(a", "&a", ":a_", "e\u0301"]
HOSTILE += ["\u200d", "①", "x{a}y", "A-1-", "Привет ", "\x00", " ", "[", "\\", "12 34 56 ", "USD ", "%0", "&#1", "../"]
SIZE = 100_000


def hostile(seed: str) -> str:
    return (seed * SIZE)[:SIZE]


def seconds(text: str) -> float:
    """Of the processor, not of the clock: others may be at work."""
    start = time.process_time()
    found = spans(text)
    in_groups(text, found, len(PLACEHOLDERS))
    return time.process_time() - start


@pytest.mark.parametrize("seed", HOSTILE)
def test_no_text_takes_long(seed: str) -> None:
    assert seconds(hostile(seed)) < 1


def test_no_mixture_takes_long() -> None:
    chance = random.Random(1)
    for _ in range(20):
        assert seconds(hostile("".join(chance.choices(HOSTILE, k=chance.randint(2, 5))))) < 1


def test_many_spans_in_one_word_do_not_take_long() -> None:
    start = time.process_time()
    assert widened("a" * SIZE, [(place, place + 1) for place in range(SIZE)]) == [(0, SIZE)]
    assert time.process_time() - start < 1
