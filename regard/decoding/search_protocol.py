"""What a search gets and what it asks for: prompts in, step requests out, logits back.

A search is a generator (`SearchLoop`): it yields a `StepRequest`, receives logits, and returns hypotheses. It does not
know which model or machine computes the logits, so one scheduler can run many searches in one pass.

B texts  R rows: a text may have several  L new tokens  P longest prefix  V vocabulary  C the best
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import SearchSettings

NO_TOKEN = -1
"""Fills a tensor of tokens where there is none: padding, and positions where no token is forced."""

NextToken = Callable[[Tensor], Tensor]
"""New tokens (R, L) -> logits of the next one (R, V). The function remembers what came before."""
TopK = Callable[[Tensor, int], tuple[Tensor, Tensor, Tensor, Tensor]]
"""Logits (R, V), count -> largest logit (R), log-sum-exp above it (R), best logits and their tokens (R, C)."""


@runtime_checkable
class Step(Protocol):
    """A `NextToken` whose kv cache can be reordered. The first call reads the prompts, one row per text."""

    def __call__(self, ids_RL: Tensor, /) -> Tensor: ...

    def reorder(self, rows_R: Tensor, /) -> None:
        """Row i becomes a copy of what row `rows[i]` was. There may be more rows than before, or fewer."""


@dataclass(frozen=True, eq=False)
class StepRequest:
    """One step that a search asks for: reorder the rows, then compute the logits that follow the new tokens."""

    new_RL: Tensor
    rows_R: Tensor | None = None
    """None leaves the rows as they are."""
    texts: Sequence[int] | None = None
    """Which text each row writes, where every text has one row: its newest token can be streamed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Prompts:
    """Texts to continue, and what the model (not the user) says about their continuation."""

    ids_BL: Tensor
    """What each row reads first: a start token, or a prompt."""
    max_tokens: int | Sequence[int]
    """Most tokens to generate, the end token included; one number for all texts or one for each."""
    end: Sequence[int] = ()
    """Tokens that end a text. They are not part of it, but they count in its length and its score."""
    suppressed: Sequence[int] = ()
    """Tokens never generated."""
    present_BL: Tensor | None = None
    """False where `ids` is padding; True everywhere unless given."""
    prefixes: Sequence[Sequence[int]] | None = None
    """Tokens that each text must begin with, whatever the rules say; scored like the rest."""
    seeds: Sequence[int] | None = None
    """Each text's own seed for sampling; the settings' seed for all unless given."""
    topk: TopK | None = None
    """The backend's top-k kernel; torch's functions unless given."""

    @property
    def length(self) -> int:
        """Tokens that every row reads first."""
        return self.ids_BL.shape[1]

    @property
    def seen_BL(self) -> Tensor:
        """The prompts with `NO_TOKEN` for padding: what the rules see."""
        return self.ids_BL if self.present_BL is None else self.ids_BL.masked_fill(~self.present_BL, NO_TOKEN)

    @property
    def forced_BP(self) -> Tensor:
        """The prefixes, with `NO_TOKEN` after the end of the shorter ones."""
        prefixes = [()] * len(self.ids_BL) if self.prefixes is None else self.prefixes
        longest = max(map(len, prefixes), default=0)
        padded = [[*prefix, *[NO_TOKEN] * (longest - len(prefix))] for prefix in prefixes]
        return torch.tensor(padded, dtype=torch.long, device=self.ids_BL.device).view(len(prefixes), longest)

    def limits(self, settings: SearchSettings) -> list[int]:
        """Most tokens of each text, the end token included."""
        given = [self.max_tokens] * len(self.ids_BL) if isinstance(self.max_tokens, int) else self.max_tokens
        assert len(given) == len(self.ids_BL), f"limits for {len(given)} of {len(self.ids_BL)} texts"
        return [max(0, limit if settings.max_tokens is None else min(limit, settings.max_tokens)) for limit in given]


SearchLoop = Generator[StepRequest, Tensor, list[list[Hypothesis]]]
"""A search: yields step requests, receives logits (R, V), returns the hypotheses of each text."""


def run_search(loop: SearchLoop, step: NextToken | Step) -> list[list[Hypothesis]]:
    """Run a search with one step function. A plain function cannot reorder: its rows stay what they are."""
    try:
        request = next(loop)
        while True:
            if request.rows_R is not None:
                assert isinstance(step, Step), "this search needs a step that can be reordered"
                step.reorder(request.rows_R)
            request = loop.send(step(request.new_RL))
    except StopIteration as stop:
        hypotheses: list[list[Hypothesis]] = stop.value
        return hypotheses
