"""A crew's threads have their share of torch's threads, in each of the places where a number of threads is kept."""

import re
from collections.abc import Iterator

import pytest
import torch

from regard.cpu.thread_pool import ThreadPool


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def numbers() -> tuple[int, ...]:
    torch.ones(1 << 20).sum()  # a thread's first operation is where it takes over the number for all
    said = torch.__config__.parallel_info()
    return tuple(int(found) for found in re.findall(r"(?:get_num_threads|max_threads)\(\) : (\d+)", said))


def test_each_has_its_share_and_the_caller_has_the_whole() -> None:
    before = numbers()
    assert set(before) == {4}
    crew = ThreadPool(2)
    try:
        for _ in range(2):
            assert [set(done.result()) for done in crew.run_all([numbers, numbers])] == [{2}, {2}]
            assert numbers() == before
    finally:
        crew.close()


def test_what_fails_is_told_and_the_whole_comes_back() -> None:
    def fail() -> None:
        raise ValueError("no")

    crew = ThreadPool(2)
    try:
        first, second = crew.run_all([fail, lambda: None])
        assert isinstance(first.exception(), ValueError)
        assert second.exception() is None
        assert set(numbers()) == {4}
    finally:
        crew.close()
