"""Text -> sentences, and a sentence that is too long for a model -> pieces which are not. Nothing is lost or changed.

    "Dr. May left. Did she?\\n\\nNo."   ->   "Dr. May left. ", "Did she?\\n\\n", "No."

Each sentence keeps the white space after it, so that joining them gives the text back; white space at the very start
belongs to the first. Text comes in lines: every line feed ends a sentence, and so does a blank line.
Otherwise one ends where all of this is found, in order:

    . ! ? … or several of them     closing quotes and brackets     white space     what can start a sentence

The last is a letter that is not lower case, or a digit, behind opening quotes, brackets and dashes; so "Well... maybe"
goes on. 。！？ end a sentence without white space. What has no letter or digit yet ("... And then") is no sentence.

A single full stop may belong to the word before it. What comes after it then decides, by the kind of that word:

    NEVER      Mr. z. B. M.              no end
    NUMBER     No. Fig. Jan.             no end before a digit
    STARTER    U.S. Inc. J. R. R. Mio.   an end before a word that often starts a sentence: "the U.S. The" yes,
                                         "the U.S. Army" no
    CAPITAL    etc. usw. p.m.            an end before an upper-case letter

Single letters are of kind STARTER, and in German numbers of up to three digits: "am 3. Oktober", "der 2. Weltkrieg".
A number at the start of a sentence counts a list and belongs to what follows: "1. Open the door. ", "2. Go in."
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache

LINE_FEEDS = r"\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""What str.splitlines takes for one."""
BLANK = rf"[^\S{LINE_FEEDS}]"
WIDE = "。！？｡"
MARKS = rf".!?…؟।۔{WIDE}"
CLOSERS = r"""(?:[)\]}»›«‹"'“”‘’*_」』）】〉》]|[ \xa0\u202f][»›](?![^\s,.;:!?)])|\[\d{1,3}\])*+"""
"""Also French " »", but not the German »that opens; and footnotes: "It is so.[3] Then"."""
START = (
    rf"""(?:[¿¡«»‹›„“”‚‘’"'`(\[{{「『（【〈《*_#@$€£‐-―-]{BLANK}?){{0,8}}+"""
    r"(?:[•‣▪◦]|(?P<word>[^\W_]\w{0,20})(?P<next>['’.]?))"
)
BORDER = re.compile(
    # The look behind makes a run of marks be tried once: without it a million dots are tried from each of them.
    # Looking ahead for lower case only saves time, as most full stops of hostile text fail there.
    rf"(?<![{MARKS}])(?P<wide>[{MARKS}]*?[{WIDE}][{MARKS}]*+{CLOSERS}{BLANK}*+)(?![{LINE_FEEDS}])"
    rf"|(?<![{MARKS}])(?P<marks>[{MARKS}]++)(?P<closed>{CLOSERS})(?P<space>{BLANK}++)(?![a-zà-öø-ÿ])(?={START})"
    rf"|(?P<line>[{LINE_FEEDS}]\s*+)"
)
WORD = re.compile(r"[^\W_]")
BEFORE = re.compile(r"""(?P<last>\w+)(?P<letters>(?:\s?\.[^\W\d_])*)(?:\.?$|[\s("„“‘«»\[/–—-])""")
"""Read backwards, "R .R .J", because the start of a pattern is found at once and its end is searched for.
No ' may come before: the t of "don't." is no initial."""
LONGEST_BEFORE = 24
"""Characters before a full stop that are looked at."""
COUNTER = re.compile(r"\s{0,8}[(\[]?\d{1,3}(?:\.\d{1,3}){0,3}")
LONGEST_COUNTER = 16
ROMAN = re.compile(r"[IVX]{1,5}")
NO_BREAK_SPACES = ("\xa0", "\u202f")


class Kind(Enum):
    """What a full stop after a word may mean. See above."""

    NEVER = auto()
    NUMBER = auto()
    STARTER = auto()
    CAPITAL = auto()


