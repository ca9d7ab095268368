"""Which span of a text became which of its translation, in the units that markup.py needs.

    "Click here."  "Hier klicken."  Click -> klicken, here -> Hier
    atoms  Hier, klicken, .                    the smallest units of the translation that marks can enclose
    cells  Click -> atoms 1..2, here -> 0..1   what each linked span of the source became

An atom is a word, a punctuation mark, a span that is linked as a whole, or a copied fixed span: only marks that were
inside it can be inside it again. A run of atoms is (first, last + 1).
"""

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

from regard.documents.passage import Link, Passage, Span
from regard.text.word_ids import UNSPACED


@dataclass(frozen=True, slots=True)
class Cell:
    """A linked span of the source, and the run of atoms that it became."""

    start: int
    end: int
    run: Span


class AlignmentMap:
    """Cells of the source, atoms of the target, and lookup tables over both."""

    def __init__(self, source: Passage, target: str, links: Sequence[Link]) -> None:
        text = source.text
        self.copies = copied_spans(source, target, links)
        parts, seams = _split_links(
            self.copies, _without_copies(links or _in_order(text, target), self.copies), source, target
        )
        self.atoms = _atoms(target, [there for _, there in parts], seams)
        self.cells, used = _cells(parts, self.atoms)
        self.cells_by_end = sorted(self.cells, key=lambda cell: cell.end)
        self.ink_after = _next([not character.isspace() for character in text])
        self.ink_before = [len(text) - at for at in reversed(_next([not letter.isspace() for letter in text[::-1]]))]
        linked = _covered([here for here, _ in parts], len(text))
        # before and after each character of the source: how many unlinked punctuation marks in a row
        unlinked = [_is_punctuation(letter) and not yes for letter, yes in zip(text, linked, strict=True)]
        self.punctuation_before, self.punctuation_after = _streaks(unlinked), _streaks(unlinked[::-1])[::-1]
        # and the same before and after each atom of the target
        punctuation = [all(map(_is_punctuation, target[start:end].strip())) for start, end in self.atoms]
        unlinked = [sign and not yes for sign, yes in zip(punctuation, used, strict=True)]
        self.unlinked_before, self.unlinked_after = _streaks(unlinked), _streaks(unlinked[::-1])[::-1]
        self.next_word = _next([not sign for sign in punctuation])
        self.next_unlinked_word = _next([not (sign or yes) for sign, yes in zip(punctuation, used, strict=True)])
        # where the final punctuation begins: a character of the source, an atom of the target
        self.source_stop = _word(*_stripped((0, len(text)), text), text)[1]
        self.target_stop = len(punctuation) - _streaks(punctuation)[-1]

    def gap(self, at: int) -> tuple[int, int]:
        """The gap of the target for a position of the source: by the word after it, or else by the word before it."""
        index = bisect_left(self.cells, at, key=lambda cell: cell.start)
        if index and self.cells[index - 1].end > at:
            return self.cells[index - 1].run[1], -1
        after = self.cells[index] if index < len(self.cells) else None
        count = bisect_right(self.cells_by_end, at, key=lambda cell: cell.end)
        before = self.cells_by_end[count - 1] if count else None
        sticks = before and before.end == at < self.ink_after[at]  # in "word<img> next" it belongs to word
        if after and after.start <= self.ink_after[at] and not sticks:
            return after.run[0], 0
        if before:
            return before.run[1], -1
        return (after.run[0], 0) if after else (0, 0)


