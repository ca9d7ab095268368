"""Languages that are small enough to know everything about, and searches that look everywhere."""

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import SearchSettings

STATES = 997


class Babble:
    """A step with random habits: what comes next depends on all that a row has read, and on nothing else."""

    def __init__(self, vocab: int, seed: int, *, spread: float = 2.0, hurry: float = 0.0) -> None:
        self.vocab = vocab
        self.table = spread * torch.randn(STATES, vocab, generator=torch.Generator().manual_seed(seed))
        self.table[:, 0] += hurry  # token 0 is the one that ends, in most tests
        self.states: Tensor | None = None
        self.rows: list[int] = []
        """How many rows each call had."""

    def __call__(self, ids_RL: Tensor) -> Tensor:
        states = torch.zeros(len(ids_RL), dtype=torch.long) if self.states is None else self.states
        for column in ids_RL.T:
            states = (states * 31 + column + 7) % STATES
        self.states = states
        self.rows.append(len(ids_RL))
        return self.table[states]

    def reorder(self, rows_R: Tensor) -> None:
        assert self.states is not None
        self.states = self.states[rows_R]

    def again(self) -> "Babble":
        """The same habits, nothing read."""
        other = Babble(self.vocab, 0)
        other.table = self.table
        return other

    def log_probabilities(self, read: Sequence[int]) -> list[float]:
        """Of the token after `read`, without the help of anything that is tested."""
        state = 0
        for token in read:
            state = (state * 31 + token + 7) % STATES
        logits = self.table[state].tolist()
        whole = math.log(sum(math.exp(logit) for logit in logits))
        return [logit - whole for logit in logits]


NextLogProbs = Callable[[Sequence[int]], list[float]]
"""Generated tokens -> log-probabilities of the next token."""


def after(babble: Babble, first: Sequence[int]) -> NextLogProbs:
    return lambda generated: babble.log_probabilities([*first, *generated])


def every_text(next_log_probs: NextLogProbs, limit: int, end: Sequence[int]) -> Iterator[tuple[list[int], list[float]]]:
    """All possible texts, the end token included, with their log-probabilities."""

    def extend(generated: list[int], log_probs: list[float]) -> Iterator[tuple[list[int], list[float]]]:
        if len(generated) == limit or (generated and generated[-1] in end):
            yield generated, log_probs
            return
        for token, chance in enumerate(next_log_probs(generated)):
            yield from extend([*generated, token], [*log_probs, chance])

    return extend([], [])


def plain_beam(
    next_log_probs: NextLogProbs, limit: int, end: Sequence[int], settings: SearchSettings
) -> list[tuple[float, list[int]]]:
    """Beam search in plain Python, always to the limit: no early stopping, no batch, no tensors."""
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[tuple[float, list[int]]] = []
    for length in range(1, limit + 1):
        options = [
            (total + chance, [*generated, token])
            for total, generated in live
            for token, chance in enumerate(next_log_probs(generated))
        ]
        options.sort(key=lambda option: -option[0])  # stable: of equals the better row's, then the lower token's
        for total, generated in options[: settings.beam]:
            if generated[-1] in end or length == limit:
                finished.append((settings.score(total, length), generated))
        live = [(total, generated) for total, generated in options if generated[-1] not in end][: settings.beam]
    return sorted(finished, key=lambda found: -found[0])[: settings.n_best]


def said_with_end(hypothesis: Hypothesis) -> list[int]:
    return hypothesis.tokens + ([] if hypothesis.end is None else [hypothesis.end])
