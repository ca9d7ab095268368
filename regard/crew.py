"""Threads that each have a share of torch's threads, for work that is better shared out whole.

torch spreads one operation at a time over its threads, and between two of them they wait for each other. For all but
large models, two threads that each run a model of their own get a third to a half more done than one on both cores.
"""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import torch


def crew(count: int) -> ThreadPoolExecutor:
    """So many of them; the caller's own thread keeps all of torch's."""
    whole = torch.get_num_threads()
    started = Barrier(count + 1)

    def start() -> None:
        torch.set_num_threads(max(1, whole // count))
        started.wait()

    pool = ThreadPoolExecutor(count, thread_name_prefix="crew")
    for _ in range(count):
        pool.submit(start)
    started.wait()
    torch.set_num_threads(whole)  # what threads that are started later begin with
    return pool
