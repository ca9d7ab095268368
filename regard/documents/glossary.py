"""A glossary: terms that must be translated in a given way, and where they are in a text.

    # source    target      flags              a file: columns separated by tabs
    light bulb  Glühbirne                 ->   find("The light  bulb of ACME.")
    ACME                                       (4, 15, light bulb), (19, 23, ACME)

A term without a target is not translated. Terms match whole words: no letter, digit or underscore may touch them.
Source terms are not inflected: "bulb" does not match "bulbs"; give the plural a line of its own. It does match in
"bulb's", where an apostrophe ends the word.

A term in lower case matches in any case. A term with a capital, or with the flag `case`, matches only as written; one
in lower case with the flag also matches with a capital at the start of a sentence. ’ equals ', and any white space
equals a space.

Terms and texts are split into words and punctuation marks, and the terms form a trie of those. So the time depends on
the text, not on the number of terms.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regard.errors import InputError, UsageError
from regard.plural import counted

PART = re.compile(r"[\w\u0300-\u036f]+|[^\w\s]")
"""A word, with its combining accents, or a punctuation mark. White space only separates."""
EQUIVALENTS = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "\u2010": "-", "\u2011": "-"})
OPENING = " \t\n\r\xa0\u202f\"'“”„«»‘’‚‹›([{*_¿¡-–—"
"""Characters that may be between the end of a sentence and the first word of the next."""
SENTENCE_ENDS = ".!?…"
LOOK_BACK = 10
"""Characters before a word that decide whether it begins a sentence."""
MAX_BYTES = 16_000_000
"""Of a file: some hundred thousand terms."""
MAX_TERM_PARTS = 32
"""Words and punctuation marks of a term. Bounds the work at each position, whatever the text and the terms are."""
FLAGS = ("inflect", "case")


@dataclass(frozen=True)
class Term:
    """A source term and its required translation."""

    source: str
    target: str
    """The same as the source if the term is not to be translated."""
    inflect: bool = False
    """The model may inflect the target."""
    exact_case: bool = False
    """Matches only as written, although it is in lower case."""

    @property
    def any_case(self) -> bool:
        return not self.exact_case and self.source == self.source.lower()


@dataclass
class _Node:
    """A node of the trie: what may come next, and the term that ends here."""

    following: dict[str, "_Node"] = field(default_factory=dict)
    term: Term | None = None


@dataclass(frozen=True)
class _Part:
    """A word or punctuation mark of a text."""

    start: int
    end: int
    key: str
    """With a space in front if white space separates it from the part before."""


class Glossary:
    """Terms, indexed for search. No two may have the same source, unless they treat case differently."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self.terms = tuple(terms)
        self._exact, self._any_case, self._at_sentence_start = _Node(), _Node(), _Node()
        for term in self.terms:
            if not isinstance(term, Term):
                raise UsageError(f"terms must be Term(source, target), not {term!r:.60}")
            keys = _keys(_parts(term.source), term.any_case)
            assert 0 < len(keys) <= MAX_TERM_PARTS, f"a term has 1 to {MAX_TERM_PARTS} words, not {len(keys)}"
            _add(self._any_case if term.any_case else self._exact, keys, term)
            if term.exact_case and term.source == term.source.lower():
                _add(self._at_sentence_start, [keys[0][0].upper() + keys[0][1:], *keys[1:]], term)

    def __repr__(self) -> str:
        return f"<Glossary of {counted(len(self.terms), 'term')}>"

    @classmethod
    def read(cls, path: str | Path) -> "Glossary":
        """Read a file: lines of source, tab, target, tab, flags. Target and flags are optional; # begins a comment."""
        from regard.documents.formats.files import read_bytes

        path = Path(path)
        lines = read_bytes(path, MAX_BYTES).removeprefix(b"\xef\xbb\xbf").split(b"\n")
        terms: dict[tuple[bool, tuple[str, ...]], tuple[Term, int]] = {}
        for number, line in enumerate(lines, 1):
            term = _term(line, f"{path}:{number}")
            if term is None:
                continue
            name = (term.any_case, tuple(_keys(_parts(term.source), term.any_case)))
            known, first = terms.setdefault(name, (term, number))
            if (known.target, known.inflect) != (term.target, term.inflect):
                raise InputError(
                    f"{path}:{number}: '{term.source}' has another translation or other flags in line {first}; "
                    "remove one of the lines"
                )
        return cls([term for term, _ in terms.values()])

    def find(self, text: str) -> list[tuple[int, int, Term]]:
        """(start, end, term) of each match, left to right, not overlapping, the longest match at each position."""
        parts = _parts(text)
        exact, folded = _keys(parts, any_case=False), _keys(parts, any_case=True)
        found: list[tuple[int, int, Term]] = []
        index = 0
        while index < len(parts):
            matches = [
                _walk(self._exact, text, parts, exact, index),
                _walk(self._any_case, text, parts, folded, index),
                _walk(self._at_sentence_start, text, parts, exact, index),
            ]
            if matches[-1] and not _begins_sentence(text, parts[index].start):
                matches.pop()
            last, term = max(filter(None, matches), key=lambda match: match[0], default=(index + 1, None))
            if term:
                found.append((parts[index].start, parts[last - 1].end, term))
            index = last
        return found


def _add(node: _Node, keys: list[str], term: Term) -> None:
    for key in keys:
        node = node.following.setdefault(key, _Node())
    assert node.term is None, f"'{term.source}' is in the glossary twice"
    node.term = term


def _walk(root: _Node, text: str, parts: list[_Part], keys: list[str], index: int) -> tuple[int, Term] | None:
    """The longest term that begins with the part at `index`, after the index of the part behind it."""
    start = parts[index].start
    node = root.following.get(keys[index].lstrip(" "))
    if node is None or (start and _is_in_word(text[start - 1])):  # ".NET" is not in "ASP.NET"
        return None
    best = None
    while node is not None:
        index += 1
        end = parts[index - 1].end
        if node.term and not (end < len(text) and _is_in_word(text[end])):  # "C++" is not in "C++11"
            best = index, node.term
        node = node.following.get(keys[index]) if index < len(parts) else None
    return best


def _parts(text: str) -> list[_Part]:
    parts: list[_Part] = []
    end = 0
    for found in PART.finditer(text):
        key = found[0] if found[0].isascii() else unicodedata.normalize("NFC", found[0].translate(EQUIVALENTS))
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
    """The term of one line of a file; None if the line is blank or a comment."""
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
    if len(_parts(source)) > MAX_TERM_PARTS:
        raise InputError(f"{where}: the source term has more than {MAX_TERM_PARTS} words; make it shorter")
    chosen = flags.replace(",", " ").split()
    for flag in chosen:
        if flag not in FLAGS:
            raise InputError(f"{where}: unknown flag '{flag}'; expected {' or '.join(FLAGS)}")
    return Term(source, target or source, "inflect" in chosen, "case" in chosen)
