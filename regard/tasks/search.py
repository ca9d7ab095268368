"""What the families that generate share: settings, special tokens, a scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regard.config import from_table
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import SearchSettings
from regard.errors import UsageError
from regard.inference.backend import SpecialTokens
from regard.inference.requests import Request
from regard.inference.scheduler import Scheduler
from regard.models.generation_config import GenerationConfig
from regard.tasks.base import Model


def search_settings(generation: GenerationConfig, options: Mapping[str, Any]) -> SearchSettings:
    """The caller's settings, and the model's own where the caller gives none."""
    given = {key: value for key, value in options.items() if value is not None}
    if isinstance(given.get("max_tokens"), int) and given["max_tokens"] < 1:
        raise UsageError(f"max_tokens must be at least 1, not {given['max_tokens']}")
    own: dict[str, Any] = {
        "beam": 1 if given.get("temperature") else generation.beam,
        "length_penalty": generation.length_penalty,
        "length_form": generation.length_form,
        "max_tokens": generation.max_tokens,
        # To wait until no better hypothesis is possible takes nearly twice as long where a score is a mean over the
        # tokens: a row could gain by continuing to the limit. Measured on Multi30k, the BLEU is the same.
        "patience": 1.0,
    }
    n_best = given.get("n_best")
    if isinstance(n_best, int) and not given.get("temperature"):
        own["beam"] = max(generation.beam, n_best)  # the beam must hold them
    return from_table(SearchSettings, own | given, "search")


class Generating(Model):
    """A model that generates tokens: its requests go through one scheduler."""

    _scheduler: Scheduler | None = None

    def scheduler(self) -> Scheduler:
        """The scheduler of this model, on the backend that fits its weights as they are now."""
        backend, tokens = self._runtime.backend(), self._special_tokens()
        found = self._scheduler
        if found is None or found.backend is not backend or found.tokens != tokens:
            found = self._scheduler = Scheduler(backend, tokens)
        return found

    def _special_tokens(self) -> SpecialTokens:
        generation, vocab = self.generation, getattr(self.config, "vocab", 0)
        # vocabularies are often rounded up: what the tokenizer has no piece for is never generated
        pieces = self.tokenizer.vocab_target if self.has_tokenizer else vocab
        suppressed = (*generation.suppressed, *range(pieces, vocab))
        return SpecialTokens(start=generation.start, end=generation.end, pad=generation.pad or 0, suppressed=suppressed)

    def request(self, ids: Sequence[int], settings: SearchSettings, *, stream: bool = False) -> Request:
        """A request for one text in tokens, with the most tokens that its output may have."""
        limit = self._max_tokens(ids)
        limit = limit if settings.max_tokens is None else min(limit, settings.max_tokens)
        return Request(ids=ids, settings=settings, max_tokens=limit, stream=stream)

    def _max_tokens(self, ids: Sequence[int]) -> int:
        """The most tokens that the output for a text may have, the end token included."""
        raise NotImplementedError

    def _search(self, rows: Iterable[Sequence[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
        return self.scheduler().run([self.request(row, settings) for row in rows])

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_scheduler": None}
