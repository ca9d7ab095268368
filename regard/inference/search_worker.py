"""The engine's worker for every kind of search: searches that ask, and a model that answers all of them in one pass."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.request import Prompts, SearchLoop, StepRequest
from regard.decoding.search import search_loop
from regard.decoding.settings import SearchSettings
from regard.inference.scheduler import Found


class Reordered(Protocol):
    """What the model remembers of a group."""

    def reorder(self, rows_R: Tensor, /) -> None: ...


G = TypeVar("G", bound=Reordered)
Begin = Callable[[Sequence[int]], tuple[G, Prompts]]
"""Some texts, by their numbers -> what the model remembers of them, and how they are opened."""
Answer = Callable[[Sequence[G], Sequence[Tensor]], Sequence[Tensor]]
"""Groups and their new tokens (R, L) -> each group's logits (R, V)."""


@dataclass
class _Group(Generic[G]):
    texts: Sequence[int]
    remembered: G
    search_loop: SearchLoop
    ask: StepRequest


class Asked(Generic[G]):
    """Texts that begin together are searched by a search of their own, which does not know of the others."""

    def __init__(self, begin: Begin[G], answer: Answer[G], settings: SearchSettings) -> None:
        self._begin, self._answer, self._settings = begin, answer, settings
        self._running: list[_Group[G]] = []

    @property
    def rows(self) -> int:
        return sum(len(each.ask.new_RL) for each in self._running)

    @torch.inference_mode()
    def begin(self, texts: Sequence[int]) -> Found:
        remembered, opening = self._begin(texts)
        each = _Group(texts, remembered, search_loop(opening, self._settings), StepRequest(opening.first_BL))
        return self._resume(each, None)

    @torch.inference_mode()
    def go_on(self, most: int, wanted: int) -> Found:
        found: list[tuple[int, list[Hypothesis]]] = []
        run_search, self._running = self._running, []
        if run_search:
            logits = self._answer([each.remembered for each in run_search], [each.ask.new_RL for each in run_search])
            for each, logits_RV in zip(run_search, logits, strict=True):
                found += self._resume(each, logits_RV)
        return found

    def _resume(self, each: _Group[G], logits_RV: Tensor | None) -> list[tuple[int, list[Hypothesis]]]:
        """Let a search go on with its answer, to its next question or to its end."""
        try:
            each.ask = next(each.search_loop) if logits_RV is None else each.search_loop.send(logits_RV)
        except StopIteration as stop:
            return list(zip(each.texts, stop.value, strict=True))
        if each.ask.rows_R is not None:
            each.remembered.reorder(each.ask.rows_R)
        self._running.append(each)
        return []

    def close(self) -> None:
        self._running.clear()
