"""Rows of different lengths, end to end: each step is one array operation for all rows."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Ragged(NamedTuple):
    flat: NDArray[Any]
    lengths: Ints

    @property
    def starts(self) -> Ints:
        return np.cumsum(self.lengths) - self.lengths


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
