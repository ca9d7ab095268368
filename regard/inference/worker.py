"""The requests under way on one thread: whole searches of the backend, and searches that go step by step.

Texts that begin together are one search loop; all loops of a worker take each step in one pass through the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import SearchSettings
from regard.inference.backend import Backend, SpecialTokens, State, WholeSearch
from regard.inference.requests import Handle

if TYPE_CHECKING:
    from torch import Tensor

    from regard.decoding.search_protocol import SearchLoop, StepRequest

ENCODE_TOKENS = 512
"""Tokens that a whole search encodes at once: enough for good matrix products, few enough for the CPU's cache."""

Finished = tuple[Handle, list[Hypothesis]]


class Searching(NamedTuple):
    """A whole search, with the settings it is for."""

    settings: SearchSettings
    search: WholeSearch


@dataclass
class Loop:
    """A search that goes step by step, and the state that it steps."""

    handles: Sequence[Handle]
    state: State
    search: SearchLoop
    request: StepRequest


class Worker:
    def __init__(self, backend: Backend, tokens: SpecialTokens) -> None:
        self._backend, self._tokens = backend, tokens
        self._searches: list[Searching] = []
        self._loops: list[Loop] = []
        self._numbers: dict[int, Handle] = {}
        self._next_number = 0
        self.has_deadlines = False
        """Whether a request with a deadline was ever among them."""

    @property
    def rows(self) -> int:
        loops = sum(len(loop.request.new_RL) for loop in self._loops)
        return loops + sum(each.search.rows for each in self._searches)

    @property
    def handles(self) -> list[Handle]:
        return [*self._numbers.values(), *(handle for loop in self._loops for handle in loop.handles)]

    def add(self, handles: Sequence[Handle]) -> list[Finished]:
        """Begin requests; returns those that finish at once."""
        finished: list[Finished] = []
        self.has_deadlines = self.has_deadlines or any(handle.deadline is not None for handle in handles)
        for settings in dict.fromkeys(handle.request.settings for handle in handles):
            some = [handle for handle in handles if handle.request.settings == settings]
            empty = [handle for handle in some if handle.request.max_tokens <= 0]
            finished += [(handle, [Hypothesis.of([], [], 0.0, settings, self._tokens.end)]) for handle in empty]
            some = [handle for handle in some if handle.request.max_tokens > 0]
            if whole := [handle for handle in some if self._runs_whole(handle)]:
                self._begin_whole(settings, whole)
            for loop in _loops([handle for handle in some if not self._runs_whole(handle)]):
                finished += self._begin_loop(settings, loop)
        return finished

    def _runs_whole(self, handle: Handle) -> bool:
        request = handle.request
        return not request.streams and not request.prefix and self._backend.supports(request.settings)

    def step(self, max_rows: int, wanted: int, max_steps: int) -> Iterator[Finished]:
        """One step or more, until `wanted` of `max_rows` rows are free; yields the requests that finished.

        `max_steps` bounds a whole search's turn; 0 does not.
        """
        if len(self._searches) > 1:
            max_steps = 1  # several searches take turns
        for each in self._searches:
            if each.search.rows:
                for number, hypotheses in each.search.step(max_rows, wanted, max_steps):
                    yield self._numbers.pop(number), hypotheses
        if self._loops:
            yield from self._step_loops()

    def drop_expired(self) -> list[tuple[Handle, BaseException]]:
        """Take out requests that were cancelled or whose deadline has passed."""
        expired = [(handle, error) for handle in self.handles if not handle.done and (error := handle.expired())]
        if not expired:
            return []
        dropped = [handle for handle, _ in expired]
        for number in [number for number, handle in self._numbers.items() if handle in dropped]:
            for each in self._searches:
                each.search.cancel(number)
            del self._numbers[number]
        # a loop runs until its last request is done
        self._loops = [
            loop for loop in self._loops if not all(handle.done or handle in dropped for handle in loop.handles)
        ]
        return expired

    def close(self) -> None:
        for each in self._searches:
            each.search.close()
        self._searches, self._loops, self._numbers = [], [], {}

    # ---- whole searches ----

    def _begin_whole(self, settings: SearchSettings, handles: Sequence[Handle]) -> None:
        source = max(len(handle.request.ids) for handle in handles)
        max_tokens = max(handle.request.max_tokens for handle in handles)
        search = self._search_for(settings, source, max_tokens)
        waiting = list(handles)
        while waiting:
            tokens = accumulate(len(handle.request.ids) for handle in waiting)
            count = max(1, sum(total <= ENCODE_TOKENS for total in tokens))
            some, waiting = waiting[:count], waiting[count:]
            numbers = [self._numbered(handle) for handle in some]
            search.add(numbers, [handle.request.ids for handle in some], [handle.request.max_tokens for handle in some])

    def _search_for(self, settings: SearchSettings, source: int, max_tokens: int) -> WholeSearch:
        for each in self._searches:
            if each.settings == settings and each.search.fits(source, max_tokens):
                return each.search
        search = self._backend.search(settings, self._tokens, source=source, max_tokens=max_tokens)
        assert search is not None, "the backend supports these settings"
        self._searches.append(Searching(settings, search))
        return search

    def _numbered(self, handle: Handle) -> int:
        self._next_number += 1
        self._numbers[self._next_number] = handle
        return self._next_number

    # ---- step by step ----

    def _begin_loop(self, settings: SearchSettings, handles: Sequence[Handle]) -> list[Finished]:
        import torch

        from regard.decoding.sample import seed_for
        from regard.decoding.search import search_loop
        from regard.decoding.search_protocol import Prompts, StepRequest

        requests = [handle.request for handle in handles]
        with torch.inference_mode():
            encoded = self._backend.encode([request.ids for request in requests], self._tokens)
            prompts = Prompts(
                ids_BL=encoded.ids_BL,
                present_BL=encoded.present_BL,
                max_tokens=[request.max_tokens for request in requests],
                end=self._tokens.end,
                suppressed=self._tokens.suppressed,
                prefixes=[request.prefix for request in requests],
                seeds=[seed_for(settings.seed, request.ids) for request in requests],  # the same in any batch
                topk=self._backend.topk,
            )
            loop = Loop(handles, encoded.state, search_loop(prompts, settings), StepRequest(prompts.ids_BL))
            return self._advance(loop, None)

    def _step_loops(self) -> list[Finished]:
        import torch

        loops = self._loops
        finished: list[Finished] = []
        with torch.inference_mode():
            logits = self._backend.step([loop.state for loop in loops], [loop.request.new_RL for loop in loops])
            self._loops = []
            try:
                for loop, logits_RV in zip(loops, logits, strict=True):
                    finished += self._advance(loop, logits_RV)
            except BaseException:
                self._loops = loops  # for whoever tells their submitters
                raise
        return finished

    def _advance(self, loop: Loop, logits_RV: Tensor | None) -> list[Finished]:
        """Send a search its logits; it asks for its next step, or ends."""
        try:
            loop.request = next(loop.search) if logits_RV is None else loop.search.send(logits_RV)
        except StopIteration as stop:
            return [pair for pair in zip(loop.handles, stop.value, strict=True) if not pair[0].done]
        if loop.request.rows_R is not None:
            loop.state.reorder(loop.request.rows_R)
        if loop.request.texts is not None:
            newest = loop.request.new_RL[:, -1].tolist()
            for text, token in zip(loop.request.texts, newest, strict=True):
                if loop.handles[text].request.streams:
                    loop.handles[text].push(token)
        self._loops.append(loop)
        return []


def _loops(handles: Sequence[Handle]) -> Iterator[Sequence[Handle]]:
    """Requests that may leave early have a loop of their own; the others begin together."""
    alone = [handle for handle in handles if handle.request.streams or handle.deadline is not None]
    yield from ([handle] for handle in alone)
    if together := [handle for handle in handles if handle not in alone]:
        yield together
