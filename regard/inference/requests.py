"""A request to a scheduler, the handle that its submitter holds, and the queue in which it waits."""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import SearchSettings
from regard.errors import Cancelled, DeadlineExceeded

if TYPE_CHECKING:
    from regard.inference.scheduler import Scheduler


class Request(NamedTuple):
    """One text to translate or to continue."""

    ids: Sequence[int]
    """The source, or the prompt."""
    settings: SearchSettings
    max_tokens: int
    """Most tokens to generate, the end token included."""
    prefix: Sequence[int] = ()
    """Tokens that the output must begin with."""
    stream: bool = False
    """Whether tokens will be read as they come; greedy search and single samples can stream."""

    @property
    def streams(self) -> bool:
        return self.stream and self.settings.rows == 1


class Handle:
    """What `submit` returns: the request's result, its tokens as they come, and the way to cancel it."""

    def __init__(self, request: Request, client: str, deadline: float | None, scheduler: Scheduler) -> None:
        self.request, self.client, self.deadline = request, client, deadline
        self._scheduler, self._changed = scheduler, scheduler.changed
        self._hypotheses: list[Hypothesis] | None = None
        self._error: BaseException | None = None
        self._tokens: list[int] = []
        """What was streamed."""
        self._callbacks: list[Callable[[Handle], None]] = []
        self.cancelled = False
        self.whole = False
        """Whether the backend runs this search by itself, or it goes step by step; the scheduler decides."""

    def __repr__(self) -> str:
        state = "done" if self.done else "cancelled" if self.cancelled else "under way"
        return f"<Handle of {len(self.request.ids)} tokens, {state}>"

    @property
    def done(self) -> bool:
        return self._hypotheses is not None or self._error is not None

    def result(self, timeout: float | None = None) -> list[Hypothesis]:
        """The hypotheses, best first. Raises what went wrong; `TimeoutError` if it takes longer than `timeout`."""
        if not self.done:
            self._wait(lambda: self.done, timeout)
        if self._error is not None:
            raise self._error
        if self._hypotheses is None:
            raise TimeoutError(f"no result within {timeout} s")
        return self._hypotheses

    def _wait(self, done: Callable[[], bool], timeout: float | None = None) -> None:
        """Until `done`, or until the request must stop: then that is raised, even while it still waits in the queue."""
        left = None if self.deadline is None else self.deadline - time.monotonic()
        if timeout is not None:
            left = timeout if left is None else min(left, timeout)
        self._scheduler.wait_for(lambda: done() or self.cancelled, left)
        if not done() and (error := self.expired()):
            self.cancel()
            raise error

    def tokens(self) -> Iterator[int]:
        """The generated tokens as they come, without the end token. A beam's come all at once, at the end."""
        given: list[int] = []
        while not self.done or len(given) < len(self._tokens):
            self._wait(lambda: len(given) < len(self._tokens) or self.done)
            while len(given) < len(self._tokens):
                given.append(self._tokens[len(given)])
                yield given[-1]
        yield from self.result()[0].tokens[len(given) :]

    def cancel(self) -> None:
        """Stop the request; `result` then raises `Cancelled`. Nothing happens if it is done already."""
        self._scheduler.note_cancelled(self)

    def add_done_callback(self, callback: Callable[[Handle], None]) -> None:
        """Call this with the handle when the request is done, on the thread that finished it."""
        with self._changed:
            if not self.done:
                self._callbacks.append(callback)
                return
        callback(self)

    # ---- for the scheduler ----

    def expired(self) -> BaseException | None:
        """Why the request must stop now, if it must."""
        if self.cancelled:
            return Cancelled("the request was cancelled")
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return DeadlineExceeded("the request's deadline has passed")
        return None

    def push(self, token: int) -> None:
        """One more token for `tokens`."""
        self._tokens.append(token)

    def finish(self, hypotheses: list[Hypothesis] | None, error: BaseException | None = None) -> None:
        with self._changed:  # nobody adds a callback in between
            self._hypotheses, self._error = hypotheses, error
        for callback in self._callbacks:
            callback(self)


class RequestQueue:
    """Requests that wait: clients in turn, so that one with ten thousand lines does not starve one with a word.

    Of each client the longest text first, since it takes longest.
    """

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
