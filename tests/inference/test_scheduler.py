"""How texts are dealt to workers. What comes out is tested in tests/properties, with models."""

from collections.abc import Sequence
from threading import Barrier

import pytest

from regard.inference.scheduler import Found, run

ALL_THERE = 20
"""Seconds after which a worker that never comes is a failure."""


class Counting:
    """Finishes `pace` texts with every step, and notes how many it was given at a time."""

    def __init__(self, log: list[int], pace: int, width: int, together: Barrier | None = None) -> None:
        self.log, self.pace, self.width, self.together = log, pace, width, together
        self.under_way: list[int] = []

    @property
    def rows(self) -> int:
        return self.width * len(self.under_way)

    def begin(self, texts: Sequence[int]) -> Found:
        if self.together is not None and not self.log:
            self.together.wait(ALL_THERE)
        self.log.append(len(texts))
        self.under_way += texts
        return []

    def go_on(self, most: int, wanted: int) -> Found:
        done, self.under_way = self.under_way[: self.pace], self.under_way[self.pace :]
        return [(text, []) for text in done]

    def close(self) -> None: ...


def deal(count: int, paces: Sequence[int], *, rows: int, width: int = 1) -> list[list[int]]:
    """How many texts each worker was given, each time; all begin together."""
    logs: list[list[int]] = [[] for _ in paces]
    together = Barrier(len(paces))
    workers = iter([Counting(log, pace, width, together) for log, pace in zip(logs, paces, strict=True)])
    run(lambda: next(workers), [7] * count, width, rows=rows, workers=len(paces))
    assert sum(map(sum, logs)) == count
    return logs


@pytest.mark.parametrize(("count", "width"), [(96, 1), (95, 1), (24, 4)])
def test_what_fits_is_halved(count: int, width: int) -> None:
    first, second = deal(count, [1, 1], rows=96, width=width)
    assert abs(first[0] - second[0]) <= 1, "nobody works through a few while another has many"
    assert first[0] + second[0] == count


def test_the_quicker_worker_takes_more() -> None:
    slow, quick = deal(1000, [1, 50], rows=96)
    assert sum(quick) > sum(slow)


def test_one_alone_takes_what_it_has_rows_for() -> None:
    (log,) = deal(10, [1], rows=4)
    assert log[0] == 4
    assert len(log) == 7, "then one by one: a quarter of its rows is room enough"
