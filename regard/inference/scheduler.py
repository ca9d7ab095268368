"""Continuous batching: requests that are done leave, waiting ones take their place, and new ones may come at any time.

    handle = scheduler.submit(request)      # from any thread, while it runs
    handle.result()                         # or handle.tokens(), handle.cancel()
    scheduler.run(requests)                 # submit all, wait for all

Whoever waits for a result does the work: no thread of its own is needed for a script, and a single sentence is not
handed from thread to thread. `start` gives the scheduler threads, for a server. Each thread takes turns with a worker:
begin requests for which there is room, make a step, deliver what is finished.

A client's requests wait in the order of their length, the longest first, since they take longest; clients take turns,
so that one with ten thousand lines does not starve one with a word. The queue is bounded.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import count
from threading import Condition, Thread, current_thread

from regard.cpu import threads
from regard.cpu.threads import ThreadPool
from regard.decoding.hypothesis import Hypothesis
from regard.errors import Cancelled, QueueFull
from regard.inference.backend import Backend, SpecialTokens
from regard.inference.requests import Handle, Request
from regard.inference.worker import Worker

MAX_ROWS = 96
"""Rows in one pass of one worker, about: more make better matrix products, and a larger kv cache."""
MAX_TEXTS = 48
"""Texts of a whole search in one worker: rows of one text share its keys, each other text needs its own."""
MAX_ENCODE = 16384
"""Tokens that are encoded at once, padding included: this bounds the memory of long texts."""
REFILL = 4
"""New requests begin when they can fill a quarter of the rows, or when nothing else is under way."""
MAX_HELD = 1536
"""Tokens of the texts that one worker has under way, about: of long texts there are fewer at a time."""
MAX_QUEUED = 1_000_000
"""Requests that may wait."""
TURN = 8
"""Steps between two looks at deadlines and at requests that were cancelled."""


class Scheduler:
    """Runs requests on one backend."""

    def __init__(
        self, backend: Backend, tokens: SpecialTokens, *, max_rows: int = MAX_ROWS, max_queued: int = MAX_QUEUED
    ) -> None:
        self.backend, self.tokens = backend, tokens
        self.max_rows, self.max_queued = max_rows, max_queued
        self.changed = Condition()
        self._queue = Queue()
        self._idle: list[Slot] = []  # workers that no thread is using; some have requests under way
        self._busy: list[Slot] = []
        self._threads: list[Thread] = []
        self._expected = 0  # workers that are about to begin
        self._closing = False

    def submit(self, request: Request, *, client: str = "", timeout: float | None = None) -> Handle:
        """Queue a request; `timeout` is in seconds from now. Raises `QueueFull` when too many are waiting."""
        deadline = None if timeout is None else time.monotonic() + timeout
        handle = Handle(request, client, deadline, self)
        with self.changed:
            if len(self._queue) >= self.max_queued:
                raise QueueFull(f"{len(self._queue):,} requests are waiting; try again later")
            self._queue.add(handle)
            self.changed.notify()
        return handle

    def run(
        self, requests: Iterable[Request], *, client: str = "", workers: int | None = None
    ) -> list[list[Hypothesis]]:
        """The hypotheses of every request, in order; on as many threads as pay."""
        handles = [self.submit(request, client=client) for request in requests]
        left = deque(handles)

        def done() -> bool:
            with suppress(IndexError):  # several threads ask
                while left[0].done:
                    left.popleft()
            return not left

        self.wait_for(done, workers=workers or self._useful(handles))
        return [handle.result() for handle in handles]

    def _useful(self, handles: Sequence[Handle]) -> int:
        """How many threads are worth their while: each wants a few texts, and steps that do not wait for Python."""
        if not handles or not (self.backend.parallel_steps or self._whole(handles[0].request)):
            return 1
        return max(1, min(threads.current_threads(), len(handles) // 4))

    def _whole(self, request: Request) -> bool:
        return not request.streams and self.backend.supports(request.settings)

    def wait_for(self, done: Callable[[], bool], timeout: float | None = None, *, workers: int = 1) -> None:
        """Wait until `done`, and do the work meanwhile where the scheduler has no threads of its own."""
        if workers > 1 and not self._threads:
            pool = ThreadPool(workers)
            self._expected += workers
            try:
                for future in pool.run_all([lambda: self._drive(done)] * workers):
                    future.result()
            finally:
                self._expected -= workers
                pool.close()
        else:
            self._drive(done, timeout)

    def start(self, workers: int | None = None) -> None:
        """Give the scheduler threads of its own; `close` ends them."""
        for number in range(workers or threads.current_threads()):
            thread = Thread(target=self._serve, name=f"scheduler-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """End the scheduler's threads. Requests that wait or are under way are cancelled."""
        with self.changed:
            self._closing = True
            self.changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._threads = []
        for slot in [*self._idle, *self._busy]:
            cancelled = Cancelled("the scheduler was closed")
            self._finish(slot, [(handle, None, cancelled) for handle in slot.worker.handles])
            slot.worker.close()
        while self._queue:
            self._queue.pop().finish(None, Cancelled("the scheduler was closed"))
        self._idle, self._busy = [], []

    # ---- turns ----

    def _serve(self) -> None:
        while not self._closing:
            self._drive(lambda: self._closing)

    def _drive(self, done: Callable[[], bool], timeout: float | None = None) -> None:
        """Take turns until `done`; wait where other threads do the work."""
        until = None if timeout is None else time.monotonic() + timeout
        works = not self._threads or current_thread() in self._threads
        while not done():
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return
            slot = self._acquire() if works else None
            if slot is None:
                with self.changed:
                    if not done() and not (works and self._has_work()):
                        self.changed.wait(left)
                continue
            try:
                self._turn(slot)
            finally:
                self._release(slot)

    def _has_work(self) -> bool:
        return bool(self._queue) or any(slot.worker.rows for slot in self._idle)

    def _acquire(self) -> Slot | None:
        """A worker with something to do; a new one where requests wait and all are in use."""
        with self.changed:
            for slot in self._idle:
                if slot.worker.rows:
                    self._idle.remove(slot)
                    self._busy.append(slot)
                    return slot
            if not self._queue:
                return None
            slot = self._idle.pop() if self._idle else Slot(Worker(self.backend, self.tokens))
            self._busy.append(slot)
            return slot

    def _release(self, slot: Slot) -> None:
        with self.changed:
            self._busy.remove(slot)
            if slot.worker.rows:
                self._idle.append(slot)
            else:
                slot.worker.close()
            self.changed.notify_all()

    def _turn(self, slot: Slot) -> None:
        """Begin what there is room for, make a step, deliver what is finished."""
        worker = slot.worker
        try:
            self._finish(slot, [(handle, None, reason) for handle, reason in worker.drop_expired()])
            head = self._queue.head
            rows = head.request.settings.rows if head else 1
            most = self._most_rows(head)
            if head and (not worker.rows or most - worker.rows >= most // REFILL):
                handles = self._take(slot, most - worker.rows)
                self._finish(slot, [(handle, found, None) for handle, found in worker.add(handles)])
            wanted = max(most // REFILL, rows) if head else most
            for handle, found in worker.step(most, wanted, self._max_steps(worker)):
                self._finish(slot, [(handle, found, None)])
        except BaseException as error:
            self._finish(slot, [(handle, None, error) for handle in worker.handles])
            worker.close()
            if not isinstance(error, Exception):
                raise

    def _max_steps(self, worker: Worker) -> int:
        """A whole search runs in one piece unless somebody may want to stop it, or has threads of its own to share."""
        impatient = self._threads or any(handle.deadline is not None for handle in worker.handles)
        return TURN if impatient else 0

    def _most_rows(self, head: Handle | None) -> int:
        """Rows that a worker may have now, by the next request in the queue."""
        if head is None:
            return self.max_rows
        rows = head.request.settings.rows
        most = min(self.max_rows, MAX_TEXTS * rows) if self._whole(head.request) else self.max_rows
        held = rows * (MAX_HELD // max(len(head.request.ids), 1))
        return max(most // REFILL, min(most, held), rows)

    def _take(self, slot: Slot, free: int) -> list[Handle]:
        """The next requests that fit: rows and tokens; of the last ones, what keeps all workers equally busy."""
        with self.changed:
            handles: list[Handle] = []
            workers = max(len(self._busy) + len(self._idle), self._expected)
            under_way = sum(each.texts for each in self._busy) + sum(each.texts for each in self._idle)
            fair = -(-(len(self._queue) + under_way) // workers) - slot.texts
            fair = fair if slot.texts else max(fair, 1)
            longest = rows = 0
            while (head := self._queue.head) and len(handles) < fair:
                longest, rows = max(longest, len(head.request.ids)), rows + head.request.settings.rows
                if handles and (rows > free or (1 + len(handles)) * longest > MAX_ENCODE):
                    break
                handle = self._queue.pop()
                if error := handle.expired():
                    handle.finish(None, error)
                else:
                    handles.append(handle)
            slot.texts += len(handles)
            return handles

    def _finish(
        self, slot: Slot, finished: Iterable[tuple[Handle, list[Hypothesis] | None, BaseException | None]]
    ) -> None:
        for handle, hypotheses, error in finished:
            slot.texts -= 1
            handle.finish(hypotheses, error)


class Slot:
    """A worker and how many texts it has under way. One thread at a time uses it."""

    def __init__(self, worker: Worker) -> None:
        self.worker, self.texts = worker, 0


class Queue:
    """Waiting requests: the longest of each client first, and clients in turn."""

    def __init__(self) -> None:
        self._clients: deque[str] = deque()
        self._waiting: dict[str, list[tuple[int, int, Handle]]] = {}
        self._order = count()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, handle: Handle) -> None:
        if handle.client not in self._waiting:
            self._clients.append(handle.client)
            self._waiting[handle.client] = []
        heapq.heappush(self._waiting[handle.client], (-len(handle.request.ids), next(self._order), handle))
        self._length += 1

    @property
    def head(self) -> Handle | None:
        """The request that `pop` would give."""
        return self._waiting[self._clients[0]][0][2] if self._clients else None

    def pop(self) -> Handle:
        client = self._clients.popleft()
        handle = heapq.heappop(self._waiting[client])[2]
        self._length -= 1
        if self._waiting[client]:
            self._clients.append(client)
        else:
            del self._waiting[client]
        return handle
