"""Places the markup of a passage in its translation, guided by the word alignment.

    "Click <b>here</b>."  "Hier klicken."  Click -> klicken, here -> Hier   ->   "<b>Hier</b> klicken."

    map      what became what, in units that marks can enclose (alignment_map.py)
    tree     pairs and single marks, nested as in the source
    desired  for each pair, the smallest run of units that holds what its words became: bottom-up
    settled  the same, without overlaps and inside the parent's run: top-down
    written  marks again

No mark is lost, and pairs stay nested as they were, whatever the alignment links are.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from regard.documents.alignment_map import AlignmentMap, Cell, copied_spans, hull
from regard.documents.passage import Link, Mark, Passage, Span


def place_marks(source: Passage, target: str, links: Sequence[Link]) -> Passage:
    """The translation `target` with the marks of the source, placed by alignment links.

    A linked span is split around the fixed spans that were copied from it. It is split elsewhere only where the source
    has marks, and only if it was copied (so H<sub>2</sub>O survives) or at the punctuation around its word. Without
    links, words are linked in order.
    """
    if target == source.text:
        return Passage(target, source.marks, source.fixed)
    if not source.marks:
        return Passage(target, fixed=tuple(sorted(copy for _, copy in copied_spans(source, target, links))))
    alignment = AlignmentMap(source, target, links)
    nodes = _tree(source)
    _find_desired_runs(nodes, alignment)
    _settle(nodes[0], alignment)
    marks = tuple(_written(nodes[0], alignment))
    return Passage(target, marks, tuple(sorted(copy for _, copy in alignment.copies)))


@dataclass(eq=False, repr=False, slots=True)
class _Node:
    """A pair of marks with what is inside it, or a single mark. The root is a pair without marks around everything."""

    opening: Mark | None
    start: int
    end: int
    parent: "_Node | None" = None
    closing: Mark | None = None
    inside: list["_Node"] = field(default_factory=list)
    desired: Span | None = None
    run: Span | None = None
    """The atoms that it encloses; None if it has no text to enclose."""
    gap: tuple[int, int] = (0, 0)
    """Its position without text: before the atom of this index, next to that atom (0) or to the one before it (-1)."""


def _tree(source: Passage) -> list[_Node]:
    """The nodes in source order, parents before children. A mark that is never closed, or never opened, is single."""
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


# --- bottom-up: the run that each pair should enclose


def _find_desired_runs(nodes: Sequence[_Node], words: AlignmentMap) -> None:
    """What the words within each pair became; a pair around everything encloses everything."""
    pairs = [node for node in nodes if words.ink_after[node.start] < node.end]
    _assign_cells(pairs, words.cells)
    for node in reversed(pairs):
        if not words.ink_before[node.start] and words.ink_after[node.end] == len(words.ink_after) - 1:
            node.desired = 0, len(words.atoms)
        elif node.desired:
            node.desired = _with_punctuation(node, node.desired, words)
        else:
            node.desired = _without_links(node, words)
        if node.desired and node.parent:
            node.parent.desired = hull(node.parent.desired, node.desired)


def _without_links(node: _Node, words: AlignmentMap) -> Span | None:
    """For a part of a word, what the whole word became; for punctuation, punctuation in the same position."""
    index = bisect_left(words.cells, node.end, key=lambda cell: cell.start) - 1
    if index >= 0 and words.cells[index].end > node.start:
        return words.cells[index].run
    gap = words.gap(node.start)[0]
    count = min(words.unlinked_after[gap], words.punctuation_before[words.ink_before[node.end]])
    return (gap, gap + count) if count and _is_punctuation(node, words) else None


def _is_punctuation(node: _Node, words: AlignmentMap) -> bool:
    """Whether it holds only punctuation that is not linked."""
    end = words.ink_before[node.end]
    return words.punctuation_before[end] >= end - words.ink_after[node.start]


def _assign_cells(pairs: Sequence[_Node], cells: Sequence[Cell]) -> None:
    """Give each cell's run to the innermost pair around the cell."""
    stack: list[_Node] = []
    index = 0
    for cell in cells:
        while index < len(pairs) and pairs[index].start <= cell.start:
            while stack and stack[-1].end <= pairs[index].start:
                stack.pop()
            stack.append(pairs[index])
            index += 1
        while stack[-1].end <= cell.start:
            stack.pop()
        holder = stack[bisect_right(stack, -cell.end, key=lambda node: -node.end) - 1]  # their ends descend
        holder.desired = hull(holder.desired, cell.run)


