"""Terms that a user wants kept to, and where they are in a text.

    # source    target      flags              a file: columns with a tab between them
    light bulb  Glühbirne                 ->   find("The light  bulb of ACME.")
    ACME                                       (4, 15, light bulb), (19, 23, ACME)

A term without a target is not to be translated. Terms are whole words: no letter, digit or underscore stands directly
before or after. They are not inflected here, so "bulb" is not in "bulbs"; give the plural a line of its own. It is in
"bulb's", where an apostrophe ends the word.

A term in lower case matches in any case. One with a capital, or with the flag `case`, matches as it is written; if it
is in lower case, also with a capital at the start of a sentence. ’ is ', and any white space is a space.

Terms and texts are cut into words and signs, and the terms are kept in a trie of those. So the time depends on the
text, not on how many terms there are.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regard.errors import InputError

PART = re.compile(r"[\w\u0300-\u036f]+|[^\w\s]")
"""A word, with accents that are characters of their own, or a sign. White space only separates."""
SAME = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "\u2010": "-", "\u2011": "-"})
OPENING = " \t\n\r\xa0\u202f\"'“”„«»‘’‚‹›([{*_¿¡-–—"
"""What may stand between the end of a sentence and the first word of the next."""
SENTENCE_ENDS = ".!?…"
LOOK_BACK = 10
"""How many characters before a word decide whether it begins a sentence."""
MOST_PARTS = 32
"""Of a term. Each place of a text is compared with so many words, no more, however odd text and terms are."""
FLAGS = ("inflect", "case")


@dataclass(frozen=True)
class Term:
    """What a word, or several, must become."""

    source: str
    target: str
    """As the source, where it is not to be translated."""
    inflect: bool = False
    """The model may give the target another ending."""
    exact_case: bool = False
    """Matches as it is written, though it is in lower case."""

    @property
    def any_case(self) -> bool:
        return not self.exact_case and self.source == self.source.lower()


@dataclass
class _Node:
    """A place in the trie: what may come next, and the term that ends here."""

    following: dict[str, "_Node"] = field(default_factory=dict)
    term: Term | None = None


@dataclass(frozen=True)
class _Part:
    """A word or sign of a text."""

    start: int
    end: int
    key: str
    """With a space in front, if it stands apart from the part before."""


class Glossary:
    """Terms, ready to be found. No two may have the same source, unless they differ in how case matters."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self.terms = tuple(terms)
        self._exact, self._any_case, self._at_sentence_start = _Node(), _Node(), _Node()
        for term in self.terms:
            keys = _keys(_parts(term.source), term.any_case)
            assert 0 < len(keys) <= MOST_PARTS, f"a term has 1 to {MOST_PARTS} words and signs, not {len(keys)}"
            _add(self._any_case if term.any_case else self._exact, keys, term)
            if term.exact_case and term.source == term.source.lower():
                _add(self._at_sentence_start, [keys[0][0].upper() + keys[0][1:], *keys[1:]], term)

    @classmethod
    def read(cls, path: Path) -> "Glossary":
        """A file: source, tab, target, tab, flags. Target and flags may be absent; # begins a comment."""
        try:
            lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
        terms: dict[tuple[bool, tuple[str, ...]], tuple[Term, int]] = {}
        for number, line in enumerate(lines, 1):
            term = _term(line, f"{path}:{number}")
            if term is None:
                continue
            name = (term.any_case, tuple(_keys(_parts(term.source), term.any_case)))
            known, first = terms.setdefault(name, (term, number))
            if (known.target, known.inflect) != (term.target, term.inflect):
                raise InputError(
                    f"{path}:{number}: '{term.source}' must become '{term.target}', but line {first} says otherwise; "
                    f"keep one of them"
                )
        return cls([term for term, _ in terms.values()])

    def find(self, text: str) -> list[tuple[int, int, Term]]:
        """Where terms are, left to right and not overlapping: (start, end, term), the longest at each place."""
        parts = _parts(text)
        exact, folded = _keys(parts, any_case=False), _keys(parts, any_case=True)
        found: list[tuple[int, int, Term]] = []
        place = 0
        while place < len(parts):
            matches = [
                _walk(self._exact, text, parts, exact, place),
                _walk(self._any_case, text, parts, folded, place),
                _walk(self._at_sentence_start, text, parts, exact, place),
            ]
            if matches[-1] and not _begins_sentence(text, parts[place].start):
                matches.pop()
            last, term = max(filter(None, matches), key=lambda match: match[0], default=(place + 1, None))
            if term:
                found.append((parts[place].start, parts[last - 1].end, term))
            place = last
        return found


def _add(node: _Node, keys: list[str], term: Term) -> None:
    for key in keys:
        node = node.following.setdefault(key, _Node())
    assert node.term is None, f"'{term.source}' is there twice"
    node.term = term


def _walk(root: _Node, text: str, parts: list[_Part], keys: list[str], place: int) -> tuple[int, Term] | None:
    """The longest term that begins with this part, and the number of the part behind it."""
    start = parts[place].start
    node = root.following.get(keys[place].lstrip(" "))
    if node is None or (start and _is_in_word(text[start - 1])):  # ".NET" is not in "ASP.NET"
        return None
    best = None
    while node is not None:
        place += 1
        end = parts[place - 1].end
        if node.term and not (end < len(text) and _is_in_word(text[end])):  # "C++" is not in "C++11"
            best = place, node.term
        node = node.following.get(keys[place]) if place < len(parts) else None
    return best


def _parts(text: str) -> list[_Part]:
    parts: list[_Part] = []
    end = 0
    for found in PART.finditer(text):
        key = found[0] if found[0].isascii() else unicodedata.normalize("NFC", found[0].translate(SAME))
        parts.append(_Part(found.start(), found.end(), f" {key}" if parts and found.start() > end else key))
        end = found.end()
    return parts


def _keys(parts: list[_Part], any_case: bool) -> list[str]:
    return [part.key.casefold() if any_case else part.key for part in parts]


def _begins_sentence(text: str, start: int) -> bool:
    before = text[max(0, start - LOOK_BACK) : start]
    rest = before.rstrip(OPENING)
    return not rest or "\n" in before[len(rest) :] or (rest != before and rest[-1] in SENTENCE_ENDS)


def _is_in_word(character: str) -> bool:
    return character.isalnum() or character == "_" or "\u0300" <= character <= "\u036f"


def _term(line: bytes, where: str) -> Term | None:
    """One line of a file; None if it is blank or a comment."""
    try:
        text = line.decode("utf-8").rstrip("\r")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: is not UTF-8 (byte {error.start + 1} of the line); save it as UTF-8") from None
    if not text.strip(" ") or text.lstrip().startswith("#"):
        return None
    source, target, flags, *more = [*(" ".join(column.split()) for column in text.split("\t")), "", ""]
    if any(more):
        raise InputError(f"{where}: has {text.count(chr(9)) + 1} columns; expected source, target and flags")
    if not source:
        raise InputError(f"{where}: has no source term; write it before the first tab, or remove the line")
    if len(_parts(source)) > MOST_PARTS:
        raise InputError(f"{where}: the source term has more than {MOST_PARTS} words and signs; make it shorter")
    wanted = flags.replace(",", " ").split()
    for flag in wanted:
        if flag not in FLAGS:
            raise InputError(f"{where}: unknown flag '{flag}'; expected {' or '.join(FLAGS)}")
    return Term(source, target or source, "inflect" in wanted, "case" in wanted)
