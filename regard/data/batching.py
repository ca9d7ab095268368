"""Rows -> batches, in an order that is a pure function of (seed, epoch).

The rows of an epoch are shuffled, sorted by length inside windows of some batches, cut into batches, and these are
shuffled. A batch is full when the larger of its two sides, padding included, has `tokens` tokens. Batch n of epoch e
can be had without those before it, so going on in the middle costs nothing.

Processes that train together have the same plan, and each takes its part of every batch.

B rows of a batch  S longest source  L longest target
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, NamedTuple, overload

import numpy as np
import torch
from torch import Tensor

from regard.data.corpus import Corpus, Lengths
from regard.data.ragged import Ints, Ragged, padded
from regard.errors import ConfigError
from regard.text.subword_dropout import random_bits

WINDOW = 64
"""Batches that are sorted by length together: more is less padding, fewer is more chance."""
SHUFFLE, ORDER, FILE = 101, 102, 103  # what a draw is for


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Pairs to learn from at once."""

    source_BS: Tensor
    source_present_BS: Tensor
    """True where there is a token and not padding."""
    target_BL: Tensor
    """What the decoder reads: the start token, then all of the target but its end."""
    labels_BL: Tensor
    """What it is to write at each place: the target and its end."""
    target_present_BL: Tensor
    tokens: int
    """Labels that count."""
    rows: Tensor
    """Where they are in the corpus."""

    def to(self, device: torch.device) -> "Batch":
        return replace(self, **{name: tensor.to(device) for name, tensor in self._tensors().items()})

    def split(self, parts: int) -> list["Batch"]:
        """The same rows as some smaller batches, for when memory is short."""
        if parts == 1:
            return [self]
        cut = {name: tensor.tensor_split(parts) for name, tensor in self._tensors().items()}
        pieces = [{name: tensors[part] for name, tensors in cut.items()} for part in range(parts)]
        return [
            replace(self, tokens=int(piece["target_present_BL"].sum()), **piece)
            for piece in pieces
            if len(piece["source_BS"])
        ]

    def twice(self) -> "Batch":
        """Every row two times, all of them once and then all of them again."""
        doubled: dict[str, Any] = {name: torch.cat((tensor, tensor)) for name, tensor in self._tensors().items()}
        return replace(self, **doubled)

    def _tensors(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def collate(source: Ragged, target: Ragged, rows: Ints, *, start: int, pad: int) -> Batch:
    """Rows of tokens, both sides with their end -> tensors."""
    source_BS, source_present_BS = padded(source, pad)
    labels_BL, target_present_BL = padded(target, pad)
    target_BL = np.full_like(labels_BL, pad)
    target_BL[:, 0] = start
    target_BL[:, 1:] = np.where(target_present_BL[:, 1:], labels_BL[:, :-1], pad)
    return Batch(
        source_BS=torch.from_numpy(source_BS),
        source_present_BS=torch.from_numpy(source_present_BS),
        target_BL=torch.from_numpy(target_BL),
        labels_BL=torch.from_numpy(labels_BL),
        target_present_BL=torch.from_numpy(target_present_BL),
        tokens=int(target_present_BL.sum()),
        rows=torch.from_numpy(np.array(rows)),
    )


class Plan(NamedTuple):
    """The rows of an epoch in the order of its batches, and where each batch ends."""

    rows: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.ends)

    def batch(self, number: int) -> Ints:
        start = self.ends[number - 1] if number else 0
        return self.rows[start : self.ends[number]]


class Epochs:
    """epoch -> its batches."""

    def __init__(
        self,
        corpus: Corpus,
        *,
        tokens: int,
        seed: int,
        start: int,
        pad: int,
        weights: Sequence[float] = (),
        rank: int = 0,
        world: int = 1,
    ) -> None:
        """`weights`: of the files, as the recipe lists them; all 1 if left out. `rank` of `world` processes."""
        if tokens < corpus.max_tokens:
            raise ConfigError(
                f"a batch of {tokens} tokens cannot hold a pair of max_tokens = {corpus.max_tokens}: "
                "make batches larger, or max_tokens smaller"
            )
        assert not weights or len(weights) == len(corpus.ends), "a weight for each file"
        assert 0 <= rank < world
        self.corpus, self.tokens, self.seed, self.start, self.pad = corpus, tokens, seed, start, pad
        self.weights = tuple(weights) or (1.0,) * len(corpus.ends)
        self.rank, self.world = rank, world

    def __call__(self, epoch: int) -> "Batches":
        return Batches(self, epoch, self.plan(epoch))

    def plan(self, epoch: int) -> Plan:
        rows = drawn(self.corpus.ends, self.weights, self.seed, epoch)
        return plan(rows, self.corpus.lengths(self.seed, epoch), self.tokens, self.seed, epoch)


