"""Positions: attention alone does not see order. Four ways to add it.

    Sinusoidal  added to the embeddings; fixed sines and cosines (Vaswani et al. 2017, Marian)
    Learned     added to the embeddings; a trained table (BERT, GPT-2, ViT)
    Rotary      rotates queries and keys, so that scores depend on distance only (RoFormer, Llama)
    Alibi       added to the scores; a penalty that grows with distance (Press et al. 2022)

Computed tables are plain attributes, not buffers: they are not weights, they grow with the longest input seen, and a
model can be built on the meta device and loaded from disk.

B batch  L length  D width  K head width  H heads  Q queries  S keys
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.blocks.embeddings import TokenEmbedding
from regard.blocks.sinusoids import sinusoids

# ---- added to the embeddings ----------------------------------------------------------------------------------


def sinusoidal(length: int, width: int, *, base: float = 10000.0, interleaved: bool = True) -> Tensor:
    """The table of sinusoids.py as a tensor. -> (L, D)"""
    return torch.from_numpy(sinusoids(length, width, base=base, interleaved=interleaved))


class Sinusoidal(nn.Module):
    """Fixed sines and cosines, looked up by position; any length."""

    def __init__(self, width: int, *, base: float = 10000.0, interleaved: bool = True) -> None:
        super().__init__()
        self.width, self.base, self.interleaved = width, base, interleaved
        self._table_LD: Tensor | None = None

    def forward(self, positions_BL: Tensor) -> Tensor:
        need = int(positions_BL.max()) + 1
        table = self._table_LD
        if table is None or len(table) < need or table.device != positions_BL.device:
            length = 1 << max(need - 1, 63).bit_length()  # powers of two: with a cache, every step needs one more
            table = sinusoidal(length, self.width, base=self.base, interleaved=self.interleaved)
            self._table_LD = table = table.to(positions_BL.device)
        return table[positions_BL]


class Learned(TokenEmbedding):
    """A trained vector for each position up to `context`."""


# ---- rotating queries and keys --------------------------------------------------------------------------------


class Rotation(NamedTuple):
    """Cosines and sines of the angles of some positions, for the queries and keys of every head."""

    cos_B1LK: Tensor
    sin_B1LK: Tensor


Rescale = Callable[[Tensor], Tensor]


class Rotary(nn.Module):
    """RoPE: pairs of features of a query or key are rotated by an angle proportional to its position.

    A score of positions m and n depends on m - n only, and a rotation never changes a norm. Feature i is paired with
    i + K/2, as in Llama's checkpoints; where a checkpoint pairs 2i with 2i + 1, `weights/` reorders the rows of its
    query and key projections, which gives the same scores.
    """

    def __init__(self, head_width: int, *, base: float = 10000.0, rescale: Rescale | None = None) -> None:
        super().__init__()
        assert head_width % 2 == 0, f"rotary positions rotate pairs of features, but the head width is {head_width}"
        self.head_width, self.base, self.rescale = head_width, base, rescale

    def frequencies(self, device: torch.device | None = None) -> Tensor:
        """Radians per position for each pair: from 1 down to 1 / base."""
        exponent = torch.arange(0, self.head_width, 2, device=device).float() / self.head_width
        frequency = 1.0 / self.base**exponent
        return frequency if self.rescale is None else self.rescale(frequency)

    def forward(self, positions_BL: Tensor) -> Rotation:
        # always float32: bfloat16 cannot distinguish positions 256 and 257
        angle_BLK = (positions_BL[..., None].float() * self.frequencies(positions_BL.device)).repeat(1, 1, 2)
        return Rotation(angle_BLK.cos()[:, None], angle_BLK.sin()[:, None])


def rotate(x_BHLK: Tensor, rotation: Rotation) -> Tensor:
    """Rotate each pair (a, b) of features: (a cos - b sin, b cos + a sin)."""
    a, b = x_BHLK.chunk(2, dim=-1)
    cos, sin = rotation.cos_B1LK.to(x_BHLK.dtype), rotation.sin_B1LK.to(x_BHLK.dtype)
    return x_BHLK * cos + torch.cat((-b, a), dim=-1) * sin


def linear_rescale(factor: float) -> Rescale:
    """Position interpolation: `factor` times the context by rotating `factor` times more slowly."""
    return lambda frequency: frequency / factor


def llama3_rescale(factor: float, low: float, high: float, original_context: int) -> Rescale:
    """Llama 3.1: slow pairs (under `low` turns in the original context) rotate `factor` times more slowly, fast pairs
    (over `high` turns) are unchanged, and pairs in between are interpolated."""

    def rescale(frequency: Tensor) -> Tensor:
        turns = original_context * frequency / (2 * math.pi)
        keep = ((turns - low) / (high - low)).clamp(0, 1)
        return (1 - keep) * frequency / factor + keep * frequency

    return rescale


# ---- added to the scores --------------------------------------------------------------------------------------


class Alibi(nn.Module):
    """A penalty on the score that grows with distance, with one slope per head."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def slopes(self) -> list[float]:
        """A geometric series from 2^(-8/H). If the number of heads is not a power of two: the series of the next lower
        power, followed by every second member of the series for twice that power."""

        def series(count: int) -> list[float]:
            return [2.0 ** (-8.0 * (i + 1) / count) for i in range(count)]

        power = 1 << (self.heads.bit_length() - 1)
        return series(power) + series(2 * power)[0::2][: self.heads - power]

    def forward(self, query_positions_BQ: Tensor, key_positions_BS: Tensor) -> Tensor:
        distance_B1QS = (query_positions_BQ[:, :, None] - key_positions_BS[:, None, :]).abs()[:, None]
        slope_H11 = torch.tensor(self.slopes(), device=distance_B1QS.device)[:, None, None]
        return -slope_H11 * distance_B1QS
