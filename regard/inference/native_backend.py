"""Translation models on a CPU, in C: a whole search in one call, or one step at a time for searches with rules.

No torch is imported for a whole search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from regard.decoding.hypothesis import BROKEN_LOGITS, Hypothesis
from regard.decoding.settings import SearchSettings
from regard.errors import ModelError
from regard.inference.backend import PARALLEL_WIDTH, Encoded, SpecialTokens, State
from regard.inference.native.search import NativeSearch, NonFiniteLogits, RawHypothesis, SearchParams
from regard.inference.native_model import NativeModel
from regard.weights.lazy_weights import LazyModel
from regard.weights.shortlist import Shortlist

if TYPE_CHECKING:
    from torch import Tensor

    from regard.decoding.search_loop import TopK

MAX_NATIVE_BEAM = 64
"""The native top-k keeps its results sorted as it goes, which pays for small beams."""
NATIVE_SETTINGS = {"beam", "n_best", "length_penalty", "length_form", "patience", "min_tokens", "max_tokens"}
"""What the native search does. Any other setting must have its default, so that a new rule is never ignored."""
WITHOUT_EFFECT = {"seed"}
"""Settings that change nothing where nothing is sampled."""
MIN_CAPACITY = 64
"""Tokens that a search has capacity for at least; then in powers of two."""


def is_native(settings: SearchSettings) -> bool:
    """Whether the native search does everything that these settings ask for."""
    others = (field for field in fields(settings) if field.name not in NATIVE_SETTINGS | WITHOUT_EFFECT)
    plain = all(getattr(settings, field.name) == field.default for field in others)
    return plain and settings.beam <= MAX_NATIVE_BEAM


class NativeBackend:
    def __init__(self, model: NativeModel, shortlist: Shortlist | None = None) -> None:
        self.model, self.shortlist = model, shortlist

    @classmethod
    def of_file(cls, model: LazyModel, shortlist: Shortlist | None = None) -> NativeBackend | None:
        """On the weights of a file; None where they cannot run natively."""
        native = NativeModel.of_file(model.config, model.arrays, int8=model.int8)
        return None if native is None else cls(native, shortlist)

    @property
    def parallel_steps(self) -> bool:
        return self.model.config.width >= PARALLEL_WIDTH

    @property
    def topk(self) -> TopK | None:
        from regard.inference.native import tensors

        return tensors.topk

    def supports(self, settings: SearchSettings) -> bool:
        return is_native(settings)

    def search(
        self, settings: SearchSettings, tokens: SpecialTokens, *, source: int, max_tokens: int
    ) -> NativeBeamSearch | None:
        if not is_native(settings):
            return None
        return NativeBeamSearch(self.model, settings, tokens, self.shortlist, _capacity(source), _capacity(max_tokens))

    def encode(self, sequences: Sequence[Sequence[int]], tokens: SpecialTokens) -> Encoded:
        import torch

        from regard.inference.native_step import encode
        from regard.inference.torch_backend import start_tokens

        return Encoded(encode(self.model, sequences), start_tokens(len(sequences), tokens, torch.device("cpu")))

    def step(self, states: Sequence[State], new: Sequence[Tensor]) -> Sequence[Tensor]:
        from regard.inference.native_step import step

        return step(self.model, states, new)


def _capacity(length: int) -> int:
    return 1 << (max(length, MIN_CAPACITY) - 1).bit_length()


class NativeBeamSearch:
    """Beam search in C over the texts added to it."""

    def __init__(
        self,
        model: NativeModel,
        settings: SearchSettings,
        tokens: SpecialTokens,
        shortlist: Shortlist | None,
        source: int,
        max_tokens: int,
    ) -> None:
        assert tokens.start is not None, "a translation begins with a start token"
        self._settings, self._end = settings, tokens.end
        self._source, self._max_tokens = source, max_tokens
        params = SearchParams(
            start=tokens.start,
            ends=tokens.end,
            suppressed=tokens.suppressed,
            min_tokens=settings.min_tokens,
            beam=settings.beam,
            n_best=settings.n_best,
            length_penalty=settings.length_penalty,
            paper_length_penalty=settings.length_form == "paper",
            max_finished=settings.enough,
        )
        words = () if shortlist is None else (shortlist.related_VC, shortlist.frequent_F)
        self._search = NativeSearch(model.native_encoder(source), model.decoder_io(max_tokens, *words), params)

    @property
    def rows(self) -> int:
        return self._search.rows

    def fits(self, source: int, max_tokens: int) -> bool:
        return source <= self._source and max_tokens <= self._max_tokens

    def add(self, numbers: Sequence[int], sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        self._search.add(numbers, limits, sources)

    def step(self, max_rows: int, wanted: int, max_steps: int = 0) -> Iterator[tuple[int, list[Hypothesis]]]:
        try:
            for number, found in self._search.step(max_rows, wanted, max_steps):
                yield number, [self._hypothesis(one) for one in found]
        except NonFiniteLogits:
            raise ModelError(BROKEN_LOGITS) from None

    def _hypothesis(self, found: RawHypothesis) -> Hypothesis:
        return Hypothesis.of(found.tokens, found.log_probs, found.total, self._settings, self._end)

    def cancel(self, number: int) -> None:
        self._search.cancel(number)

    def close(self) -> None:
        self._search.close()
