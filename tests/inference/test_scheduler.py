"""The scheduler: how requests are dealt to workers, and what a handle can do.

What comes out of real models is tested in tests/properties.
"""

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from threading import Barrier, BrokenBarrierError

import pytest

from regard.cpu import threads
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import SearchSettings
from regard.errors import Cancelled, DeadlineExceeded, ModelError, QueueFull
from regard.inference.backend import SpecialTokens
from regard.inference.requests import Handle, Request, RequestQueue
from regard.inference.scheduler import Scheduler

ALL_THERE = 20
"""Seconds after which a worker that never comes is a failure."""
TOKENS = SpecialTokens(start=1, end=(2,), pad=0)


class Log:
    """What happened in one fake search: how many requests it was given at a time, and which finished when."""

    def __init__(self) -> None:
        self.added: list[int] = []
        self.cancelled: list[int] = []


class CountingSearch:
    """A whole search that finishes `pace` requests with every turn."""

    def __init__(self, backend: "CountingBackend", log: Log, pace: int, rows: int) -> None:
        self.backend, self.log, self.pace, self.width = backend, log, pace, rows
        self.under_way: list[tuple[int, int]] = []

    @property
    def rows(self) -> int:
        return self.width * len(self.under_way)

    def fits(self, source: int, max_tokens: int) -> bool:
        return True

    def add(self, numbers: Sequence[int], sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        if not self.log.added:
            self.backend.gather()
        self.log.added.append(len(numbers))
        self.under_way += [(number, source[0]) for number, source in zip(numbers, sources, strict=True)]

    def step(self, max_rows: int, wanted: int, max_steps: int = 0) -> Iterator[tuple[int, list[Hypothesis]]]:
        if self.backend.broken:
            raise ModelError("broken")
        time.sleep(self.backend.seconds)
        done, self.under_way = self.under_way[: self.pace], self.under_way[self.pace :]
        for number, name in done:
            self.backend.finished.append(name)
            yield number, [Hypothesis(tokens=[name], score=0.0, log_probs=[0.0], end=None)]

    def cancel(self, number: int) -> None:
        self.log.cancelled.append(number)
        self.under_way = [pair for pair in self.under_way if pair[0] != number]

    def close(self) -> None: ...


class CountingBackend:
    """Gives out one search per worker, in order."""

    topk = None
    parallel_steps = True

    def __init__(self, paces: Sequence[int], *, rows: int = 1, together: bool = False, seconds: float = 0.0) -> None:
        self.logs = [Log() for _ in paces]
        self._searches = iter(
            [CountingSearch(self, log, pace, rows) for log, pace in zip(self.logs, paces, strict=True)]
        )
        self._lock = threading.Lock()
        self._barrier = Barrier(len(paces)) if together else None
        self.seconds, self.broken = seconds, False
        self.finished: list[int] = []

    def gather(self) -> None:
        if self._barrier is not None:
            try:
                self._barrier.wait(ALL_THERE)
            except BrokenBarrierError:
                raise AssertionError("a worker never came") from None

    def supports(self, settings: SearchSettings) -> bool:
        return True

    def search(
        self, settings: SearchSettings, tokens: SpecialTokens, *, source: int, max_tokens: int
    ) -> CountingSearch:
        with self._lock:
            return next(self._searches)

    def encode(self, *_: object) -> object:
        raise AssertionError("every request runs as a whole search")

    step = encode


def request(name: int = 7, *, length: int = 7, beam: int = 1) -> Request:
    return Request(ids=[name] * length, settings=SearchSettings(beam=beam), max_tokens=9)


def deal(count: int, paces: Sequence[int], *, rows: int, width: int = 1) -> list[list[int]]:
    """How many requests each worker was given, each time; all begin together."""
    backend = CountingBackend(paces, rows=width, together=True)
    scheduler = Scheduler(backend, TOKENS, max_rows=rows)  # type: ignore[arg-type]
    found = scheduler.run([request(beam=width) for _ in range(count)], workers=len(paces))
    assert len(found) == count
    assert sum(sum(log.added) for log in backend.logs) == count
    return [log.added for log in backend.logs]


@pytest.mark.parametrize(("count", "width"), [(96, 1), (95, 1), (24, 4)])
def test_what_fits_is_halved(count: int, width: int) -> None:
    first, second = deal(count, [1, 1], rows=96, width=width)
    assert abs(first[0] - second[0]) <= 1, "nobody works through a few while another has many"
    assert first[0] + second[0] == count


def test_the_quicker_worker_takes_more() -> None:
    slow, quick = deal(1000, [1, 40], rows=96)
    assert sum(quick) > sum(slow)


def test_one_alone_takes_what_it_has_rows_for() -> None:
    (log,) = deal(10, [1], rows=4)
    assert log[0] == 4
    assert len(log) == 7, "then one by one: a quarter of its rows is enough"


# ---- handles ----


def scheduler(**options: float) -> Scheduler:
    return Scheduler(CountingBackend([1] * 64, seconds=options.pop("seconds", 0.0)), TOKENS, **options)  # type: ignore[arg-type]


def test_submitting_while_others_run() -> None:
    own = scheduler()
    first = own.submit(request(1))
    assert first.result()[0].tokens == [1]
    handles = [own.submit(request(number)) for number in range(5)]
    assert [handle.result()[0].tokens for handle in handles] == [[number] for number in range(5)]
    assert "done" in repr(handles[0])


def test_threads_of_its_own_serve_many_submitters() -> None:
    own = scheduler()
    own.start(2)
    found: dict[int, list[int]] = {}

    def submitter(number: int) -> None:
        found[number] = own.submit(request(number), client=str(number)).result(ALL_THERE)[0].tokens

    submitters = [threading.Thread(target=submitter, args=(number,)) for number in range(8)]
    for thread in submitters:
        thread.start()
    for thread in submitters:
        thread.join()
    own.close()
    assert found == {number: [number] for number in range(8)}


def test_threads_that_come_and_go_lose_no_request() -> None:
    """Two threads, switched as often as Python can. A thread once died of the other's bookkeeping."""
    own = Scheduler(CountingBackend([1] * 1500), TOKENS)  # type: ignore[arg-type]
    own.start(2)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(300):
            handles = [own.submit(request(number)) for number in range(4)]
            assert [handle.result(ALL_THERE)[0].tokens for handle in handles] == [[number] for number in range(4)]
    finally:
        sys.setswitchinterval(interval)
        own.close()


def test_a_thread_that_dies_tells_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    own = scheduler()

    def broken(share: int) -> None:
        raise RuntimeError("no threads today")

    monkeypatch.setattr(threads, "set_native_share", broken)
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    own.start(1)
    with pytest.raises(RuntimeError, match="no threads today"):
        own.submit(request(1)).result(ALL_THERE)
    own.close()


def test_a_full_queue_refuses() -> None:
    own = scheduler(max_queued=2)
    own.submit(request()), own.submit(request())
    with pytest.raises(QueueFull, match="2 requests are waiting"):
        own.submit(request())


def test_a_cancelled_request_never_runs() -> None:
    own = scheduler()
    first, second = own.submit(request(1)), own.submit(request(2))
    first.cancel()
    assert second.result()[0].tokens == [2]
    with pytest.raises(Cancelled):
        first.result()
    assert own.backend.finished == [2]  # type: ignore[attr-defined]


def test_a_request_under_way_is_cancelled_and_the_others_finish() -> None:
    own = scheduler(seconds=0.02)
    own.start(1)
    handles = [own.submit(request(number)) for number in range(6)]
    handles[0].result(ALL_THERE)
    handles[5].cancel()
    assert [handle.result(ALL_THERE)[0].tokens for handle in handles[:5]] == [[number] for number in range(5)]
    with pytest.raises(Cancelled):
        handles[5].result(ALL_THERE)
    own.close()
    assert 5 not in own.backend.finished  # type: ignore[attr-defined]


def test_a_deadline_that_passes() -> None:
    own = scheduler(seconds=0.05)
    handles = [own.submit(request(number), timeout=0.12) for number in range(9)]
    assert handles[0].result()[0].tokens == [0]
    with pytest.raises(DeadlineExceeded):
        handles[8].result()


def test_a_result_that_takes_too_long() -> None:
    own = scheduler(seconds=0.2)
    own.start(1)
    handle = own.submit(request())
    with pytest.raises(TimeoutError):
        handle.result(0.01)
    assert handle.result(ALL_THERE)
    own.close()


def test_an_error_reaches_every_submitter_and_the_next_request_runs() -> None:
    own = scheduler()
    own.backend.broken = True  # type: ignore[attr-defined]
    handles = [own.submit(request()) for _ in range(3)]
    for handle in handles:
        with pytest.raises(ModelError, match="broken"):
            handle.result()
    own.backend.broken = False  # type: ignore[attr-defined]
    assert own.submit(request(3)).result()[0].tokens == [3]


def test_closing_cancels_what_waits() -> None:
    own = scheduler(seconds=0.05)
    own.start(1)
    handles = [own.submit(request(number)) for number in range(50)]
    own.close()
    outcomes = []
    for handle in handles:
        assert handle.done
        try:
            outcomes.append(handle.result())
        except Cancelled:
            outcomes.append([])
    assert [] in outcomes


def test_a_callback_when_it_is_done() -> None:
    own, called = scheduler(), list[Handle]()
    handle = own.submit(request())
    handle.add_done_callback(called.append)
    handle.result()
    handle.add_done_callback(called.append)
    assert called == [handle, handle]


# ---- the queue ----


def test_clients_take_turns_and_the_longest_of_each_comes_first() -> None:
    own, queue = scheduler(), RequestQueue()
    for client, length in (("bulk", 3), ("bulk", 9), ("bulk", 5), ("bulk", 4), ("single", 1)):
        queue.add(Handle(request(length=length), client, None, own))
    order = []
    while queue:
        assert queue.head is not None
        order.append((queue.head.client, len(queue.head.request.ids)))
        queue.pop()
    assert order == [("bulk", 9), ("single", 1), ("bulk", 5), ("bulk", 4), ("bulk", 3)]


def test_a_word_is_not_starved_by_ten_thousand_lines() -> None:
    own = scheduler()
    own.max_rows = 4
    bulk = [own.submit(request(1, length=20), client="bulk") for _ in range(10_000)]
    word = own.submit(request(2, length=1), client="word")
    assert word.result()[0].tokens == [2]
    assert sum(handle.done for handle in bulk) < 20