class Batches(Sequence[Batch]):
    """The batches of one epoch, each made when it is asked for."""

    def __init__(self, epochs: Epochs, epoch: int, plan: Plan) -> None:
        self._epochs, self._epoch, self.plan = epochs, epoch, plan

    def __len__(self) -> int:
        return len(self.plan)

    @overload
    def __getitem__(self, number: int) -> Batch: ...
    @overload
    def __getitem__(self, number: slice) -> list[Batch]: ...
    def __getitem__(self, number: int | slice) -> Batch | list[Batch]:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        epochs = self._epochs
        if not -len(self) <= number < len(self):
            raise IndexError(f"batch {number} of {len(self)}")
        rows = self.plan.batch(number % len(self))
        part = rows[epochs.rank :: epochs.world]
        if not len(part):
            return _nothing(epochs, rows[:1], self._epoch)
        source, target = epochs.corpus.rows(part, epochs.seed, self._epoch)
        return collate(source, target, part, start=epochs.start, pad=epochs.pad)


def _nothing(epochs: Epochs, row: Ints, epoch: int) -> Batch:
    """For a process that finds no row left: one that counts nothing, so that it keeps in step with the others."""
    source, target = epochs.corpus.rows(row, epochs.seed, epoch)
    batch = collate(source, target, row, start=epochs.start, pad=epochs.pad)
    return replace(batch, target_present_BL=torch.zeros_like(batch.target_present_BL), tokens=0)


def drawn(ends: Sequence[int], weights: Sequence[float], seed: int, epoch: int) -> Ints:
    """The rows of an epoch. A file's rows are dealt from one endless shuffled deck, weight × rows an epoch."""
    parts = []
    for file, (start, end, weight) in enumerate(zip([0, *ends], ends, weights, strict=False)):
        size = end - start
        if weight == 1 or not size:
            parts.append(np.arange(start, end))
            continue
        deck = np.argsort(random_bits(seed, FILE, file, np.arange(size)), kind="stable")
        # What an epoch cannot take a part of, a later one takes whole: a tenth of three rows is one in some of them.
        # As a fraction: in floating point, three times 0.3 of fifty rows are 44.99.
        share = size * Fraction(str(weight))
        dealt = np.arange(int(epoch * share), int((epoch + 1) * share))
        parts.append(start + deck[dealt % size])
    return np.concatenate(parts)


def plan(rows: Ints, lengths: Lengths, tokens: int, seed: int, epoch: int) -> Plan:
    """`rows` (some may be there twice) as batches of at most so many tokens."""
    rows = rows[np.argsort(random_bits(seed, epoch, SHUFFLE, np.arange(len(rows))), kind="stable")]
    source, target = lengths.source[rows], lengths.target[rows]
    size = np.maximum(source, target)
    window = max(1, int(WINDOW * tokens / max(float(size.mean()), 1.0))) if len(size) else 1
    batches: list[Ints] = []
    left = np.zeros(0, np.int64)  # too few for a batch, so they go into the next window
    for start in range(0, len(rows), window):
        here = np.concatenate((left, np.arange(start, min(start + window, len(rows)))))
        here = here[np.lexsort((target[here], source[here], size[here]))]
        cuts = list(_cuts(size[here], tokens))
        batches += [here[a:b] for a, b in zip([0, *cuts], cuts, strict=False)]
        left = here[cuts[-1] if cuts else 0 :]
    if len(left):
        batches.append(left)
    order = np.argsort(random_bits(seed, epoch, ORDER, np.arange(len(batches))), kind="stable")
    batches = [batches[number] for number in order]
    ends = np.cumsum([len(batch) for batch in batches], dtype=np.int64)
    return Plan(rows[np.concatenate(batches)] if batches else rows, ends)


def _cuts(size: Ints, tokens: int) -> Iterator[int]:
    """Where full batches end, of rows sorted by size; the last few rows may be left over."""
    start = 0
    while start < len(size):
        # (rows so far) × (size of the last) only grows, so the first that is too much is found by halving
        low, high = start + 1, len(size) + 1
        while low < high:
            middle = (low + high) // 2
            if middle <= len(size) and (middle - start) * int(size[middle - 1]) <= tokens:
                low = middle + 1
            else:
                high = middle
        end = max(low - 1, start + 1)
        if end == len(size):
            return
        yield end
        start = end
