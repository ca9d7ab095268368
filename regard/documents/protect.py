"""Protected spans: texts that must survive a translation unchanged are replaced by placeholders, and put back.

    "Ask {name} at https://a.org/x, it is 5 km."    spans: (4, 10), (14, 29), (37, 41)
 -> "Ask ① at ②, it is ③."                          protect; kept: "{name}", "https://a.org/x", "5 km"
 -> "Frag ① unter ②, es sind ③."                    the model
 -> "Frag {name} unter https://a.org/x, es sind 5 km."    restore

A placeholder must be a word of its own, so a span takes in the letters and digits that it touches: all of "x{name}y" is
kept. `spans` does this, since it may merge spans; `protect` uses spans unchanged. A text with more spans than there are
placeholders is split by `in_groups` first.

There is one pattern, and its time is linear in the text, whatever the text is. Whatever may be long is either bounded
or cannot be entered twice (a look-behind for its own characters, or a class without its opening character), and
nothing matched is given back (*+, ++, {1,9}+).
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.entities import html5

from regard.documents.passage import Span
from regard.text.placeholders import PLACEHOLDERS
from regard.text.word_ids import UNSPACED

ZERO_WIDTH_JOINER = "\u200d"
KNOWN = (  # Latin in all its blocks, and punctuation; without controls and what turns the direction of writing
    r"\t\n\r -~\xa0-\u036f\u1e00-\u1eff\u2000-\u200c\u2010-\u2029\u202f-\u205f"
    r"\u2c60-\u2c7f\ua720-\ua7ff\uab30-\uab69\ufb00-\ufb06"
)
GAP = r"[ \xa0\u202f]"
"""Spaces that may be inside a number, or before its unit."""
CURRENCY = r"[$€£¥₹₽₩₺₴¢]"
MONEY = r"(?:USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|NOK|DKK|PLN|CZK)"
UNIT = (  # none that is also a word: "in 2005 a", "5 bar stools"
    r"(?:(?:[kcmµnd]?m|[kmµ]?g|[mcdh]?l|[mµn]?s|min|h|k?t|[kMGT]?Hz|[kMG]?Wh?|[km]?V|mA|[kM]?J|kcal|[hkM]?Pa|dB|px|pt"
    r"|rem|[kKMGT]i?B|[kMG]bit|ft|lbs?|oz|mph)[²³]?(?:/(?:s|h|min|m|l|kg)[²³]?)?|°[CF])"
)
ENDINGS = (  # of domains and files; none that is also a word, for "it was fun.it was" lacks but a space
    "com|org|net|edu|gov|info|biz|io|dev|app|ai|de|fr|uk|eu|ch|nl|es|pl|ca|au|jp|cn|br|"
    "pyi?|jsx?|tsx?|json|ya?ml|toml|ini|cfg|conf|xml|html?|s?css|md|rst|txt|csv|tsv|log|sql|sh|bat|exe|dll|jar|java|rb|"
    "php|rs|cpp|hpp|pdf|docx?|xlsx?|pptx?|odt|png|jpe?g|gif|svg|webp|mp[34]|wav|avi|mkv|zip|tar|gz|bz2|xz|7z|iso"
)
I18N_NAMES = "name|count|attribute|values?|min|max|other|date|size|user|username|email|seconds|minutes|number|total"
FOLDERS = "usr|etc|home|var|tmp|opt|bin|dev|proc|mnt|root|lib|srv|api"
IN_LINK = r"""[^\s<>"“”„«»…—`]"""
IN_PATH = r"[\w.+@~-]"
LABEL = r"[A-Za-z0-9-]{1,63}+\."
"""A part of a domain, with its dot. It cannot be taken in two ways, so (LABEL){1,8} is tried at most 8 times."""
SEPARATED = rf"(?:\d{{1,3}}(?:{GAP}\d{{3}}(?!\d))++|\d++)(?:[.,:/'’–-]\d++)*+"
"""1 000 000  1.000,50  12:30  2024-05-01  1/2  10–20  192.168.0.1"""
ORDINAL = r"(?:st|nd|rd|th|(?<=0)s|er[ns]?|res?|es?|i?[eè]mes?|[eè]res?|ndes?|s?te[mnrs]?|fach|mal|[ap]m)"
"""1st, 1980s, 80er, 2ème, 9pm: words that other languages spell differently. They are left to the model."""

ENTRANCES = {  # how all patterns of a kind begin. Most characters begin none: twice as fast, measured on news
    "quoted": "(?=`)",
    "template": "(?=[{<$#%@&])",
    "entity": "(?=&)",
    "link": r"(?<!\w)(?=[\w~./\\])",
    "name": r"(?<!\w)(?=[\w.+-])",
    "identifier": r"(?<!\w)(?=\w)",
    "word": r"(?<!\w)(?=\w)",
    "camel": r"(?<!\w)(?=\w)",
    "format": "(?=[%$:@#])",
    "number": rf"(?=[\d+±A-Z¼½¾-]|{CURRENCY})",
    "foreign": "",
}
KINDS = {  # the first match wins, so a longer pattern comes before its parts
    "quoted": (r"(?<!`)`(?!`)[^`\n]++`(?!`)", r"(?<!`)``(?!`)(?:[^`\n]++|`(?!`))++``(?!`)"),
    "template": (
        r"\{{2,3}[^{}\n]*+\}{2,3}",
        r"\{%[^{}%\n]*+(?:%(?!\})[^{}%\n]*+)*+%\}",
        r"<%[^<%]*+(?:%(?!>)[^<%]*+)*+%>",
        r"[$#%@]\{[^{}\n]*+\}",
        r"\{ ?[\w.\[\]-]*+(?:![rsa])?(?::[^{}\n]*+)? ?\}",  # {name} {0} {user.name!r:>10} {}
        r"\{\s*+\w++\s*+,[^{}\n]*+\}",  # ICU: {0, number, #.##}
        # ICU's plurals, whole: half of one is worse than none
        r"\{\s*+\w++\s*+,\s*+(?:plural|select|selectordinal)\s*+,"
        r"(?:[^{}]|\{(?:[^{}]|\{[^{}]*+\})*+\}){0,400}+\}",
        r"&#(?:\d{1,7}|[xX][0-9A-Fa-f]{1,6});",
    ),
    "entity": (r"&[A-Za-z][A-Za-z0-9]{1,31}+;",),
    "link": (
        rf"(?<![\w+.-])[A-Za-z][A-Za-z0-9+.-]{{1,15}}+://{IN_LINK}++",
        rf"(?<![\w.-])(?:[Ww]{{3}}\.|(?:mailto|tel):(?=[\w+]))(?=[^\W_]|\+){IN_LINK}++",
        rf"(?<![\w.@/-])(?:{LABEL}){{1,8}}[a-z]{{2,24}}(?::\d{{1,5}})?/{IN_LINK}*+",
        rf"(?<![\w./~)])(?:~|\.\.?)/{IN_PATH}(?:{IN_PATH}|/)*+",
        rf"(?<![\w./~)])/(?:(?:{FOLDERS})(?![\w-])|{IN_PATH}++/{IN_PATH})(?:{IN_PATH}|/)*+",
        r"""(?<!\w)[A-Za-z]:[\\/][^\s<>"|?*:]++""",
        r"""(?<![\w\\])\\\\[\w.-]++\\[^\s<>"|?*:]++""",
    ),
    "name": (
        rf"(?<![\w.+-])[\w.+-]{{1,64}}+@(?:{LABEL}){{1,8}}[A-Za-z]{{2,24}}(?!\w)",
        rf"(?<![\w./@-])(?:[\w.-]{{1,64}}+/){{0,20}}(?:[\w-]{{1,64}}+\.){{1,8}}(?:{ENDINGS})(?![\w-])",
        r"(?<!\w)[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?!\w)",
        r"(?<![\w-])[A-Z]{1,6}-\d++(?:-\d++)*+[A-Za-z]?(?!\w)",  # UTF-8, COVID-19, ISO-8859-1
    ),
    "identifier": (
        r"(?<![\w.])[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)++\([^()\n]{0,200}+\)",  # os.path.join(a, b)
        r"(?<![\w.])[A-Za-z_]\w*+\(\)",  # but not "word(s)"
        r"(?<![\w.])[A-Za-z_]\w++(?:\.[A-Za-z_]\w++){2,}+",
        r"(?<![\w:])[A-Za-z_]\w*+(?:::\w++)++",
        r"(?<!\w)_*+[^\W_]++(?:_++[^\W_]++)++_*+",
        r"(?<!\w)__[^\W_]++__(?!\w)",
    ),
    "word": (  # not to be protected: it only looks so
        rf"(?<![\w.,:/-])\d++(?:[/.,:–-]\d++)*+{ORDINAL}(?!\w)",
        r"(?<!\w)(?:Ma?c|D[aei]|L[ae]|V[ao]n|Fitz|St|O)[A-Z][a-z]++(?!\w)",  # McDonald, DiCaprio
        r"(?<!\w)[A-ZÄÖÜ][a-zäöüß]++In(?:nen)?(?!\w)",  # StudentInnen
    ),
    # camelCase, iPhone, JavaScript; a short one with a capital first is an abbreviation: GmbH, PhD
    "camel": (r"(?<!\w)(?=[a-z]|\w{5})(?=[A-Za-z0-9]*?[a-z][A-Z])[A-Za-z0-9]++(?!\w)",),
    "format": (
        r"%%",
        r"%[A-Z_]{2,64}+%",
        r"%[A-Za-z](?:[-/:.]%[A-Za-z])++(?![A-Za-z]{2})",  # %d/%d, %Y-%m-%d
        # printf and strftime. No space as a flag, and no word after it: "100 % discount", "100 %ige"
        r"(?<!\d)%(?:\(\w{1,64}+\)|<\w{1,64}+>|\d{1,2}\$)?[-+#0']*+(?:\*|\d{1,4})?(?:\.(?:\*|\d{1,3}))?"
        rf"(?:hh?|ll?|[Lqjzt])?(?:[A-Za-z@](?![A-Za-z]{{2}})|[dsuif](?={UNIT}(?!\w)))",
        r"(?<!\d)(?<!\d[ \xa0])%(?:\d{1,2}\$)?[ds](?=[A-Za-z])",  # %dth, %sfoo
        r"(?<=\d)%[ds](?!\w)",  # 100%s
        r"%L?\d{1,2}(?![\w$])",  # Qt
        r"(?<!\w)\$[A-Za-z_]\w*+(?:->\w++)*+",
        # Rails, Laravel: only with an underscore or a name that is usual, for ":yes" may lack but a space
        rf"""(?<![^\s"'(«„“]):(?:[a-z]++(?:_[a-z]++)++|{I18N_NAMES})(?![\w:])""",
        r"(?<![\w:]):(?:[a-z][a-z0-9_+-]{1,40}+|\+1|-1):(?![\w:])",  # :smile:
        r"(?<![\w@./])@[A-Za-z_]\w*+(?:[./-]\w++)*+",
        r"(?<![\w&#/])#[^\W_]\w*+",
    ),
    "number": (
        rf"(?<![\w+])\+\d{{1,3}}(?:{GAP}?[./()-]?{GAP}?[()]?\d++)++",  # +49 30 123456
        r"\d{2,6}+(?: \d{2,6}+){2,}+(?!\d)",  # 3704 0044 0532 0130
        rf"\d{{1,2}}{GAP}h{GAP}\d\d(?!\w)",  # 14 h 30
        r"\d++(?:\.\d++)++-(?:alpha|beta|rc|dev|pre|post|SNAPSHOT)(?:\.?\d++)?",
        rf"(?:(?<!\w)(?:US|CA|AU|[ACR])?{CURRENCY}{GAP}?|(?<!\w){MONEY}{GAP})?(?:(?<![\w)\].])[+±-])?{SEPARATED}"
        rf"(?:{GAP}?(?:(?:{UNIT}|{MONEY})(?!['’\w])|[%‰°](?!\w)|{CURRENCY}(?!\w)))?",
        r"[¼½¾]",
    ),
    # Several words of it are one span, for a placeholder each would be too many: "Привет, мир"
    "foreign": (rf"[^{KNOWN}]++(?:[ ,.;:!?'’()–-]{{1,3}}+[^{KNOWN}]++)*+",),
}
PATTERN = re.compile("|".join(f"(?P<{kind}>{ENTRANCES[kind]}(?:{'|'.join(KINDS[kind])}))" for kind in KINDS))
CLOSING = frozenset(".,;:!?'’*_…")
BRACKETS = {")": "(", "]": "[", "}": "{"}

ANY_PLACEHOLDER = re.compile(f"[{PLACEHOLDERS}]")
SPLIT_POINTS = tuple(re.compile(pattern) for pattern in (r"[.!?…]['\"’”»)]*+\s++", r"[,;:]\s++", r"\s++"))
"""Where to split a text, the best first: between sentences, between clauses, between words."""


@dataclass(frozen=True, slots=True)
class Protected:
    """A text with placeholders, and what they stand for."""

    text: str
    kept: tuple[str, ...]
    """What replaces each placeholder, in the order of the source."""
    marks: tuple[str, ...]
    """The placeholder of each."""


def spans(text: str, fixed: Sequence[Span] = ()) -> list[Span]:
    """All spans to protect, the `fixed` ones included: in order, touching neither each other nor a word."""
    return widened(text, [*fixed, *_found(text)])


def widened(text: str, spans: Sequence[Span]) -> list[Span]:
    """The spans with the letters and digits that they touch; spans that then touch each other are merged."""
    whole: list[Span] = []
    for start, end in sorted(spans):
        assert 0 <= start <= end <= len(text), f"({start}, {end}) is not a span of a text of {len(text)} characters"
        done = whole[-1][1] if whole else 0
        if start == end or end <= done:  # widening a covered span would read a long word again and again
            continue
        while start > done and (_is_extension(text[start]) or _is_in_word(text[start - 1])):
            start -= 1
        while end < len(text) and _is_in_word(text[end]):
            end += 1
        if whole and start <= done:
            whole[-1] = (whole[-1][0], end)
        else:
            whole.append((start, end))
    return whole


def protect(text: str, spans: Sequence[Span]) -> Protected:
    """The text with a placeholder for each span. Spans are in order, and hold every placeholder of the text itself."""
    assert len(spans) <= len(PLACEHOLDERS), f"{len(spans)} spans, but {len(PLACEHOLDERS)} placeholders"
    marks = tuple(PLACEHOLDERS[: len(spans)])
    pieces: list[str] = []
    done = 0
    for (start, end), mark in zip(spans, marks, strict=True):
        assert done <= start < end <= len(text), f"({start}, {end}) is empty or out of order"
        pieces += text[done:start], mark
        done = end
    pieces.append(text[done:])
    assert not any(map(ANY_PLACEHOLDER.search, pieces[::2])), "a placeholder of the text itself is in no span"
    return Protected("".join(pieces), tuple(text[start:end] for start, end in spans), marks)


def restore(protected: Protected, translated: str) -> str | None:
    """The translation with its placeholders replaced; None unless it has each of them once, and no other.

    Also None if one touches a word or another placeholder that it did not touch before: 5 and 7 must not become 57.
    """
    if sorted(ANY_PLACEHOLDER.findall(translated)) != sorted(protected.marks):
        return None
    if _touching(translated) - _touching(protected.text):
        return None
    kept = dict(zip(protected.marks, protected.kept, strict=True))
    return ANY_PLACEHOLDER.sub(lambda mark: kept[mark[0]], translated)  # in one pass: kept texts may have placeholders


def restored_spans(protected: Protected, translated: str) -> tuple[Span, ...]:
    """The span of each kept text in the restored translation."""
    kept = dict(zip(protected.marks, protected.kept, strict=True))
    found: dict[str, Span] = {}
    grown = 0
    for mark in ANY_PLACEHOLDER.finditer(translated):
        start = mark.start() + grown
        found[mark[0]] = start, start + len(kept[mark[0]])
        grown += len(kept[mark[0]]) - 1
    return tuple(found[mark] for mark in protected.marks)


def _touching(text: str) -> set[tuple[str, int]]:
    """Placeholders that touch a letter, a digit or another placeholder before (-1) or after (1) them."""
    return {
        (mark[0], side)
        for mark in ANY_PLACEHOLDER.finditer(text)
        for side in (-1, 1)
        if 0 <= mark.start() + side < len(text)
        and _is_in_word(beside := text[mark.start() + side])
        and not UNSPACED.match(beside)
    }


def in_groups(text: str, spans: Sequence[Span], most: int) -> list[tuple[str, list[Span]]]:
    """Pieces of the text with at most `most` spans each, and their spans, counted from the piece's first character.

    Joined, the pieces are the text. All have about equally many spans. A piece ends after white space if there is any
    between its spans, and never inside a span.
    """
    assert most > 0, "a group of no spans holds nothing"
    share = -(-len(spans) // max(1, -(-len(spans) // most)))
    groups: list[tuple[str, list[Span]]] = []
    begin = first = 0
    while len(spans) - first > most:
        cut, last = _cut(text, spans, first, share)
        groups.append((text[begin:cut], [(start - begin, end - begin) for start, end in spans[first:last]]))
        begin, first = cut, last
    groups.append((text[begin:], [(start - begin, end - begin) for start, end in spans[first:]]))
    return groups


def _cut(text: str, spans: Sequence[Span], first: int, most: int) -> tuple[int, int]:
    """Where to split, and the index of the span after it: as late as `most` allows, if there is white space."""
    for last in range(first + most, first, -1):
        between = text[spans[last - 1][1] : spans[last][0]]
        for pattern in SPLIT_POINTS:
            ends = [found.end() for found in pattern.finditer(between)]
            if ends:
                return spans[last - 1][1] + ends[-1], last
    return spans[first + most][0], first + most


def _found(text: str) -> Iterator[Span]:
    for found in PATTERN.finditer(text):
        start, end = found.span()
        if found.lastgroup == "word" or (found.lastgroup == "entity" and found[0][1:] not in html5):
            continue
        yield start, _without_closing(text, start, end) if found.lastgroup == "link" else end


def _without_closing(text: str, start: int, end: int) -> int:
    """Where a link ends without the punctuation of its sentence and the closing bracket of one opened before it."""
    surplus = {close: text.count(close, start, end) - text.count(open, start, end) for close, open in BRACKETS.items()}
    while end > start + 1:
        last = text[end - 1]
        if surplus.get(last, 0) > 0:
            surplus[last] -= 1
        elif last not in CLOSING:
            break
        end -= 1
    return end


def _is_in_word(character: str) -> bool:
    return character.isalnum() or character == "_" or _is_extension(character)


def _is_extension(character: str) -> bool:
    """Whether it belongs to the character before it: an accent, a variation selector, an emoji joiner."""
    return unicodedata.category(character)[0] == "M" or character == ZERO_WIDTH_JOINER
