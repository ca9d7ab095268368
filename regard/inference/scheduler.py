"""Many texts, one model that is never idle: texts that are done leave, and waiting ones take their place.

Texts wait in the order of their length. Every core has a worker, which begins some of them together when it has room.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Protocol

from regard.cpu import threads
from regard.cpu.thread_pool import ThreadPool
from regard.decoding.hypothesis import Hypothesis

ROWS = 96
"""Rows in one pass of one worker, about: more make better matrix products, and more keys and values to hold."""
TOKENS = 16384
"""Tokens that are read at once, padding included: what bounds the memory of long texts."""
ENOUGH = 4
"""New texts begin when they can fill a quarter of the rows, or when nothing else is under way."""
HELD = 1536
"""Tokens of texts that one worker has under way, about: of long texts there are fewer at a time, down to a quarter."""

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

    def take(me: int, room: int) -> list[int]:
        """The next texts that fit: so many, and so many tokens; of the last ones, what makes all equally busy."""
        with lock:
            texts: list[int] = []
            fair = -(-(len(waiting) + sum(busy)) // len(busy)) - busy[me]
            room = min(room, fair if busy[me] else max(fair, 1))
            while waiting and len(texts) < room and (1 + len(texts)) * lengths[(texts or waiting)[0]] <= TOKENS:
                texts.append(waiting.popleft())
            if waiting and not texts and room > 0:
                texts.append(waiting.popleft())
            busy[me] += len(texts)
            return texts

    def work(me: int) -> None:
        worker = hire()
        try:
            while waiting or worker.rows:
                most = share
                with suppress(IndexError):  # another worker may have taken the last
                    most = max(share // ENOUGH, min(share, width * (HELD // max(lengths[waiting[0]], 1))))
                room = (most - worker.rows) // width
                if waiting and (not worker.rows or room >= most // width // ENOUGH):
                    texts = take(me, max(room, 1))
                    for text, hypotheses in worker.begin(texts) if texts else ():
                        found[text] = hypotheses
                wanted = max(most // ENOUGH, width) if waiting else most
                for text, hypotheses in worker.go_on(most, wanted):
                    found[text] = hypotheses
                busy[me] = worker.rows // width
        finally:
            worker.close()

    count = min(threads.current_threads(), len(lengths) // 4) if workers is None else workers
    busy = [0] * max(count, 1)  # how many texts each worker has under way
    if count <= 1:
        share = rows
        work(0)
        return found
    share = min(rows, width * -(-len(lengths) // count))  # nobody takes all that waits
    crew = ThreadPool(count)
    try:
        for done in crew.run_all([partial(work, me) for me in range(count)]):
            done.result()
    finally:
        crew.close()
    return found
