"""Threads that each have a share of the threads, for work that is better shared out whole.

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

from regard.cpu import threads

T = TypeVar("T")


class ThreadPool:
    """So many threads; the caller's own, which waits while they work, has all of the threads otherwise."""

    def __init__(self, count: int) -> None:
        self._share = max(1, threads.in_use() // count)
        self._pool = ThreadPoolExecutor(count, "crew", initializer=self._start)

    def _start(self) -> None:
        threads.take(self._share)

    def run_all(self, tasks: Sequence[Callable[[], T]]) -> list[Future[T]]:
        """What became of each task, when all of them are done."""
        with threads.everywhere(self._share):
            waiting = [self._pool.submit(task) for task in tasks]
            wait(waiting)
        return waiting

    def close(self) -> None:
        self._pool.shutdown()
