"""Each thread of a pool has its share of torch's threads, in each place where torch keeps their number."""

import re
import threading
from collections.abc import Callable, Iterator

import pytest
import torch

from regard.cpu.threads import ThreadPool


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def numbers() -> tuple[int, ...]:
    torch.ones(1 << 20).sum()  # at its first operation a thread adopts the process's number
    info = torch.__config__.parallel_info()
    return tuple(int(number) for number in re.findall(r"(?:get_num_threads|max_threads)\(\) : (\d+)", info))


def test_each_thread_has_its_share_and_the_caller_all() -> None:
    before = numbers()
    assert set(before) == {4}
    pool = ThreadPool(2)
    try:
        for _ in range(2):
            assert [set(done.result()) for done in pool.run_all([numbers, numbers])] == [{2}, {2}]
            assert numbers() == before
    finally:
        pool.close()


def test_a_failure_is_reported_and_the_caller_has_all_threads_again() -> None:
    def fail() -> None:
        raise ValueError("no")

    pool = ThreadPool(2)
    try:
        first, second = pool.run_all([fail, lambda: None])
        assert isinstance(first.exception(), ValueError)
        assert second.exception() is None
        assert set(numbers()) == {4}
    finally:
        pool.close()


def test_two_pools_at_once_leave_torch_with_all_of_its_threads() -> None:
    """B starts while A is limited and ends after it: B must not take A's limit for the full number."""
    a_runs, b_runs, a_is_done = threading.Event(), threading.Event(), threading.Event()
    after: dict[str, tuple[int, ...]] = {}
    during: list[tuple[int, ...]] = []

    def in_a() -> None:
        a_runs.set()
        assert b_runs.wait(20)

    def in_b() -> None:
        b_runs.set()
        assert a_is_done.wait(20)
        during.append(numbers())

    def run(name: str, task: Callable[[], None]) -> None:
        pool = ThreadPool(2)
        try:
            for future in pool.run_all([task]):
                future.result()
            after[name] = numbers()
        finally:
            pool.close()

    a, b = (threading.Thread(target=run, args=args) for args in (("a", in_a), ("b", in_b)))
    a.start()
    assert a_runs.wait(20)
    b.start()
    a.join(20)
    a_is_done.set()
    b.join(20)
    assert set(during[0]) == {2}, "B's share, after A has left"
    assert {name: set(found) for name, found in after.items()} == {"a": {4}, "b": {4}}
    assert set(numbers()) == {4}
    fresh: list[tuple[int, ...]] = []
    thread = threading.Thread(target=lambda: fresh.append(numbers()))
    thread.start()
    thread.join(20)
    assert set(fresh[0]) == {4}, "a thread that starts afterwards"
