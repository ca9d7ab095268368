"""What a search is given, and what it gives.

B sentences  R rows: a sentence may have several  L length of what is new  T said so far  P longest prefix  V vocabulary
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import SearchSettings

NOTHING = -1
"""Stands in a tensor of tokens where there is none: for padding, and where no token is forced."""

NextToken = Callable[[Tensor], Tensor]
"""New tokens (R, L) -> logits of the one after the last (R, V). What came before is the function's to remember."""


@runtime_checkable
class Step(Protocol):
    """A `NextToken` whose memory can be rearranged. The first call reads the opening, one row a sentence."""

    def __call__(self, ids_RL: Tensor, /) -> Tensor: ...

    def reorder(self, rows_R: Tensor, /) -> None:
        """Row i becomes a copy of what row `rows[i]` was. There may be more rows than before, or fewer."""


@dataclass(frozen=True, eq=False)
class StepRequest:
    """What a search wants of its step: after `rows` were reordered, the logits that follow `new`."""

    new_RL: Tensor
    rows_R: Tensor | None = None
    """None leaves the rows as they are."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Prompts:
    """What is read before anything is said, and what the model (not the user) has to say about the rest."""

    first_BL: Tensor
    """What each sentence's row reads first: a start token, a prompt."""
    room: int | Sequence[int]
    """How many tokens may follow, the end token included; for all alike or for each sentence."""
    end: Sequence[int] = ()
    """Tokens that end a text. They are not part of it, but they count: in its length and in its score."""
    never: Sequence[int] = ()
    """Tokens that are never said."""
    present_BL: Tensor | None = None
    """True where `first` is no padding; everywhere, unless given."""
    prefixes: Sequence[Sequence[int]] | None = None
    """How each sentence's text has to begin, whatever the rules say; counted and scored like the rest of it."""
    seeds: Sequence[int] | None = None
    """Each sentence's own seed for sampling; the settings' for all, unless given."""

    @property
    def read(self) -> int:
        """Length of what is read first."""
        return self.first_BL.shape[1]

    @property
    def seen_BL(self) -> Tensor:
        """What is read first, with `NOTHING` for padding: what the rules look at."""
        return self.first_BL if self.present_BL is None else self.first_BL.masked_fill(~self.present_BL, NOTHING)

    @property
    def forced_BP(self) -> Tensor:
        """The prefixes, with `NOTHING` after the end of the shorter ones."""
        prefixes = [()] * len(self.first_BL) if self.prefixes is None else self.prefixes
        longest = max(map(len, prefixes), default=0)
        padded = [[*prefix, *[NOTHING] * (longest - len(prefix))] for prefix in prefixes]
        return torch.tensor(padded, dtype=torch.long, device=self.first_BL.device).view(len(prefixes), longest)

    def limits(self, settings: SearchSettings) -> list[int]:
        """How many tokens each sentence may have, the end token included."""
        rooms = [self.room] * len(self.first_BL) if isinstance(self.room, int) else self.room
        assert len(rooms) == len(self.first_BL), f"room for {len(rooms)} of {len(self.first_BL)} sentences"
        return [max(0, room if settings.max_new is None else min(room, settings.max_new)) for room in rooms]


SearchLoop = Generator[StepRequest, Tensor, list[list[Hypothesis]]]
"""A search that asks for logits (R, V) until it has found each sentence's hypotheses; it does not know who answers."""


def run_search(search_loop: SearchLoop, step: NextToken | Step) -> list[list[Hypothesis]]:
    """A search with one step that answers it. A plain function cannot reorder: its rows stay what they are."""
    try:
        ask = next(search_loop)
        while True:
            if ask.rows_R is not None:
                assert isinstance(step, Step), "only a step that can be reordered can follow this search"
                step.reorder(ask.rows_R)
            ask = search_loop.send(step(ask.new_RL))
    except StopIteration as stop:
        found: list[list[Hypothesis]] = stop.value
        return found