ABBREVIATIONS: dict[str, dict[Kind, str]] = {
    "en": {
        Kind.NEVER: "Mr MR Mrs MRS Ms Messrs Dr DR Prof Rev Gen Sen Rep Gov Capt Col Lt Sgt Hon Pres Mt Ft vs e.g i.e "
        "cf viz ca approx a.k.a",
        Kind.NUMBER: "No Nos Vol Fig Figs Sec Ch Art pp Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec",
        Kind.STARTER: "St Ave Rd Blvd Inc Ltd Co Corp Bros Jr Sr al Ph.D",
        Kind.CAPITAL: "etc a.m p.m",
    },
    "de": {
        Kind.NEVER: "z.B z.b d.h u.a m.a.W bzw ca gem evtl ggf vgl sog inkl exkl zzgl Dr Prof Hr Hrn Fr Nr Dipl Ing "
        "Mag Abb Anm Hrsg Tel St",
        Kind.NUMBER: "Abs Art Bd Kap Ziff Aufl Jan Feb Apr Jun Jul Aug Sep Sept Okt Nov Dez",
        Kind.STARTER: "Str Mio Mrd Std Min Jh Jhd v.Chr n.Chr i.d.R o.ä o.Ä u.ä u.Ä",
        Kind.CAPITAL: "usw usf etc u.v.m",
    },
    "fr": {
        Kind.NEVER: "M MM Mme Mmes Mlle Mlles Me Mgr Dr Pr St Ste p.ex cf env av apr",
        Kind.NUMBER: "No chap fig vol art pp tél",
        Kind.STARTER: "hab éd boul",
        Kind.CAPITAL: "etc",
    },
}
"""Language -> kind -> words, without the last full stop and without spaces: "z. B." is found as z.B."""
STARTERS: dict[str, str] = {
    "en": "The This That These Those There Then He She It We They You I His Her Its Our Their My Your But And Or So If "
    "When While What Why How Who Where After Before In On At For From As However Yes No Not One Some Many Most "
    "Do Did Does Is Are Can Could Would Should Please Let",
    "de": "Der Die Das Ein Eine Einer Er Sie Es Wir Ihr Ich Du Man Dann Danach Da Dort Hier Und Aber Oder Doch Denn "
    "Wenn Als Weil Wie Was Wer Wo Warum Dies Diese Dieser Dieses Sein Seine Ihre Mein Meine Im In Am Bei Nach Auch So "
    "Nun Jetzt Heute Ja Nein Nicht Trotzdem Deshalb",
    "fr": "Il Elle Ils Elles On Je Tu Nous Vous Le La Les Des Un Une Ce Cet Cette Ces Cela Ça C' J' Qu' Mais Et Ou "
    "Donc Puis Alors Quand Si Dans En Au Aux Pour Par Son Sa Ses Mon Ma Mes Notre Votre Leur Que Qui Quoi Comment "
    "Pourquoi Oui Non",
}
ORDINALS = frozenset({"de"})
"""Languages that write "3." for "third"."""
WORDS_OF_ONE_LETTER = frozenset({"a", "y"})
"""In French these end sentences ("Il y en a. Paul"), so only upper-case ones and others are initials."""


@dataclass(frozen=True)
class _Habits:
    """How a language, or if it is not known any of them, uses full stops."""

    kinds: dict[str, Kind]
    starters: frozenset[str]
    ordinals: bool
    one_letter: frozenset[str]


def sentences(text: str, language: str | None = None) -> list[str]:
    """`language`: a code such as "de" or "de-AT". If it is not among ABBREVIATIONS, the rules of all of them hold."""
    habits = _habits(re.split("[-_]", (language or "").lower())[0])
    found: list[str] = []
    start, first = 0, -1
    for border in BORDER.finditer(text, len(text) - len(text.lstrip())):
        end = border.end()
        if end == len(text):
            break
        if border["line"] is None:
            if first < start:  # looked for once in each sentence, or a text without letters takes quadratic time
                letter = WORD.search(text, start)
                first = letter.start() if letter else len(text)
            if first > border.start() or not (border["wide"] or _ends(text, start, border, habits)):
                continue
        found.append(text[start:end])
        start = end
    return [*found, text[start:]] if start < len(text) else found


@cache
def _habits(language: str) -> _Habits:
    languages = [language] if language in ABBREVIATIONS else ["fr", "de", "en"]  # the last has the last word
    kinds = [
        (word, kind) for name in languages for kind, words in ABBREVIATIONS[name].items() for word in words.split()
    ]
    return _Habits(
        {spelling: kind for word, kind in kinds for spelling in _spellings(word)},
        frozenset(word for name in languages for word in STARTERS[name].split()),
        not ORDINALS.isdisjoint(languages),
        WORDS_OF_ONE_LETTER if "fr" in languages else frozenset(),
    )


def _spellings(word: str) -> list[str]:
    """As it is, at the start of a sentence, and A.M. for a.m.; but not "no" for "No", which is a word."""
    return [word, word[0].upper() + word[1:], word.upper() if "." in word else word]


def _ends(text: str, start: int, border: re.Match[str], habits: _Habits) -> bool:
    """Whether the sentence from `start` on ends at this border."""
    word = border["word"]
    if word is None:
        return True  # a bullet
    if word[0].islower():
        return False
    if border["marks"] != ".":
        return True
    if border["space"] in NO_BREAK_SPACES:
        return False  # somebody wanted "M. Dupont" to stay together
    if border["closed"].strip(")]}"):
        return True  # nobody quotes a text up to the middle of an abbreviation
    return _full_stop_ends(text, start, border, habits)


