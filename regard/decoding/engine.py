"""Many texts, one model that is never idle: texts that are done leave, and waiting ones take their place.

Texts wait in the order of their length and begin in groups. Each group is searched by a search of its own, which does
not know of the others; each step, all groups' rows go through the model together.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from regard.crew import crew
from regard.decoding.interface import Ask, Asking, Hypothesis, Opening
from regard.decoding.search import asking
from regard.decoding.settings import Search

ROWS = 256
"""Rows in one pass of one worker, about: more make better matrix products, until keys and values fill the caches."""
TOKENS = 16384
"""Tokens that are read at once, padding included: what bounds the memory of long texts."""
ENOUGH = 4
"""A new group begins when it can fill a quarter of the rows, or when nothing else is under way."""


class Reordered(Protocol):
    """What the model remembers of a group."""

    def reorder(self, rows_R: Tensor, /) -> None: ...


G = TypeVar("G", bound=Reordered)
Begin = Callable[[Sequence[int]], tuple[G, Opening]]
"""Some texts, by their numbers -> what the model remembers of them, and how they are opened."""
Answer = Callable[[Sequence[G], Sequence[Tensor]], Sequence[Tensor]]
"""Groups and their new tokens (R, L) -> each group's logits (R, V)."""


@dataclass
class _Running(Generic[G]):
    texts: Sequence[int]
    group: G
    asking: Asking
    ask: Ask


def run(
    begin: Begin[G],
    answer: Answer[G],
    lengths: Sequence[int],
    settings: Search,
    *,
    rows: int = ROWS,
    workers: int | None = None,
) -> list[list[Hypothesis]]:
    """Search for every text; `lengths` says how long each is, more or less, for those alike to go together.

    Where there are texts enough, every core has a worker with groups of its own.
    """
    waiting = deque(sorted(range(len(lengths)), key=lambda text: -lengths[text]))  # the longest take longest
    found: list[list[Hypothesis]] = [[] for _ in lengths]
    width = max(settings.beam, settings.n_best)

    def take(room: int) -> list[int]:
        """The next texts that fit: so many, and so many tokens."""
        with lock:
            texts: list[int] = []
            while waiting and len(texts) < room and (1 + len(texts)) * lengths[(texts or waiting)[0]] <= TOKENS:
                texts.append(waiting.popleft())
            return texts or ([waiting.popleft()] if waiting and room > 0 else [])

    def work() -> None:
        running: list[_Running[G]] = []
        while waiting or running:
            room = (share - sum(len(each.ask.new_RL) for each in running)) // width
            if waiting and (not running or room >= share // width // ENOUGH):
                texts = take(max(room, 1))
                if texts:
                    group, opening = begin(texts)
                    each = _Running(texts, group, asking(opening, settings), Ask(opening.first_BL))
                    _go_on(each, None, running, found)
            logits = answer([each.group for each in running], [each.ask.new_RL for each in running]) if running else []
            answered, running = running, []
            for each, logits_RV in zip(answered, logits, strict=True):
                _go_on(each, logits_RV, running, found)

    lock = Lock()
    count = min(torch.get_num_threads(), len(lengths) // 4) if workers is None else workers
    if count <= 1:
        share = rows
        work()
        return found
    share = min(rows, width * -(-len(lengths) // count))  # nobody takes all that waits
    with crew(count) as pool:
        for done in [pool.submit(torch.inference_mode()(work)) for _ in range(count)]:
            done.result()
    return found


def _go_on(
    each: _Running[G], logits_RV: Tensor | None, running: list[_Running[G]], found: list[list[Hypothesis]]
) -> None:
    """Let a search go on with its answer, to its next question or to its end."""
    try:
        each.ask = next(each.asking) if logits_RV is None else each.asking.send(logits_RV)
    except StopIteration as stop:
        for text, hypotheses in zip(each.texts, stop.value, strict=True):
            found[text] = hypotheses
        return
    if each.ask.rows_R is not None:
        each.group.reorder(each.ask.rows_R)
    running.append(each)
