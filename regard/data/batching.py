"""Rows -> batches, in an order that is a pure function of (seed, epoch).

The rows of an epoch are shuffled, sorted by length inside windows of some batches, divided into batches, and the
batches are shuffled. A batch is full when the larger of its two sides, with padding, has `tokens` tokens. Batch n of
epoch e does not need those before it, so resuming in the middle costs nothing.

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

from regard.data.corpus import Corpus, Ints, Lengths, Ragged, pad_rows
from regard.errors import ConfigError
from regard.text.subword_dropout import random_bits

SORT_WINDOW = 64
"""Batches sorted by length together: more means less padding, fewer means a more random order."""
SHUFFLE, ORDER, FILE = 101, 102, 103  # what random bits are for


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The pairs of one training step."""

    source_BS: Tensor
    source_present_BS: Tensor
    """True for a token, False for padding."""
    target_BL: Tensor
    """Decoder input: the start token, then the target without its end token."""
    labels_BL: Tensor
    """Decoder output: the target with its end token."""
    target_present_BL: Tensor
    tokens: int
    """Number of labels, without padding."""
    rows: Tensor
    """Indices into the corpus."""

    def to(self, device: torch.device) -> "Batch":
        return replace(self, **{name: tensor.to(device) for name, tensor in self._tensors().items()})

    def split(self, parts: int) -> list["Batch"]:
        """The same rows as smaller batches, to save memory."""
        if parts == 1:
            return [self]
        parted = {name: tensor.tensor_split(parts) for name, tensor in self._tensors().items()}
        tables = [{name: tensors[part] for name, tensors in parted.items()} for part in range(parts)]
        return [
            replace(self, tokens=int(table["target_present_BL"].sum()), **table)
            for table in tables
            if len(table["source_BS"])
        ]

    def twice(self) -> "Batch":
        """Every row twice: all rows, then all rows again."""
        doubled: dict[str, Any] = {name: torch.cat((tensor, tensor)) for name, tensor in self._tensors().items()}
        return replace(self, **doubled)

    def _tensors(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def collate(source: Ragged, target: Ragged, rows: Ints, *, start: int, pad: int) -> Batch:
    """Rows of tokens, both sides with their end token -> tensors."""
    source_BS, source_present_BS = pad_rows(source, pad)
    labels_BL, target_present_BL = pad_rows(target, pad)
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


class BatchPlan(NamedTuple):
    """The rows of an epoch, batch after batch, and where each batch ends."""

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
        """`weights`: of the files, in the order of the recipe; 1 by default. This process is `rank` of `world`."""
        if tokens < corpus.max_tokens:
            raise ConfigError(
                f"a batch of {tokens} tokens cannot hold a pair of max_tokens = {corpus.max_tokens}; "
                "increase the batch size or reduce max_tokens"
            )
        assert not weights or len(weights) == len(corpus.ends), "one weight per file"
        assert 0 <= rank < world
        self.corpus, self.tokens, self.seed, self.start, self.pad = corpus, tokens, seed, start, pad
        self.weights = tuple(weights) or (1.0,) * len(corpus.ends)
        self.rank, self.world = rank, world

    def __call__(self, epoch: int) -> "Batches":
        return Batches(self, epoch, self.plan(epoch))

    def plan(self, epoch: int) -> BatchPlan:
        rows = rows_of_epoch(self.corpus.ends, self.weights, self.seed, epoch)
        return plan_batches(rows, self.corpus.lengths(self.seed, epoch), self.tokens, self.seed, epoch)


class Batches(Sequence[Batch]):
    """The batches of one epoch, created on access."""

    def __init__(self, epochs: Epochs, epoch: int, plan: BatchPlan) -> None:
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
            return _empty_batch(epochs, rows[:1], self._epoch)
        source, target = epochs.corpus.rows(part, epochs.seed, self._epoch)
        return collate(source, target, part, start=epochs.start, pad=epochs.pad)


def _empty_batch(epochs: Epochs, row: Ints, epoch: int) -> Batch:
    """A batch for a process without a row: one row that counts nothing, so that it stays in step with the others."""
    source, target = epochs.corpus.rows(row, epochs.seed, epoch)
    batch = collate(source, target, row, start=epochs.start, pad=epochs.pad)
    return replace(batch, target_present_BL=torch.zeros_like(batch.target_present_BL), tokens=0)


def rows_of_epoch(ends: Sequence[int], weights: Sequence[float], seed: int, epoch: int) -> Ints:
    """The rows of an epoch. Those of a file come from an endless shuffled sequence, weight × rows per epoch."""
    parts = []
    for file, (start, end, weight) in enumerate(zip([0, *ends], ends, weights, strict=False)):
        size = end - start
        if weight == 1 or not size:
            parts.append(np.arange(start, end))
            continue
        shuffled = np.argsort(random_bits(seed, FILE, file, np.arange(size)), kind="stable")
        # Rounded down over all epochs together: a tenth of three rows is one row in some epochs, none in others.
        # As a fraction: in floating point, three times 0.3 of fifty rows is 44.99.
        share = size * Fraction(str(weight))
        taken = np.arange(int(epoch * share), int((epoch + 1) * share))
        parts.append(start + shuffled[taken % size])
    return np.concatenate(parts)


def plan_batches(rows: Ints, lengths: Lengths, tokens: int, seed: int, epoch: int) -> BatchPlan:
    """`rows` (some may appear twice) as batches of at most `tokens` tokens."""
    rows = rows[np.argsort(random_bits(seed, epoch, SHUFFLE, np.arange(len(rows))), kind="stable")]
    source, target = lengths.source[rows], lengths.target[rows]
    size = np.maximum(source, target)
    window = max(1, int(SORT_WINDOW * tokens / max(float(size.mean()), 1.0))) if len(size) else 1
    batches: list[Ints] = []
    left = np.zeros(0, np.int64)  # too few for a batch: they go into the next window
    for start in range(0, len(rows), window):
        here = np.concatenate((left, np.arange(start, min(start + window, len(rows)))))
        here = here[np.lexsort((target[here], source[here], size[here]))]
        ends = list(_batch_ends(size[here], tokens))
        batches += [here[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        left = here[ends[-1] if ends else 0 :]
    if len(left):
        batches.append(left)
    order = np.argsort(random_bits(seed, epoch, ORDER, np.arange(len(batches))), kind="stable")
    batches = [batches[number] for number in order]
    lengths_of_batches = [len(batch) for batch in batches]
    return BatchPlan(rows[np.concatenate(batches)] if batches else rows, np.cumsum(lengths_of_batches, dtype=np.int64))


def _batch_ends(size: Ints, tokens: int) -> Iterator[int]:
    """Where full batches end, for rows sorted by size; the last few rows may be left over."""
    start = 0
    while start < len(size):
        # (rows so far) × (size of the last) only grows: find the first excess by bisection
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
