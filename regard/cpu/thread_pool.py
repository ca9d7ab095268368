"""A pool of threads, each with a share of the cores, for work that divides into whole tasks.

torch spreads one operation at a time over its threads, and between two operations they wait for each other. For all
but large models, two threads that each run their own model can do a third more work than one on both cores.

The trap: torch keeps the number of threads in three places. OpenMP has one for each thread; torch has one for the
process, which a thread adopts at its first operation, whatever was set in it before; MKL has one for the process. So
the share is set in all of them while the pool works, and the full number again afterwards. (With four threads that
wait for each other on two cores, by spinning, training ran at three quarters of its speed.)
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

from regard.cpu import threads

T = TypeVar("T")


class ThreadPool:
    """`count` threads. The caller waits while they work, and has all threads to itself otherwise."""

    def __init__(self, count: int) -> None:
        self._share = max(1, threads.current_threads() // count)
        self._pool = ThreadPoolExecutor(count, "pool", initializer=threads.set_share, initargs=(self._share,))

    def run_all(self, tasks: Sequence[Callable[[], T]]) -> list[Future[T]]:
        """Run the tasks and wait for all of them; each future holds a result or an exception."""
        with threads.limit_torch(self._share):
            futures = [self._pool.submit(task) for task in tasks]
            wait(futures)
        return futures

    def close(self) -> None:
        self._pool.shutdown()