def _in_order(source: str, target: str) -> list[Link]:
    """Links word by word, stretched or squeezed to the length of the other text."""
    here, there = (
        [span for span in _atoms(text, [], []) if not _is_punctuation(text[span[0]])] for text in (source, target)
    )
    steps = max(len(here), len(there)) if here and there else 0
    return [(here[step * len(here) // steps], there[step * len(there) // steps]) for step in range(steps)]


# --- fixed spans


def copied_spans(source: Passage, target: str, links: Sequence[Link]) -> list[Link]:
    """Each fixed span of the source and its copy in the target: in what it is linked to, or else the next free match.
    Long ones first, since others may be a part of them."""
    fixed = sorted(span for span in source.fixed if span[0] < span[1])
    found: dict[Span, Span] = {}
    taken = bytearray(len(target))

    def claim(span: Span, matches: Iterator[Span]) -> None:
        """Take the first match that is free and begins or ends inside a word only if the span does."""
        for there in matches:
            cuts = any(_is_cut(target, b) and not _is_cut(source.text, a) for a, b in zip(span, there, strict=True))
            if not cuts and not any(taken[slice(*there)]):
                found[span] = there
                taken[slice(*there)] = b"1" * (there[1] - there[0])
                return

    words = {span: source.text[slice(*span)] for span in sorted(fixed, key=lambda span: span[0] - span[1])}
    linked: dict[Span, list[Span]] = {}
    for here, there in links:
        for span in _overlapping(fixed, here):
            linked.setdefault(span, []).append(there)
    for span, word in words.items():
        claim(span, chain.from_iterable(_matches(word, target, there) for there in linked.get(span, [])))
    anywhere = {word: _matches(word, target, (0, len(target))) for word in words.values()}
    for span, word in words.items():
        if span not in found:
            claim(span, anywhere[word])
    return sorted(found.items())


def _matches(word: str, text: str, within: Span) -> Iterator[Span]:
    at = text.find(word, *within)
    while at >= 0:
        yield at, at + len(word)
        at = text.find(word, at + len(word), within[1])


def _without_copies(links: Sequence[Link], copies: Sequence[Link]) -> list[Link]:
    """The links without what was copied, which became its copy only: "x()," -> "x()!" leaves that , became !."""
    became = dict(copies)
    fixed, copied = list(became), sorted(became.values())
    parts: list[Link] = []
    for here, there in links:
        held, got = _overlapping(fixed, here), _overlapping(copied, there)
        if [became[span] for span in held] == got:
            parts += zip(_around(held, here), _around(got, there), strict=True)
        elif not held:
            parts += [(here, part) for part in _around(got, there)]
    return parts


def _overlapping(spans: Sequence[Span], other: Span) -> list[Span]:
    """The spans that overlap the other one; they are in order, and no two overlap."""
    first = bisect_right(spans, other[0], key=lambda span: span[1])
    return list(spans[first : bisect_left(spans, other[1], key=lambda span: span[0])])


def _around(spans: Sequence[Span], other: Span) -> list[Span]:
    """The parts of `other` before, between and after the spans; some may be empty."""
    edges = [other[0], *(edge for span in spans for edge in span), other[1]]
    return [(start, max(start, end)) for start, end in zip(edges[::2], edges[1::2], strict=True)]


# --- links -> parts


def _split_links(
    copies: Sequence[Link], links: Sequence[Link], source: Passage, target: str
) -> tuple[list[Link], list[int]]:
    """The links, split where the source has marks, and the positions at which copied spans are split.

    "in." -> "anmelden." becomes two links if a mark stands before the full stop. "here" -> "hier," loses its comma:
    words are taken from space to space there, and the comma came from nowhere.
    """
    cuts = sorted({mark.at for mark in source.marks})
    copied = [_pieces(here, there[0], cuts) for here, there in copies]
    whole = [part for pieces in copied for part in pieces if target[slice(*part[1])].strip()]
    parts = []
    for here, there in links:
        (start, end), (first, last) = _stripped(here, source.text), _stripped(there, target)
        inside = cuts[bisect_right(cuts, start) : bisect_left(cuts, end)]
        if inside and source.text[start:end] == target[first:last]:
            copied.append(_pieces((start, end), first, cuts))
            parts += copied[-1]
            continue
        (a, b), (c, d) = _word(start, end, source.text), _word(first, last, target)
        if a in inside or a == start:
            parts.append(((start, a), (first, c)))
            start, first = a, c
        if b in inside or b == end:
            parts.append(((b, end), (d, last)))
            end, last = b, d
        parts.append(((start, end), (first, last)))
    bare = [(_stripped(here, source.text), _stripped(there, target)) for here, there in parts]
    whole += [(here, there) for here, there in bare if here[0] < here[1] and there[0] < there[1]]
    return whole, [there[0] for pieces in copied for _, there in pieces[1:]]


def _pieces(here: Span, first: int, cuts: Sequence[int]) -> list[Link]:
    """A copied span as links, split at the marks inside it. `first`: where the copy begins."""
    start, end = here
    inside = cuts[bisect_right(cuts, start) : bisect_left(cuts, end)]
    return [((a, b), (first + a - start, first + b - start)) for a, b in pairwise([start, *inside, end])]


def _stripped(span: Span, text: str) -> Span:
    """The span without spaces at its ends, and clipped to the text."""
    start, end = max(span[0], 0), min(span[1], len(text))
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def _word(start: int, end: int, text: str) -> Span:
    """The span without punctuation at its ends, unless it is all punctuation."""
    first, last = start, end
    while first < last and _is_punctuation(text[first]):
        first += 1
    while first < last and _is_punctuation(text[last - 1]):
        last -= 1
    return (first, last) if first < last else (start, end)


def _atoms(target: str, linked: Sequence[Span], seams: Sequence[int]) -> list[Span]:
    """The atoms of the target. The first begins and the last ends with it, so that outer marks stay outer."""
    whole, cut = _covered([(start + 1, end) for start, end in linked], len(target)), set(seams)
    ends = [at for at in range(1, len(target)) if not whole[at] and (at in cut or not _splits(target, at))]
    atoms = [span for span in pairwise([0, *ends, len(target)]) if target[slice(*span)].strip()]
    if atoms:
        atoms[0] = 0, atoms[0][1]
        atoms[-1] = atoms[-1][0], len(target)
    return atoms


def _cells(parts: Sequence[Link], atoms: Sequence[Span]) -> tuple[list[Cell], list[bool]]:
    """What each linked span of the source became, in order; and which atoms have a link. A part is within one atom."""
    runs: dict[Span, Span] = {}
    used = [False] * len(atoms)
    for here, there in parts:
        atom = bisect_right(atoms, there[0], key=lambda span: span[0]) - 1
        used[atom] = True
        runs[here] = hull(runs.get(here), (atom, atom + 1))
    return [Cell(*here, run) for here, run in sorted(runs.items())], used


def hull(one: Span | None, other: Span) -> Span:
    return (min(one[0], other[0]), max(one[1], other[1])) if one else other


def _covered(spans: Iterable[Span], length: int) -> list[bool]:
    steps = [0] * (length + 1)
    for start, end in spans:
        if start < end:
            steps[start] += 1
            steps[end] -= 1
    return [depth > 0 for depth in accumulate(steps[:-1])]


def _next(flags: Sequence[bool]) -> list[int]:
    """For each index, and the end, the first index from there on with a flag, or the end."""
    found = [len(flags)]
    for at in range(len(flags) - 1, -1, -1):
        found.append(at if flags[at] else found[-1])
    return found[::-1]


def _streaks(flags: Sequence[bool]) -> list[int]:
    """For the start and after each index, how many flags in a row end there."""
    return list(accumulate(flags, lambda streak, flag: streak + 1 if flag else 0, initial=0))


def _is_punctuation(character: str) -> bool:
    """Neither part of a word nor a space. (Combining vowels and accents are not alphanumeric, but part of a word.)"""
    return not (character.isalnum() or character.isspace() or character == "_" or _is_accent(character))


def _is_accent(character: str) -> bool:
    return character > "\u02ff" and (unicodedata.category(character)[0] == "M" or character in "\u200c\u200d")


def _is_cut(text: str, at: int) -> bool:
    """Whether this position is inside a word."""
    return 0 < at < len(text) and _splits(text, at)


def _splits(text: str, at: int) -> bool:
    """Whether a cut here would split a word."""
    before, after = text[at - 1], text[at]
    if before.isspace() or after.isspace() or _is_accent(after):
        return _is_accent(after)
    if _is_punctuation(before) or _is_punctuation(after):
        return False
    return not (UNSPACED.match(before) or UNSPACED.match(after))
