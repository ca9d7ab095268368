"""Many texts, one model that is never idle: texts that are done leave, and waiting ones take their place.

Texts wait in the order of their length. Every core has a worker, which begins some of them together when it has room.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from regard.crew import Crew
from regard.decoding.interface import Ask, Asking, Hypothesis, Opening
from regard.decoding.search import asking
from regard.decoding.settings import Search

ROWS = 128
"""Rows in one pass of one worker, about: more make better matrix products, and more keys and values to hold."""
TOKENS = 16384
"""Tokens that are read at once, padding included: what bounds the memory of long texts."""
ENOUGH = 4
"""New texts begin when they can fill a quarter of the rows, or when nothing else is under way."""

Found = Iterable[tuple[int, list[Hypothesis]]]
"""Texts that are done, by their numbers, with what was found for each."""


class Worker(Protocol):
    """Searches for some texts at a time; one thread's own."""

    @property
    def rows(self) -> int:
        """Of all texts that are under way."""

    def begin(self, texts: Sequence[int]) -> Found:
        """Texts, by their numbers; those that are done before they began."""

    def go_on(self, most: int, wanted: int) -> Found:
        """A step or more, at the most until there is room for `wanted` of `most` rows."""

    def close(self) -> None: ...


def run(
    hire: Callable[[], Worker],
    lengths: Sequence[int],
    width: int,
    *,
    rows: int = ROWS,
    workers: int | None = None,
) -> list[list[Hypothesis]]:
    """Search for every text, which has `width` rows. `lengths`: how long each is, for those alike to go together."""
    waiting = deque(sorted(range(len(lengths)), key=lambda text: -lengths[text]))  # the longest take longest
    found: list[list[Hypothesis]] = [[] for _ in lengths]
    lock = Lock()

    def take(room: int) -> list[int]:
        """The next texts that fit: so many, and so many tokens."""
        with lock:
            texts: list[int] = []
            while waiting and len(texts) < room and (1 + len(texts)) * lengths[(texts or waiting)[0]] <= TOKENS:
                texts.append(waiting.popleft())
            return texts or ([waiting.popleft()] if waiting and room > 0 else [])

    def work() -> None:
        worker = hire()
        try:
            while waiting or worker.rows:
                room = (share - worker.rows) // width
                if waiting and (not worker.rows or room >= share // width // ENOUGH):
                    texts = take(max(room, 1))
                    for text, hypotheses in worker.begin(texts) if texts else ():
                        found[text] = hypotheses
                wanted = max(share // ENOUGH, width) if waiting else share
                for text, hypotheses in worker.go_on(share, wanted):
                    found[text] = hypotheses
        finally:
            worker.close()

    count = min(torch.get_num_threads(), len(lengths) // 4) if workers is None else workers
    if count <= 1:
        share = rows
        work()
        return found
    share = min(rows, width * -(-len(lengths) // count))  # nobody takes all that waits
    crew = Crew(count)
    try:
        for done in crew.together([torch.inference_mode()(work)] * count):
            done.result()
    finally:
        crew.close()
    return found


# ---- searches that ask, and a model that answers all of them in one pass -----------------------------------------


class Reordered(Protocol):
    """What the model remembers of a group."""

    def reorder(self, rows_R: Tensor, /) -> None: ...


G = TypeVar("G", bound=Reordered)
Begin = Callable[[Sequence[int]], tuple[G, Opening]]
"""Some texts, by their numbers -> what the model remembers of them, and how they are opened."""
Answer = Callable[[Sequence[G], Sequence[Tensor]], Sequence[Tensor]]
"""Groups and their new tokens (R, L) -> each group's logits (R, V)."""


@dataclass
class _Group(Generic[G]):
    texts: Sequence[int]
    remembered: G
    asking: Asking
    ask: Ask


class Asked(Generic[G]):
    """Texts that begin together are searched by a search of their own, which does not know of the others."""

    def __init__(self, begin: Begin[G], answer: Answer[G], settings: Search) -> None:
        self._begin, self._answer, self._settings = begin, answer, settings
        self._running: list[_Group[G]] = []

    @property
    def rows(self) -> int:
        return sum(len(each.ask.new_RL) for each in self._running)

    def begin(self, texts: Sequence[int]) -> Found:
        remembered, opening = self._begin(texts)
        each = _Group(texts, remembered, asking(opening, self._settings), Ask(opening.first_BL))
        return self._resume(each, None)

    def go_on(self, most: int, wanted: int) -> Found:
        answered, self._running = self._running, []
        if answered:
            logits = self._answer([each.remembered for each in answered], [each.ask.new_RL for each in answered])
            for each, logits_RV in zip(answered, logits, strict=True):
                yield from self._resume(each, logits_RV)

    def _resume(self, each: _Group[G], logits_RV: Tensor | None) -> Found:
        """Let a search go on with its answer, to its next question or to its end."""
        try:
            each.ask = next(each.asking) if logits_RV is None else each.asking.send(logits_RV)
        except StopIteration as stop:
            return list(zip(each.texts, stop.value, strict=True))
        if each.ask.rows_R is not None:
            each.remembered.reorder(each.ask.rows_R)
        self._running.append(each)
        return []

    def close(self) -> None:
        self._running.clear()
