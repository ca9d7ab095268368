"""The engine's worker for every kind of search: searches that ask, and a model that answers all of them in one pass."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.request import Ask, Asking, Opening
from regard.decoding.search import asking
from regard.decoding.settings import Search
from regard.inference.scheduler import Found


class Reordered(Protocol):
    """What the model remembers of a group."""

    def reorder(self, rows_R: Tensor, /) -> None: ...


G = TypeVar("G", bound=Reordered)
Begin = Callable[[Sequence[int]], tuple[G, Opening]]
"""Some texts, by their numbers -> what the model remembers of them, and how they are opened."""
Answer = Callable[[Sequence[G], Sequence[Tensor]], Sequence[Tensor]]
"""Groups and their new tokens (R, L) -> each group's logits (R, V)."""


@dataclass
class _Group(Generic[G]):
    texts: Sequence[int]
    remembered: G
    asking: Asking
    ask: Ask


class Asked(Generic[G]):
    """Texts that begin together are searched by a search of their own, which does not know of the others."""

    def __init__(self, begin: Begin[G], answer: Answer[G], settings: Search) -> None:
        self._begin, self._answer, self._settings = begin, answer, settings
        self._running: list[_Group[G]] = []

    @property
    def rows(self) -> int:
        return sum(len(each.ask.new_RL) for each in self._running)

    @torch.inference_mode()
    def begin(self, texts: Sequence[int]) -> Found:
        remembered, opening = self._begin(texts)
        each = _Group(texts, remembered, asking(opening, self._settings), Ask(opening.first_BL))
        return self._resume(each, None)

    @torch.inference_mode()
    def go_on(self, most: int, wanted: int) -> Found:
        found: list[tuple[int, list[Hypothesis]]] = []
        answered, self._running = self._running, []
        if answered:
            logits = self._answer([each.remembered for each in answered], [each.ask.new_RL for each in answered])
            for each, logits_RV in zip(answered, logits, strict=True):
                found += self._resume(each, logits_RV)
        return found

    def _resume(self, each: _Group[G], logits_RV: Tensor | None) -> list[tuple[int, list[Hypothesis]]]:
        """Let a search go on with its answer, to its next question or to its end."""
        try:
            each.ask = next(each.asking) if logits_RV is None else each.asking.send(logits_RV)
        except StopIteration as stop:
            return list(zip(each.texts, stop.value, strict=True))
        if each.ask.rows_R is not None:
            each.remembered.reorder(each.ask.rows_R)
        self._running.append(each)
        return []

    def close(self) -> None:
        self._running.clear()
