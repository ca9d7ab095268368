"""Continuous batching: finished requests leave, waiting ones take their place, and new ones may come at any time.

    handle = scheduler.submit(request)      # from any thread, while it runs
    handle.result()                         # or handle.tokens(), handle.cancel()
    scheduler.run(requests)                 # submit all, wait for all

Whoever waits for a result does the work: a script needs no other thread, and a single sentence is not handed from
thread to thread. `start` gives the scheduler threads of its own, for long streams and for a server. Each thread takes
turns with a worker: begin requests for which there is space, make a step, deliver what is finished.

Whole searches of the backend and searches that go step by step have a lane each. Steps run in Python, so two threads
that step small models would only wait for each other: where the backend says so, their lane has one worker.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import Condition, RLock, Thread, current_thread

from regard.cpu import threads
from regard.cpu.threads import ThreadPool
from regard.decoding.hypothesis import Hypothesis
from regard.errors import Cancelled, QueueFull
from regard.inference.backend import Backend, SpecialTokens
from regard.inference.requests import Handle, Request, RequestQueue
from regard.inference.worker import Worker

MAX_ROWS = 96
"""Rows in one pass of one worker, about: more make better matrix products, and a larger kv cache."""
MAX_TEXTS = 48
"""Texts of a whole search in one worker: rows of one text share its keys, each other text needs its own."""
MAX_ENCODE = 16384
"""Tokens encoded at once, padding included: this bounds the memory of long texts."""
REFILL = 4
"""New requests begin when they can fill a quarter of the rows, or when nothing else is under way."""
MAX_HELD = 1536
"""Tokens of the texts that one worker has under way, about: of long texts there are fewer at a time."""
MAX_QUEUED = 1_000_000
"""Requests that may wait."""
TURN = 4
"""Steps between two looks at deadlines and cancelled requests, where there may be some."""


class Slot:
    """A worker and how many texts it has under way. One thread at a time uses it."""

    def __init__(self, lane: Lane, worker: Worker) -> None:
        self.lane, self.worker, self.texts = lane, worker, 0


class Lane:
    """One kind of requests, whole searches or steps: those that wait, and the workers that have some under way."""

    def __init__(self, *, max_texts: int, max_workers: int | None, eager: bool) -> None:
        """`eager`: a request that joins others costs little; a search loop of its own costs Python a step."""
        self.max_texts, self.max_workers, self.eager = max_texts, max_workers, eager
        self.queue = RequestQueue()
        self.idle: deque[Slot] = deque()  # no thread is using them, but they have requests under way
        self.busy: list[Slot] = []
        self.expected = 0  # workers about to begin

    @property
    def has_work(self) -> bool:
        return bool(self.idle) or (len(self.queue) > 0 and self.may_grow)

    @property
    def may_grow(self) -> bool:
        return self.max_workers is None or len(self.busy) + len(self.idle) < self.max_workers

    def max_rows(self, most: int) -> int:
        """Rows that a worker may have now, by the next request in the queue."""
        head = self.queue.head
        if head is None:
            return most
        rows = head.request.settings.rows
        most = min(most, self.max_texts * rows)
        held = rows * (MAX_HELD // max(len(head.request.ids), 1))
        return max(most // REFILL, min(most, held), rows)

    def may_begin(self, rows: int, most: int) -> bool:
        """If a worker with `rows` under way should begin requests now: several at once, unless one cannot wait."""
        head = self.queue.head
        if head is None or not rows:
            return head is not None
        enough = most // REFILL
        several = len(self.queue) * head.request.settings.rows >= enough
        return most - rows >= enough and (several or self.eager or head.request.streams or head.deadline is not None)

    def take(self, slot: Slot, free: int) -> list[Handle]:
        """The next requests that fit: rows and tokens; of the last ones, what keeps all workers equally busy."""
        handles: list[Handle] = []
        slots = [*self.busy, *self.idle]
        under_way = sum(each.texts for each in slots)
        fair = -(-(len(self.queue) + under_way) // max(len(slots), self.expected)) - slot.texts
        fair = fair if slot.texts else max(fair, 1)
        longest = rows = 0
        while (head := self.queue.head) and len(handles) < fair:
            longest, rows = max(longest, len(head.request.ids)), rows + head.request.settings.rows
            if handles and (rows > free or (1 + len(handles)) * longest > MAX_ENCODE):
                break
            handles.append(self.queue.pop())
        slot.texts += len(handles)
        return handles


class Scheduler:
    """Runs requests on one backend."""

    def __init__(
        self, backend: Backend, tokens: SpecialTokens, *, max_rows: int = MAX_ROWS, max_queued: int = MAX_QUEUED
    ) -> None:
        self.backend, self.tokens = backend, tokens
        self.max_rows, self.max_queued = max_rows, max_queued
        lock = RLock()
        self.changed = Condition(lock)  # something is finished
        self._work = Condition(lock)  # something waits
        self._whole = Lane(max_texts=MAX_TEXTS, max_workers=None, eager=True)
        self._steps = Lane(max_texts=max_rows, max_workers=None if backend.parallel_steps else 1, eager=False)
        self._lanes = deque([self._whole, self._steps])
        self._threads: list[Thread] = []
        self._closing = False
        self._cores = 1
        self._cancelled = 0
        """Requests that were cancelled and have not left yet."""

    def submit(self, request: Request, *, client: str = "", timeout: float | None = None) -> Handle:
        """Queue a request; `timeout` is in seconds from now. Raises `QueueFull` when too many are waiting."""
        deadline = None if timeout is None else time.monotonic() + timeout
        (handle,) = self._submit([request], client, deadline)
        return handle

    def _submit(self, requests: Iterable[Request], client: str, deadline: float | None = None) -> list[Handle]:
        handles = [Handle(request, client, deadline, self) for request in requests]
        with self.changed:
            waiting = len(self._whole.queue) + len(self._steps.queue)
            if waiting + len(handles) > self.max_queued:
                raise QueueFull(f"{waiting:,} requests are waiting; try again later")
            settings, supported = None, False
            for handle in handles:
                request = handle.request
                if request.settings is not settings:
                    settings, supported = request.settings, self.backend.supports(request.settings)
                handle.whole = supported and not request.streams and not request.prefix
                self._lane(handle).queue.add(handle)
            self._work.notify(len(handles))
        return handles

    def note_cancelled(self, handle: Handle) -> None:
        """Drop a request with the next turn of its worker; `Handle.cancel` calls this."""
        with self.changed:
            if not handle.done and not handle.cancelled:
                handle.cancelled = True
                self._cancelled += 1
            self.changed.notify_all()

    def _lane(self, handle: Handle) -> Lane:
        return self._whole if handle.whole else self._steps

    def run(
        self, requests: Iterable[Request], *, client: str = "", workers: int | None = None
    ) -> list[list[Hypothesis]]:
        """The hypotheses of every request, in order; on as many threads as pay."""
        handles = self._submit(requests, client)
        if not handles:
            return []
        left = deque(handles)

        def done() -> bool:
            with suppress(IndexError):  # several threads ask
                while left[0].done:
                    left.popleft()
            return not left

        lane = self._lane(handles[0])
        if workers is None:  # each wants a few texts
            workers = min(threads.current_threads(), len(handles) // 4) if lane.max_workers is None else 1
        try:
            if workers > 1 and not self._threads:
                lane.expected = workers
                self._run_pool(done, workers, handles)
            else:
                self.wait_for(done)
        except BaseException:  # Ctrl-C: nobody will ask for the rest
            _cancel(handles)
            raise
        finally:
            lane.expected = 0
        return [handle.result() for handle in handles]

    def _run_pool(self, done: Callable[[], bool], workers: int, handles: Sequence[Handle]) -> None:
        pool = ThreadPool(workers)
        try:
            for future in pool.run_all([lambda: self.wait_for(done)] * workers):
                future.result()
        except BaseException:  # this thread only waits, so Ctrl-C ends the wait and not the work
            _cancel(handles)
            raise
        finally:
            pool.close()

    # ---- threads of its own ----

    @property
    def has_threads(self) -> bool:
        return bool(self._threads)

    def start(self, workers: int | None = None) -> None:
        """Give the scheduler threads of its own; `close` ends them."""
        self._closing = False
        self._cores = threads.current_threads()
        count = workers or self._cores
        share = max(1, self._cores // count)
        for number in range(count):
            thread = Thread(target=self._serve, args=(share,), name=f"scheduler-{number}", daemon=True)
            self._threads.append(thread)
        for thread in self._threads:
            thread.start()

    def _serve(self, share: int) -> None:
        threads.set_share(share)
        try:
            self.wait_for(lambda: self._closing)
        except BaseException as error:
            self._drop_all(error)  # whoever waits for a result must not wait for a thread that is gone
            raise

    def close(self) -> None:
        """End the scheduler's threads. Requests that wait or are under way are cancelled."""
        with self.changed:
            self._closing = True
            self._work.notify_all()
        for thread in self._threads:
            thread.join()
        self._threads = []
        self._drop_all(Cancelled("the scheduler was closed"))

    def _drop_all(self, reason: BaseException) -> None:
        """End the requests that wait, and those under way that no thread is working on."""
        with self.changed:
            for lane in (self._whole, self._steps):
                for slot in lane.idle:
                    self._drop(slot, reason)
                lane.idle.clear()
                while lane.queue:
                    self._leave(lane.queue.pop(), None, reason)
            self.changed.notify_all()

    def _drop(self, slot: Slot, reason: BaseException) -> None:
        self._finish(slot, [(handle, None, reason) for handle in slot.worker.handles if not handle.done])
        slot.worker.close()

    # ---- turns ----

    def wait_for(self, done: Callable[[], bool], timeout: float | None = None) -> None:
        """Wait until `done`. Take turns meanwhile, unless the scheduler has threads that do."""
        until = None if timeout is None else time.monotonic() + timeout
        works = not self._threads or current_thread() in self._threads
        news = self._work if current_thread() in self._threads else self.changed
        while not done():
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return
            with self.changed:
                slot = self._acquire() if works else None
                busy = len(self._whole.busy) + len(self._steps.busy)
                if slot is None and not done():
                    news.wait(left)
            if slot is not None:
                try:
                    if self._threads:  # whoever works alone has all cores
                        threads.set_native_share(max(1, self._cores // busy))
                    self._turn(slot)
                except BaseException as error:
                    self._drop(slot, error)
                    raise
                finally:
                    self._release(slot)

    def _acquire(self) -> Slot | None:
        """A worker with something to do; a new one where requests wait and all are in use."""
        self._lanes.rotate()
        for lane in self._lanes:
            if lane.has_work:
                slot = lane.idle.popleft() if lane.idle else Slot(lane, Worker(self.backend, self.tokens))
                lane.busy.append(slot)
                return slot
        return None

    def _release(self, slot: Slot) -> None:
        with self.changed:
            slot.lane.busy.remove(slot)
            if slot.worker.rows:
                slot.lane.idle.append(slot)
                if self._threads:
                    self._work.notify()
            else:
                slot.worker.close()
            self.changed.notify_all()

    def _turn(self, slot: Slot) -> None:
        """Begin what there is space for, make a step, deliver what is finished."""
        worker, lane = slot.worker, slot.lane
        handles: list[Handle] = []
        try:
            impatient = self._cancelled > 0 or worker.has_deadlines
            if impatient:
                self._finish(slot, [(handle, None, reason) for handle, reason in worker.drop_expired()])
            with self.changed:
                head, most = lane.queue.head, lane.max_rows(self.max_rows)
                free = most - worker.rows
                handles = lane.take(slot, free) if lane.may_begin(worker.rows, most) else []
                expired = [(handle, None, reason) for handle in handles if (reason := handle.expired())]
                wanted = max(most // REFILL, head.request.settings.rows) if lane.queue and head else most
            if expired:
                self._finish(slot, expired)
                handles = [handle for handle in handles if not handle.done]
            self._finish(slot, [(handle, found, None) for handle, found in worker.add(handles)])
            for handle, found in worker.step(most, wanted, TURN if impatient or worker.has_deadlines else 0):
                slot.texts -= 1
                self._leave(handle, found, None)
        except BaseException as error:
            under_way = dict.fromkeys([*worker.handles, *handles])  # not all that were taken may have begun
            self._finish(slot, [(handle, None, error) for handle in under_way if not handle.done])
            worker.close()
            if not isinstance(error, Exception):
                raise

    def _finish(
        self, slot: Slot, finished: Iterable[tuple[Handle, list[Hypothesis] | None, BaseException | None]]
    ) -> None:
        for handle, hypotheses, error in finished:
            slot.texts -= 1
            self._leave(handle, hypotheses, error)

    def _leave(self, handle: Handle, hypotheses: list[Hypothesis] | None, error: BaseException | None) -> None:
        if handle.cancelled:
            with self.changed:
                self._cancelled -= 1
        handle.finish(hypotheses, error)


def _cancel(handles: Iterable[Handle]) -> None:
    for handle in handles:
        handle.cancel()
