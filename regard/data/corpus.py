"""Tokens on disk -> rows. The arrays are memory-mapped, so a corpus can be larger than memory.

With subword dropout, a row holds words instead of tokens, and a table holds the segmentations of each word. A hash of
the seed, the epoch, the row and the position in it chooses one. A token is a word with one segmentation. A row that
would become longer than max_tokens keeps the tokenizer's own segmentation.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from regard.data.filter_counts import Stats
from regard.text.subword_dropout import VARIANTS, Bits, random_bits

INFO_FILE = "about.json"
FORMAT = 1
"""Part of the cache key: raised when the files change their format."""
ROWS_PER_PASS = 1 << 16
Ints = NDArray[np.int64]
Seed = tuple[int, int, int]
"""Seed, epoch, and 0 for the source or 1 for the target: what the segmentations of an epoch depend on."""


@dataclass(frozen=True, kw_only=True)
class CorpusInfo:
    """about.json: the field names are its keys."""

    format: int
    ends: list[int]
    """For each file of the recipe, the row after its last."""
    max_tokens: int
    vary: bool
    """Rows hold words, and there are tables of their segmentations."""
    kinds: dict[str, str]
    """Token file -> dtype."""
    sizes: dict[str, int]
    """File -> size in bytes."""
    account: dict[str, Any]
    """The fields of Stats."""


class Lengths(NamedTuple):
    """Number of tokens in each row."""

    source: Ints
    target: Ints


class Ragged(NamedTuple):
    """Rows of different lengths, end to end: each step is one array operation for all rows."""

    flat: NDArray[Any]
    lengths: Ints

    @property
    def starts(self) -> Ints:
        return np.cumsum(self.lengths) - self.lengths


class Corpus:
    """The training pairs as tokens, by row."""

    def __init__(self, folder: Path, info: CorpusInfo) -> None:
        self.max_tokens, self.ends = info.max_tokens, info.ends
        self.stats = Stats(**info.account)
        self.lines = open_memmap(folder / "lines.npy", mode="r")
        kind = _WordRows if info.vary else _TokenRows
        self._source, self._target = kind(folder, "source", info), kind(folder, "target", info)
        self.varies = info.vary
        self._lengths = lru_cache(1)(self._compute_lengths)

    @classmethod
    def open(cls, folder: Path) -> "Corpus | None":
        """None if it does not exist or is incomplete."""
        try:
            info = CorpusInfo(**json.loads((folder / INFO_FILE).read_text(encoding="utf-8")))
            if any((folder / name).stat().st_size != size for name, size in info.sizes.items()):
                return None
            return cls(folder, info)
        except (OSError, ValueError, TypeError):
            return None

    def __len__(self) -> int:
        return len(self.lines)

    def lengths(self, seed: int, epoch: int) -> Lengths:
        """Lengths of all rows, as segmented in this epoch."""
        return self._lengths(seed, epoch) if self.varies else self._lengths(0, 0)

    def rows(self, rows: Ints, seed: int, epoch: int) -> tuple[Ragged, Ragged]:
        """Source and target of these rows, as segmented in this epoch; both end with the end token."""
        rows = np.asarray(rows, np.int64)
        return self._source.rows(rows, (seed, epoch, 0)), self._target.rows(rows, (seed, epoch, 1))

    def _compute_lengths(self, seed: int, epoch: int) -> Lengths:
        return Lengths(self._source.all_lengths((seed, epoch, 0)), self._target.all_lengths((seed, epoch, 1)))


class _TokenRows:
    """Rows of tokens."""

    def __init__(self, folder: Path, name: str, info: CorpusInfo) -> None:
        self._starts = open_memmap(folder / f"{name}_starts.npy", mode="r")
        self._lengths = open_memmap(folder / f"{name}_lengths.npy", mode="r")
        self._ids = np.memmap(folder / f"{name}.ids", info.kinds[f"{name}.ids"], "r")

    def rows(self, rows: Ints, seed: Seed) -> Ragged:
        return gather(self._ids, self._starts[rows], self._lengths[rows])

    def all_lengths(self, seed: Seed) -> Ints:
        return np.asarray(self._lengths)


class _WordRows(_TokenRows):
    """Rows of words, and the segmentations of each word: the tokenizer's own, then the random ones."""

    def __init__(self, folder: Path, name: str, info: CorpusInfo) -> None:
        super().__init__(folder, name, info)
        self._table = np.memmap(folder / f"{name}_table.ids", info.kinds[f"{name}_table.ids"], "r")
        self._table_starts = open_memmap(folder / f"{name}_table_starts.npy", mode="r")
        self._table_lengths = open_memmap(folder / f"{name}_table_lengths.npy", mode="r")
        self._max_tokens = info.max_tokens

    def rows(self, rows: Ints, seed: Seed) -> Ragged:
        chosen, lengths = self._choose(rows, random_bits(*seed))
        tokens = gather(self._table, self._table_starts[chosen], self._table_lengths[chosen])
        return Ragged(tokens.flat, lengths)

    def all_lengths(self, seed: Seed) -> Ints:
        rows, bits = np.arange(len(self._starts)), random_bits(*seed)
        parts = [self._choose(rows[i : i + ROWS_PER_PASS], bits)[1] for i in range(0, len(rows), ROWS_PER_PASS)]
        return np.concatenate(parts).astype(np.int32)

    def _choose(self, rows: Ints, seed: Bits) -> tuple[Ints, Ints]:
        """The table row for each word of these rows, and the number of tokens of each row."""
        words = gather(self._ids, self._starts[rows], self._lengths[rows])
        position = np.arange(len(words.flat)) - np.repeat(words.starts, words.lengths)
        bits = random_bits(seed, np.repeat(rows, words.lengths), position)
        first = words.flat.astype(np.int64) * (VARIANTS + 1)
        chosen = first + 1 + (bits % np.uint64(VARIANTS)).astype(np.int64)
        lengths = row_sums(self._table_lengths[chosen], words.lengths)
        if (long := lengths > self._max_tokens).any():
            chosen = np.where(np.repeat(long, words.lengths), first, chosen)
            lengths = row_sums(self._table_lengths[chosen], words.lengths)
        return chosen, lengths


# ---- rows of different lengths ----


def gather(flat: NDArray[Any], starts: Ints, lengths: Ints) -> Ragged:
    """The slices of `flat` that begin at `starts`."""
    lengths = lengths.astype(np.int64)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    indices = np.arange(total) + np.repeat(starts - (ends - lengths), lengths)
    return Ragged(np.asarray(flat[indices]), lengths)


def row_sums(values: Ints, lengths: Ints) -> Ints:
    """The sum of each row. (reduceat would give an empty row its neighbour's first value.)"""
    ends = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))  # without a dtype, uint16 would become float64
    last = np.cumsum(lengths)
    return np.asarray(ends[last] - ends[last - lengths])


def pad_rows(rows: Ragged, fill: int) -> tuple[Ints, NDArray[np.bool_]]:
    """A matrix (rows, longest), and True where it holds values and not padding."""
    width = int(rows.lengths.max(initial=1))
    present = np.arange(width) < rows.lengths[:, None]
    matrix = np.full(present.shape, fill, np.int64)
    matrix[present] = rows.flat
    return matrix, present
