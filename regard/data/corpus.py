"""Tokens on disk -> rows. The arrays are mapped into memory, so a corpus may be larger than it.

Where words vary, a row holds words instead of tokens, and a table holds the cuts of each: which of them is used is a
hash of the seed, the epoch, the row and the place in it. A token is a word with one cut. A row that would become
longer than max_tokens is cut the plain way.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.format import open_memmap

from regard.data.ragged import Ints, Ragged, sums, take
from regard.data.stats import Stats
from regard.text.subword_dropout import VARIANTS, Bits, random_bits

ABOUT = "about.json"
FORMAT = 1
"""Part of the key: raised when what is written changes."""
AT_ONCE = 1 << 16
"""Rows whose lengths are worked out together."""


@dataclass(frozen=True, kw_only=True)
class About:
    """about.json"""

    format: int
    ends: list[int]
    """Of each file of the recipe: the row after its last."""
    max_tokens: int
    vary: bool
    """Rows hold words, and there are tables of their cuts."""
    kinds: dict[str, str]
    """File of tokens -> type of its numbers."""
    sizes: dict[str, int]
    """File -> bytes."""
    account: dict[str, Any]


class Lengths(NamedTuple):
    """Tokens of each row."""

    source: Ints
    target: Ints


class Corpus:
    """The training pairs, as tokens, by row."""

    def __init__(self, folder: Path, about: About) -> None:
        self.max_tokens, self.ends = about.max_tokens, about.ends
        self.account = Stats(**about.account)
        self.lines = open_memmap(folder / "lines.npy", mode="r")
        kind = _Varied if about.vary else _Plain
        self._source, self._target = kind(folder, "source", about), kind(folder, "target", about)
        self.varies = about.vary
        self._lengths = lru_cache(1)(self._work_out_lengths)

    @classmethod
    def open(cls, folder: Path) -> "Corpus | None":
        """None if it is not there, or not whole."""
        try:
            about = About(**json.loads((folder / ABOUT).read_text(encoding="utf-8")))
            if any((folder / name).stat().st_size != size for name, size in about.sizes.items()):
                return None
            return cls(folder, about)
        except (OSError, ValueError, TypeError):
            return None

    def __len__(self) -> int:
        return len(self.lines)

    def lengths(self, seed: int, epoch: int) -> Lengths:
        """As the rows are cut in this epoch."""
        return self._lengths(seed, epoch) if self.varies else self._lengths(0, 0)

    def rows(self, rows: Ints, seed: int, epoch: int) -> tuple[Ragged, Ragged]:
        """Source and target of these rows, as they are cut in this epoch; both end with the end of the text."""
        rows = np.asarray(rows, np.int64)
        return self._source.rows(rows, random_bits(seed, epoch, 0)), self._target.rows(
            rows, random_bits(seed, epoch, 1)
        )

    def _work_out_lengths(self, seed: int, epoch: int) -> Lengths:
        return Lengths(
            self._source.all_lengths(random_bits(seed, epoch, 0)), self._target.all_lengths(random_bits(seed, epoch, 1))
        )


class _Plain:
    """Rows of tokens."""

    def __init__(self, folder: Path, name: str, about: About) -> None:
        self._starts = open_memmap(folder / f"{name}_starts.npy", mode="r")
        self._lengths = open_memmap(folder / f"{name}_lengths.npy", mode="r")
        self._ids = np.memmap(folder / f"{name}.ids", about.kinds[f"{name}.ids"], "r")

    def rows(self, rows: Ints, chance: Bits) -> Ragged:
        return take(self._ids, self._starts[rows], self._lengths[rows])

    def all_lengths(self, chance: Bits) -> Ints:
        return np.asarray(self._lengths)


class _Varied(_Plain):
    """Rows of words, and the cuts of each: the plain one, then the others."""

    def __init__(self, folder: Path, name: str, about: About) -> None:
        super().__init__(folder, name, about)
        self._cuts = np.memmap(folder / f"{name}_table.ids", about.kinds[f"{name}_table.ids"], "r")
        self._cut_starts = open_memmap(folder / f"{name}_table_starts.npy", mode="r")
        self._cut_lengths = open_memmap(folder / f"{name}_table_lengths.npy", mode="r")
        self._max_tokens = about.max_tokens

    def rows(self, rows: Ints, chance: Bits) -> Ragged:
        cuts, lengths = self._choose(rows, chance)
        tokens = take(self._cuts, self._cut_starts[cuts], self._cut_lengths[cuts])
        return Ragged(tokens.flat, lengths)

    def all_lengths(self, chance: Bits) -> Ints:
        rows = np.arange(len(self._starts))
        parts = [self._choose(rows[i : i + AT_ONCE], chance)[1] for i in range(0, len(rows), AT_ONCE)]
        return np.concatenate(parts).astype(np.int32)

    def _choose(self, rows: Ints, chance: Bits) -> tuple[Ints, Ints]:
        """The cut of each word of the rows, and how many tokens each row has."""
        words = super().rows(rows, chance)
        place = np.arange(len(words.flat)) - np.repeat(words.starts, words.lengths)
        bits = random_bits(chance, np.repeat(rows, words.lengths), place)
        first = words.flat.astype(np.int64) * (VARIANTS + 1)
        cuts = first + 1 + (bits % np.uint64(VARIANTS)).astype(np.int64)
        lengths = sums(self._cut_lengths[cuts], words.lengths)
        if (long := lengths > self._max_tokens).any():
            cuts = np.where(np.repeat(long, words.lengths), first, cuts)
            lengths = sums(self._cut_lengths[cuts], words.lengths)
        return cuts, lengths
