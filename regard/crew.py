"""Threads that each have a share of torch's threads, for work that is better shared out whole.

torch spreads one operation at a time over its threads, and between two of them they wait for each other. For all but
large models, two threads that each run a model of their own can get a third more done than one on both cores.

The trap: torch keeps the number of threads in three places. OpenMP has one for each thread; torch has one for all,
which a thread takes over at its first operation, whatever was set in it before; MKL has one for all. So the share is
set everywhere while the crew works, and the whole again when it is done. (With four threads that wait for each other
on two cores, by spinning, training ran at three quarters of its speed.)
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

import torch

T = TypeVar("T")


class Crew:
    """So many threads; the caller's own, which waits while they work, has all of torch's otherwise."""

    def __init__(self, count: int) -> None:
        self._share = max(1, torch.get_num_threads() // count)
        self._pool = ThreadPoolExecutor(count, "crew", initializer=self._start)

    def _start(self) -> None:
        torch.get_num_threads()  # a thread's first question makes it take over the number for all
        torch.set_num_threads(self._share)

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[Future[T]]:
        """What became of each task, when all of them are done."""
        whole = torch.get_num_threads()
        torch.set_num_threads(self._share)
        try:
            waiting = [self._pool.submit(task) for task in tasks]
            wait(waiting)
        finally:
            torch.set_num_threads(whole)
        return waiting

    def close(self) -> None:
        self._pool.shutdown()
