"""Requests that wait: the longest of each client first, since they take longest, and clients in turn."""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count

from regard.inference.requests import Handle


class RequestQueue:
    """A queue that is fair between clients: one with ten thousand lines does not starve one with a word."""

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
