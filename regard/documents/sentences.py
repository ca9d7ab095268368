"""Splits text into sentences, and sentences too long for a model into pieces. Nothing is lost or changed.

    "Dr. May left. Did she?\\n\\nNo."   ->   "Dr. May left. ", "Did she?\\n\\n", "No."

Each sentence keeps the white space after it, so that joining them gives the text back; white space at the very start
belongs to the first. Every line feed ends a sentence. Otherwise a sentence ends where all of this follows, in order:

    . ! ? … or several of them     closing quotes and brackets     white space     what can start a sentence

The last is an upper-case letter (or one without case) or a digit, after opening quotes, brackets and dashes; so
"Well... maybe" continues. 。！？ end a sentence without white space. Punctuation alone ("... And then") is not a
sentence.

A single full stop may belong to the word before it. Then the next word decides, by the kind of the word before:

    NEVER      Mr. z. B. M.              no end
    NUMBER     No. Fig. Jan.             no end before a digit
    STARTER    U.S. Inc. J. R. R. Mio.   an end before a word that often starts a sentence: "the U.S. The" yes,
                                         "the U.S. Army" no
    CAPITAL    etc. usw. p.m.            an end before an upper-case letter

Single letters are of kind STARTER, and in German numbers of up to three digits: "am 3. Oktober", "der 2. Weltkrieg".
A number at the start of a sentence numbers a list item and belongs to it: "1. Open the door. ", "2. Go in."
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache

LINE_FEEDS = r"\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""The line boundaries of str.splitlines."""
BLANK = rf"[^\S{LINE_FEEDS}]"
WIDE = "。！？｡"
MARKS = rf".!?…؟।۔{WIDE}"
CLOSERS = r"""(?:[)\]}»›«‹"'“”‘’*_」』）】〉》]|[ \xa0\u202f][»›](?![^\s,.;:!?)])|\[\d{1,3}\])*+"""
"""Also French " »", but not a German » that opens; and footnotes: "It is so.[3] Then"."""
START = (
    rf"""(?:[¿¡«»‹›„“”‚‘’"'`(\[{{「『（【〈《*_#@$€£‐-―-]{BLANK}?){{0,8}}+"""
    r"(?:[•‣▪◦]|(?P<word>[^\W_]\w{0,20})(?P<next>['’.]?))"
)
BORDER = re.compile(
    # The look-behind tries a run of marks once; without it, a million dots are tried from each of them.
    # The look-ahead for lower case only saves time: most full stops of hostile text fail there.
    rf"(?<![{MARKS}])(?P<wide>[{MARKS}]*?[{WIDE}][{MARKS}]*+{CLOSERS}{BLANK}*+)(?![{LINE_FEEDS}])"
    rf"|(?<![{MARKS}])(?P<marks>[{MARKS}]++)(?P<closed>{CLOSERS})(?P<space>{BLANK}++)(?![a-zà-öø-ÿ])(?={START})"
    rf"|(?P<line>[{LINE_FEEDS}]\s*+)"
)
WORD = re.compile(r"[^\W_]")
BEFORE = re.compile(r"""(?P<last>\w+)(?P<letters>(?:\s?\.[^\W\d_])*)(?:\.?$|[\s("„“‘«»\[/–—-])""")
"""Matched against the reversed text, "R .R .J": a pattern's start is anchored, its end would be searched for.
No ' may come before: the t of "don't." is not an initial."""
MAX_BEFORE = 24
"""Only this many characters before a full stop are read."""
COUNTER = re.compile(r"\s{0,8}[(\[]?\d{1,3}(?:\.\d{1,3}){0,3}")
MAX_COUNTER = 16
ROMAN = re.compile(r"[IVX]{1,5}")
NO_BREAK_SPACES = ("\xa0", "\u202f")


class Kind(Enum):
    """What a full stop after a word may mean, as listed above."""

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
"""In French these end sentences ("Il y en a. Paul"), so they are initials only in upper case."""


@dataclass(frozen=True)
class _Rules:
    """How a language uses full stops; an unknown language is taken for any of them."""

    kinds: dict[str, Kind]
    starters: frozenset[str]
    ordinals: bool
    one_letter: frozenset[str]


def sentences(text: str, language: str | None = None) -> list[str]:
    """Split a text. `language` is a code such as "de" or "de-AT"; for others, the rules of all known ones hold."""
    rules = _rules_of(re.split("[-_]", (language or "").lower())[0])
    found: list[str] = []
    start, first = 0, -1
    for border in BORDER.finditer(text, len(text) - len(text.lstrip())):
        end = border.end()
        if end == len(text):
            break
        if border["line"] is None:
            if first < start:  # searched once per sentence, or a text without letters takes quadratic time
                letter = WORD.search(text, start)
                first = letter.start() if letter else len(text)
            if first > border.start() or not (border["wide"] or _ends(text, start, border, rules)):
                continue
        found.append(text[start:end])
        start = end
    return [*found, text[start:]] if start < len(text) else found


@cache
def _rules_of(language: str) -> _Rules:
    languages = [language] if language in ABBREVIATIONS else ["fr", "de", "en"]  # the last takes precedence
    kinds = [
        (word, kind) for name in languages for kind, words in ABBREVIATIONS[name].items() for word in words.split()
    ]
    return _Rules(
        {spelling: kind for word, kind in kinds for spelling in _spellings(word)},
        frozenset(word for name in languages for word in STARTERS[name].split()),
        not ORDINALS.isdisjoint(languages),
        WORDS_OF_ONE_LETTER if "fr" in languages else frozenset(),
    )