def _full_stop_ends(text: str, start: int, border: re.Match[str], habits: _Habits) -> bool:
    """Whether the full stop is more than a part of the word before it."""
    stop = border.start()
    if stop - start < LONGEST_COUNTER and COUNTER.fullmatch(text, start, stop):
        return False
    begin = max(start, stop - LONGEST_BEFORE)
    before = BEFORE.match(text[begin:stop][::-1])
    if before is None or len(before["last"]) == LONGEST_BEFORE:
        return True  # no word, or one that is longer than any abbreviation
    kind = _kind(before["letters"][::-1], before["last"][::-1], border, habits)
    word: str = border["word"]
    if kind is Kind.STARTER:
        return word in habits.starters or f"{word}'" in habits.starters
    if kind is Kind.NUMBER:
        return not word[0].isdecimal()
    if kind is Kind.CAPITAL:
        return word[0].isalpha()
    return kind is None


def _kind(letters: str, last: str, border: re.Match[str], habits: _Habits) -> Kind | None:
    """`letters` J. R. before `last` R in J. R. R. Tolkien."""
    kind = habits.kinds.get("".join(letters.split()) + last) or habits.kinds.get(last)
    if kind:
        return kind
    if len(last) == 1 and last.isalpha():
        if border["next"] == "." and len(border["word"]) == 1:
            return Kind.NEVER
        return Kind.STARTER if letters or last not in habits.one_letter else None
    if habits.ordinals and ((last.isdecimal() and len(last) <= 3) or ROMAN.fullmatch(last)):
        return Kind.STARTER
    return habits.kinds.get("Str") if last.endswith("str") else None  # Hauptstr. 5


CLAUSE = re.compile(rf"(?<![;:,–—!?…])[;:,–—!?…]++{CLOSERS}\s++|[，、；：]++\s*+")
CONJUNCTION = re.compile(
    r"\S\s++(?=(?:and|or|but|because|that|which|who|when|while|if|although|und|oder|aber|weil|dass|daß|wenn|denn|sondern"
    r"|sowie|während|obwohl|et|ou|mais|que|qui|parce|car|donc|quand|lorsque|puisque|afin)\s)"
)
SPACE = re.compile(r"\S\s++")
JOINER = "\u200d"
FIRST_GUESS = 256
"""Characters: what fits is looked for from here, and then from what fitted before."""
CLOSE_ENOUGH = 64
"""How much fits is found out to one part in so many: each further halving would look at the whole piece again."""
LONGEST_SEQUENCE = 32
"""Characters that may be one on the screen: a family of emoji takes 11."""


def pieces_that_fit(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Cut where it hurts least: after ; : , –, else before a conjunction, else at white space, else anywhere.

    `fits` should hold for every part of what it holds for. A character that does not fit is a piece all the same.
    Pieces are of about one size: what is one word too long becomes two halves rather than a whole and a word.
    For the sake of a better border a piece may be as short as half of what fits, and so one piece more may be needed.
    """
    if not text or fits(text):
        return [text] if text else []
    found: list[str] = []
    at, size = 0, FIRST_GUESS
    while at < len(text):
        size = _longest(text, at, size, fits)
        end = at + size if at + size == len(text) else _cut(text, at, size)
        if end < at + size and not fits(text[at:end]):
            end = at + size  # a tokenizer may need more pieces for less text
        found.append(text[at:end])
        at = end
    return found


def _longest(text: str, at: int, guess: int, fits: Callable[[str], bool]) -> int:
    """How many characters from `at` on fit, but at least 1: in growing steps away from the guess, then by halves."""
    most = len(text) - at
    good, bad, step = 0, most + 1, 1
    probe = min(guess, most)
    while good < probe < bad and (bad > most or bad - good > good // CLOSE_ENOUGH):
        if fits(text[at : at + probe]):
            good = probe
        else:
            bad = probe
        away = probe + step if good == probe else probe - step
        crossed = good > 0 and bad <= most
        probe = (good + bad) // 2 if crossed else min(max(away, 1), most)
        step *= 2
    return max(good, 1)


def _cut(text: str, at: int, size: int) -> int:
    """The best place to end a piece that starts at `at` and has up to `size` characters, which are not all."""
    rest, end = len(text) - at, at + size
    pieces = -(-rest // size)
    ideal = at - (-rest // pieces)
    fewest = max(at, len(text) - (pieces - 1) * size)  # a cut before this surely takes one piece more
    for border, begin in ((CLAUSE, at + size // 2), (CONJUNCTION, at + size // 2), (SPACE, fewest)):
        places = [match.end() for match in border.finditer(text, at, end)]
        if good := [place for place in places if place >= begin]:
            return min(good, key=lambda place: (abs(place - ideal), -place))
    if places:
        return places[-1]
    for place in range(ideal, max(at, ideal - LONGEST_SEQUENCE), -1):
        if not _joined(text[place - 1], text[place]):
            return place
    return ideal


def _joined(left: str, right: str) -> bool:
    """Whether these are parts of one character, as it is seen."""
    if JOINER in (left, right) or "\U0001f3fb" <= right <= "\U0001f3ff":  # colours of skin
        return True
    surrogates = "\ud800" <= left <= "\udbff" and "\udc00" <= right <= "\udfff"
    return surrogates or unicodedata.category(right).startswith("M") or (left == "\r" and right == "\n")
