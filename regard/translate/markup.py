"""The marks of a passage, put into its translation, from which word became which.

    "Click <b>here</b>."  "Hier klicken."  Click -> klicken, here -> Hier   ->   "<b>Hier</b> klicken."

    map      what became what, in pieces that marks can go around (wordmap.py)
    tree     pairs and single marks, nested as in the source
    wanted   for each pair the smallest run of words that holds what its own became: upwards, children first
    settled  the same, without overlaps and inside what the parents got: downwards
    written  marks again

No mark is lost and pairs stay nested as they were, whatever the links are.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from regard.translate.alignment_map import Cell, WordMap, hull
from regard.translate.passage import Link, Mark, Passage, Span


def place(source: Passage, target: str, links: Sequence[Link]) -> Passage:
    """The translation with the marks of the source; links say which stretch of the source became which of the target.

    A stretch that is linked as one is cut around what is fixed in it and was copied; else only where the source's marks
    cut it, and only if it was copied (so that H<sub>2</sub>O stays) or at the signs around its word. Where nothing is
    linked, words are linked by their order.
    """
    if target == source.text:
        return Passage(target, source.marks, source.fixed)
    words = WordMap(source, target, links)
    nodes = _tree(source)
    _want(nodes, words)
    _settle(nodes[0], words)
    return Passage(target, tuple(_written(nodes[0], words)), tuple(sorted(there for _, there in words.copies)))


@dataclass(eq=False, repr=False, slots=True)
class _Node:
    """A pair with what is inside it, or a single mark; the root is a pair without marks around everything."""

    opening: Mark | None
    start: int
    end: int
    parent: "_Node | None" = None
    closing: Mark | None = None
    inside: list["_Node"] = field(default_factory=list)
    wanted: Span | None = None
    run: Span | None = None
    """Its atoms, or None: it has no text around which it could go."""
    gap: tuple[int, int] = (0, 0)
    """Where it goes without text: before the atom of this number, 0: close to that, -1: close to the one before it."""


def _tree(source: Passage) -> list[_Node]:
    """Parents before children, in the order of the source. What is never closed or never opened stands for itself."""
    root = _Node(None, 0, len(source.text))
    nodes, stack = [root], [root]
    for mark in source.marks:
        if mark.kind == "close" and len(stack) > 1:
            stack[-1].closing, stack[-1].end = mark, mark.at
            stack.pop()
            continue
        nodes.append(_Node(mark, mark.at, mark.at, stack[-1]))
        stack[-1].inside.append(nodes[-1])
        if mark.kind == "open":
            stack.append(nodes[-1])
    for node in reversed(stack[1:]):
        assert node.parent
        for child in node.inside:
            child.parent = node.parent
        node.parent.inside += node.inside
        node.inside = []
    return nodes


# --- where pairs want to be


def _want(nodes: Sequence[_Node], words: WordMap) -> None:
    """What became of the words within each pair; a pair around everything wants everything."""
    pairs = [node for node in nodes if words.ink_after[node.start] < node.end]
    _share_out(pairs, words.cells)
    for node in reversed(pairs):
        if not words.ink_before[node.start] and words.ink_after[node.end] == len(words.ink_after) - 1:
            node.wanted = 0, len(words.atoms)
        elif node.wanted:
            node.wanted = _with_signs(node, node.wanted, words)
        else:
            node.wanted = _without_links(node, words)
        if node.wanted and node.parent:
            node.parent.wanted = hull(node.parent.wanted, node.wanted)


def _without_links(node: _Node, words: WordMap) -> Span | None:
    """For a part of a word, what became of the whole word; for signs, signs in the same place."""
    index = bisect_left(words.cells, node.end, key=lambda cell: cell.start) - 1
    if index >= 0 and words.cells[index].end > node.start:
        return words.cells[index].run
    gap = words.gap(node.start)[0]
    count = min(words.loose_after[gap], words.signs_before[words.ink_before[node.end]])
    return (gap, gap + count) if count and _is_signs(node, words) else None


def _is_signs(node: _Node, words: WordMap) -> bool:
    """Whether no word is in it, nor a sign that is linked."""
    end = words.ink_before[node.end]
    return words.signs_before[end] >= end - words.ink_after[node.start]


def _share_out(pairs: Sequence[_Node], cells: Sequence[Cell]) -> None:
    """Each cell to the innermost pair around it."""
    stack: list[_Node] = []
    place = 0
    for cell in cells:
        while place < len(pairs) and pairs[place].start <= cell.start:
            while stack and stack[-1].end <= pairs[place].start:
                stack.pop()
            stack.append(pairs[place])
            place += 1
        while stack[-1].end <= cell.start:
            stack.pop()
        holder = stack[bisect_right(stack, -cell.end, key=lambda node: -node.end) - 1]  # their ends go down
        holder.wanted = hull(holder.wanted, cell.run)


def _with_signs(node: _Node, wanted: Span, words: WordMap) -> Span:
    """Signs that nobody linked are in if as many were in; the final stop is out if it was out."""
    start, end = words.ink_after[node.start], words.ink_before[node.end]
    low = wanted[0] - min(words.signs_after[start], words.loose_before[wanted[0]])
    high = wanted[1] + min(words.signs_before[end], words.loose_after[wanted[1]])
    if node.end <= words.stop and low < words.stop_there:
        high = min(high, words.stop_there)
    return low, high


# --- where they get


class _Room:
    """The run of a parent, and which parts of it its children have."""

    def __init__(self, run: Span, words: WordMap) -> None:
        self.run = run
        self.taken: list[Span] = []
        self._ways = [(firsts, dict[int, int]()) for firsts in (words.unused_words, words.words)]

    def take(self, run: Span) -> None:
        insort(self.taken, run)
        for firsts, jumps in self._ways:
            if firsts[run[0]] < run[1]:
                jumps[firsts[run[0]]] = firsts[run[1]]

    def around(self, gap: int) -> Span | None:
        """What is taken and has this gap inside it."""
        index = bisect_left(self.taken, gap, key=lambda run: run[0]) - 1
        return self.taken[index] if index >= 0 and self.taken[index][1] > gap else None

    def free_word(self, gap: int) -> Span | None:
        """The next word that nobody has, better one that nothing was linked to; behind the gap or else before it."""
        taken = self.around(gap)
        for firsts, jumps in self._ways:
            for start in (taken[1] if taken else gap, self.run[0]):
                word, seen = firsts[start], []
                while word in jumps:
                    seen.append(word)
                    word = jumps[word]
                jumps.update(dict.fromkeys(seen, word))  # the same way is not walked twice: linear in all
                if word < self.run[1]:
                    return word, word + 1
        return None


def _settle(root: _Node, words: WordMap) -> None:
    root.run = (0, len(words.atoms)) if words.atoms else None
    stack = [root]
    while stack:
        node = stack.pop()
        if node.run:
            _settle_inside(node, _Room(node.run, words), words)
            stack += node.inside


def _settle_inside(node: _Node, room: _Room, words: WordMap) -> None:
    low, high = room.run
    pairs = [child for child in node.inside if words.ink_after[child.start] < child.end]
    wishes = [(max(child.wanted[0], low), min(child.wanted[1], high), child) for child in pairs if child.wanted]
    wishes = sorted((wish for wish in wishes if wish[0] < wish[1]), key=lambda wish: wish[:2])
    done = low
    for (start, end, child), after in zip(wishes, [*(wish[0] for wish in wishes[1:]), high], strict=False):
        start = max(start, done)
        if start < end:  # else one before has all of it
            done = min(end, max(start + 1, after))
            child.run = start, done
            room.take(child.run)
    for child in pairs:
        if child.run or _is_signs(child, words):
            continue
        child.run = room.free_word(min(max(words.gap(child.start)[0], low), high))
        if child.run:
            room.take(child.run)
    for child in node.inside:
        if not child.run:
            child.gap = _point(child, node, room, words)


def _point(child: _Node, node: _Node, room: _Room, words: WordMap) -> tuple[int, int]:
    """Where a mark without text goes: first and last stay so, and it stays out of pairs that it was not in."""
    low, high = room.run
    if words.ink_after[child.end] >= node.end:
        return high, -1
    if words.ink_before[child.start] <= node.start:
        return low, 0
    gap = words.gap(child.start)
    if not low < gap[0] < high:
        return (low, 0) if gap[0] <= low else (high, -1)
    taken = room.around(gap[0])
    if taken:
        return (taken[1], -1) if gap[1] else (taken[0], 0)
    return gap


def _written(root: _Node, words: WordMap) -> Iterator[Mark]:
    """In the order of the target. What is in a pair without text is where the pair is."""
    stack: list[tuple[_Node | Mark, int]] = [(root, 0)]
    while stack:
        item, here = stack.pop()
        if isinstance(item, Mark):
            yield item
            continue
        end, inside = here, item.inside
        if item.run:
            here, end = words.atoms[item.run[0]][0], words.atoms[item.run[1] - 1][1]
            inside = sorted(item.inside, key=lambda child: (child.run[0], 1) if child.run else child.gap)
        if item.opening:
            yield replace(item.opening, at=here)
        if item.closing:
            stack.append((replace(item.closing, at=end), end))
        stack += [(child, _position(child, words) if item.run else here) for child in reversed(inside)]


def _position(child: _Node, words: WordMap) -> int:
    """Only for what has no text: the rest knows its run."""
    if child.run:
        return 0
    gap, side = child.gap
    return words.atoms[gap - 1][1] if side else words.atoms[gap][0]