def _with_punctuation(node: _Node, desired: Span, words: AlignmentMap) -> Span:
    """Include as much unlinked punctuation as the pair had in the source; exclude the final stop if it was outside."""
    start, end = words.ink_after[node.start], words.ink_before[node.end]
    low = desired[0] - min(words.punctuation_after[start], words.unlinked_before[desired[0]])
    high = desired[1] + min(words.punctuation_before[end], words.unlinked_after[desired[1]])
    if node.end <= words.source_stop and low < words.target_stop:
        high = min(high, words.target_stop)
    return low, high


# --- top-down: the run that each pair gets


class _FreeAtoms:
    """The run of a parent, and the parts of it that its children have taken."""

    def __init__(self, run: Span, words: AlignmentMap) -> None:
        self.run = run
        self.taken: list[Span] = []
        self._searches = [(firsts, dict[int, int]()) for firsts in (words.next_unlinked_word, words.next_word)]

    def take(self, run: Span) -> None:
        insort(self.taken, run)
        for firsts, jumps in self._searches:
            if firsts[run[0]] < run[1]:
                jumps[firsts[run[0]]] = firsts[run[1]]

    def around(self, gap: int) -> Span | None:
        """The taken run that has this gap inside it."""
        index = bisect_left(self.taken, gap, key=lambda run: run[0]) - 1
        return self.taken[index] if index >= 0 and self.taken[index][1] > gap else None

    def free_word(self, gap: int) -> Span | None:
        """The next free word, preferably one without a link; after the gap, or else before it."""
        taken = self.around(gap)
        for firsts, jumps in self._searches:
            for start in (taken[1] if taken else gap, self.run[0]):
                word, seen = firsts[start], []
                while word in jumps:
                    seen.append(word)
                    word = jumps[word]
                jumps.update(dict.fromkeys(seen, word))  # no path is walked twice: linear in total
                if word < self.run[1]:
                    return word, word + 1
        return None


def _settle(root: _Node, words: AlignmentMap) -> None:
    root.run = (0, len(words.atoms)) if words.atoms else None
    stack = [root]
    while stack:
        node = stack.pop()
        if node.run:
            _settle_inside(node, _FreeAtoms(node.run, words), words)
            stack += node.inside


def _settle_inside(node: _Node, free: _FreeAtoms, words: AlignmentMap) -> None:
    low, high = free.run
    pairs = [child for child in node.inside if words.ink_after[child.start] < child.end]
    runs = [(max(child.desired[0], low), min(child.desired[1], high), child) for child in pairs if child.desired]
    runs = sorted((run for run in runs if run[0] < run[1]), key=lambda run: run[:2])
    done = low
    for (start, end, child), after in zip(runs, [*(run[0] for run in runs[1:]), high], strict=False):
        start = max(start, done)
        if start < end:  # else an earlier child has all of it
            done = min(end, max(start + 1, after))
            child.run = start, done
            free.take(child.run)
    for child in pairs:
        if child.run or _is_punctuation(child, words):
            continue
        child.run = free.free_word(min(max(words.gap(child.start)[0], low), high))
        if child.run:
            free.take(child.run)
    for child in node.inside:
        if not child.run:
            child.gap = _point(child, node, free, words)


def _point(child: _Node, node: _Node, free: _FreeAtoms, words: AlignmentMap) -> tuple[int, int]:
    """The gap of a mark without text: first stays first, last stays last, and it enters no pair that it was not in."""
    low, high = free.run
    if words.ink_after[child.end] >= node.end:
        return high, -1
    if words.ink_before[child.start] <= node.start:
        return low, 0
    gap = words.gap(child.start)
    if not low < gap[0] < high:
        return (low, 0) if gap[0] <= low else (high, -1)
    taken = free.around(gap[0])
    if taken:
        return (taken[1], -1) if gap[1] else (taken[0], 0)
    return gap


def _written(root: _Node, words: AlignmentMap) -> Iterator[Mark]:
    """The marks in target order. Marks inside a pair without text are where the pair is."""
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


def _position(child: _Node, words: AlignmentMap) -> int:
    """The character position of a mark without text; 0 for others, which have a run."""
    if child.run:
        return 0
    gap, side = child.gap
    return words.atoms[gap - 1][1] if side else words.atoms[gap][0]
