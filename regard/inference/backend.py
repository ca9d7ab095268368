"""The seam: above it what is computed (models, searches, tasks), below it how (torch modules or native code).

    encode(sequences)      texts -> a state: the kv cache of texts decoded together
    step(states, tokens)   the newest token of every row -> logits of the next
    state.reorder(rows)    keeps surviving beams, drops finished texts
    search(settings)       a whole search in one piece, where the backend has one for these settings

TorchBackend does the first three for every model and device, and is the reference. NativeBackend does all four for the
translation models it knows, and tests hold the two equal. Whether a model can run natively is decided here only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import SearchSettings
from regard.weights.model_directory import LazyModel
from regard.weights.shortlist import Shortlist

if TYPE_CHECKING:
    from torch import Tensor

    from regard.decoding.search_protocol import TopK
    from regard.models import Family


T = TypeVar("T")

PARALLEL_WIDTH = 256
"""Width from which on steps are long enough for two threads: in smaller models they wait for Python's lock."""


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """Tokens with a meaning of their own."""

    start: int | None
    """What a translation begins with; a language model continues its prompt instead."""
    end: Sequence[int]
    pad: int
    suppressed: Sequence[int] = ()
    """Never generated."""


class State(Protocol):
    """The kv cache of texts decoded together."""

    def reorder(self, rows_R: Tensor, /) -> None:
        """Row i becomes a copy of what row `rows[i]` was."""


class Encoded(NamedTuple):
    """Texts ready to be decoded."""

    state: State
    ids_BL: Tensor
    """What the decoder reads first: the start token, or the prompt."""
    present_BL: Tensor | None = None
    """False where that is padding."""


class WholeSearch(Protocol):
    """A search that a backend runs by itself; one thread's own."""

    @property
    def rows(self) -> int:
        """Rows of all texts under way."""

    def fits(self, source: int, max_tokens: int) -> bool:
        """Whether it has the capacity for a source, and an output, of these lengths."""

    def add(self, numbers: Sequence[int], sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        """Begin texts, named by numbers, each with the most tokens that it may have."""

    def step(self, max_rows: int, wanted: int, max_steps: int = 0) -> Iterable[tuple[int, list[Hypothesis]]]:
        """Run until `wanted` of `max_rows` rows are free, or for `max_steps`; yields the texts that finished."""

    def cancel(self, number: int) -> None:
        """Drop a text that is under way."""

    def close(self) -> None: ...


class Backend(Protocol):
    @property
    def topk(self) -> TopK | None:
        """A kernel for the best next tokens, where there is one."""

    @property
    def parallel_steps(self) -> bool:
        """Whether two threads, each stepping texts of its own, are faster than one."""

    def encode(self, sequences: Sequence[Sequence[int]], tokens: SpecialTokens) -> Encoded:
        """Read some texts, or prepare to read their prompts."""

    def step(self, states: Sequence[State], new: Sequence[Tensor]) -> Sequence[Tensor]:
        """Each state's new tokens (R, L) -> its logits (R, V)."""

    def search(
        self, settings: SearchSettings, tokens: SpecialTokens, *, source: int, max_tokens: int
    ) -> WholeSearch | None:
        """A whole search with these settings, for texts of up to these lengths; None where there is none."""

    def supports(self, settings: SearchSettings) -> bool:
        """Whether `search` has these settings."""


class Runtime:
    """A model and its backend, which is chosen on first use, and again when the weights have moved."""

    def __init__(self, model: LazyModel | Family, shortlist: Shortlist | None = None) -> None:
        self.model, self.shortlist = _accelerated(model), shortlist
        self._lock = RLock()
        self._backend: Backend | None = None
        self._addresses: Sequence[int] | None = None

    @property
    def network(self) -> Family:
        """The torch modules. A lazy model builds them on first use, and imports torch for it."""
        with self._lock:
            if isinstance(self.model, LazyModel):
                self.model = _accelerated(self.model.open())
            return self.model

    def backend(self) -> Backend:
        with self._lock:
            if isinstance(self.model, LazyModel):
                if self._backend is None:
                    self._backend = native_backend(self.model, self.shortlist)
                if self._backend is not None:
                    return self._backend
            from regard.inference.torch_backend import addresses, backend_for

            found = addresses(self.network)
            if self._addresses != found:
                self._addresses, self._backend = found, backend_for(self.network, self.shortlist)
            assert self._backend is not None
            return self._backend

    def runs_natively(self) -> bool:
        """Whether a lazy model needs no torch: asked before torch is imported."""
        with self._lock:
            if isinstance(self.model, LazyModel) and self._backend is None:
                self._backend = native_backend(self.model, self.shortlist)
            return self._backend is not None

    def set_shortlist(self, shortlist: Shortlist | None) -> None:
        with self._lock:
            self.shortlist, self._backend, self._addresses = shortlist, None, None

    def __getstate__(self) -> dict[str, object]:
        return {"model": self.network, "shortlist": self.shortlist}  # a copy has its weights elsewhere

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _accelerated(model: T) -> T:
    """Int8 layers on the native kernels, in a network that has some."""
    if not isinstance(model, LazyModel):
        from torch import nn

        from regard.inference.native_int8 import use_native_linear

        assert isinstance(model, nn.Module)
        use_native_linear(model)
    return model


def native_backend(model: LazyModel, shortlist: Shortlist | None = None) -> Backend | None:
    """The native backend of a model whose weights are in a file; None where it cannot run natively.

    Imports no torch: to translate, a process may do without.
    """
    from regard.inference.native_backend import NativeBackend

    return NativeBackend.of_file(model, shortlist)