def _spellings(word: str) -> list[str]:
    """As written, with a capital, and A.M. for a.m.; but not "no" for "No", which is a word."""
    return [word, word[0].upper() + word[1:], word.upper() if "." in word else word]


def _ends(text: str, start: int, border: re.Match[str], rules: _Rules) -> bool:
    """Whether the sentence from `start` on ends at this border."""
    word = border["word"]
    if word is None:
        return True  # a bullet
    if word[0].islower():
        return False
    if border["marks"] != ".":
        return True
    if border["space"] in NO_BREAK_SPACES:
        return False  # the author wants "M. Dupont" to stay together
    if border["closed"].strip(")]}"):
        return True  # no quotation ends within an abbreviation
    return _full_stop_ends(text, start, border, rules)


def _full_stop_ends(text: str, start: int, border: re.Match[str], rules: _Rules) -> bool:
    """Whether the full stop ends the sentence, and not only the word before it."""
    stop = border.start()
    if stop - start < MAX_COUNTER and COUNTER.fullmatch(text, start, stop):
        return False
    begin = max(start, stop - MAX_BEFORE)
    before = BEFORE.match(text[begin:stop][::-1])
    if before is None or len(before["last"]) == MAX_BEFORE:
        return True  # no word, or one longer than any abbreviation
    kind = _kind(before["letters"][::-1], before["last"][::-1], border, rules)
    word: str = border["word"]
    if kind is Kind.STARTER:
        return word in rules.starters or f"{word}'" in rules.starters
    if kind is Kind.NUMBER:
        return not word[0].isdecimal()
    if kind is Kind.CAPITAL:
        return word[0].isalpha()
    return kind is None


def _kind(letters: str, last: str, border: re.Match[str], rules: _Rules) -> Kind | None:
    """The kind of the word before a full stop: in J. R. R. Tolkien, `letters` is "J. R." and `last` is "R"."""
    kind = rules.kinds.get("".join(letters.split()) + last) or rules.kinds.get(last)
    if kind:
        return kind
    if len(last) == 1 and last.isalpha():
        if border["next"] == "." and len(border["word"]) == 1:
            return Kind.NEVER
        return Kind.STARTER if letters or last not in rules.one_letter else None
    if rules.ordinals and ((last.isdecimal() and len(last) <= 3) or ROMAN.fullmatch(last)):
        return Kind.STARTER
    return rules.kinds.get("Str") if last.endswith("str") else None  # Hauptstr. 5


CLAUSE = re.compile(rf"(?<![;:,–—!?…])[;:,–—!?…]++{CLOSERS}\s++|[，、；：]++\s*+")
CONJUNCTION = re.compile(
    r"\S\s++(?=(?:and|or|but|because|that|which|who|when|while|if|although|und|oder|aber|weil|dass|daß|wenn|denn|sondern"
    r"|sowie|während|obwohl|et|ou|mais|que|qui|parce|car|donc|quand|lorsque|puisque|afin)\s)"
)
SPACE = re.compile(r"\S\s++")
JOINER = "\u200d"
FIRST_GUESS = 256
"""Characters of a piece from which the search for its size starts; later pieces start from the size before."""
SIZE_PRECISION = 64
"""The size that fits is found to within 1/64: each further bisection would tokenize the whole piece again."""
MAX_GRAPHEME = 32
"""Code points that may be one character on the screen: a family emoji has 11."""


def pieces_that_fit(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Split at the best border: after ; : , –, else before a conjunction, else at white space, else anywhere.

    If `fits` holds for a text, it should hold for its parts. A single character is a piece even if it does not fit.
    Pieces have about the same size: a text one word too long becomes two halves, not one full piece and a word. For a
    better border a piece may be as short as half of what fits, so one more piece may be needed.
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
    """How many characters from `at` on fit, at least 1: in growing steps from the guess, then by bisection."""
    most = len(text) - at
    good, bad, step = 0, most + 1, 1
    probe = min(guess, most)
    while good < probe < bad and (bad > most or bad - good > good // SIZE_PRECISION):
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
    """The best end of a piece that starts at `at` and has at most `size` characters, fewer than are left."""
    rest, end = len(text) - at, at + size
    pieces = -(-rest // size)
    ideal = at - (-rest // pieces)
    fewest = max(at, len(text) - (pieces - 1) * size)  # an earlier cut surely needs one piece more
    for border, begin in ((CLAUSE, at + size // 2), (CONJUNCTION, at + size // 2), (SPACE, fewest)):
        cuts = [match.end() for match in border.finditer(text, at, end)]
        if good := [cut for cut in cuts if cut >= begin]:
            return min(good, key=lambda cut: (abs(cut - ideal), -cut))
    if cuts:
        return cuts[-1]
    for cut in range(ideal, max(at, ideal - MAX_GRAPHEME), -1):
        if not _is_one_character(text[cut - 1], text[cut]):
            return cut
    return ideal


def _is_one_character(left: str, right: str) -> bool:
    """Whether these are parts of one character on the screen."""
    if JOINER in (left, right) or "\U0001f3fb" <= right <= "\U0001f3ff":  # skin tones
        return True
    surrogates = "\ud800" <= left <= "\udbff" and "\udc00" <= right <= "\udfff"
    return surrogates or unicodedata.category(right).startswith("M") or (left == "\r" and right == "\n")
