"""Positions: attention by itself does not see order, so order has to be put in. Four ways.

    Sinusoidal  added to the embeddings; fixed waves (Vaswani et al. 2017, Marian)
    Learned     added to the embeddings; a table (BERT, GPT-2, ViT)
    Rotary      turns queries and keys, so that scores depend on distance only (RoFormer, Llama)
    Alibi       added to the scores; farther is less (Press et al. 2022)

The tables that are computed are kept as plain attributes, not as buffers: they are no weights, they grow with the
longest input seen, and a model can be laid out without memory and filled from disk.

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
    """The waves of waves.py. -> (L, D)"""
    return torch.from_numpy(sinusoids(length, width, base=base, interleaved=interleaved))


class Sinusoidal(nn.Module):
    """The fixed waves, looked up by position; any length."""

    def __init__(self, width: int, *, base: float = 10000.0, interleaved: bool = True) -> None:
        super().__init__()
        self.width, self.base, self.interleaved = width, base, interleaved
        self._table_LD: Tensor | None = None

    def forward(self, positions_BL: Tensor) -> Tensor:
        need = int(positions_BL.max()) + 1
        table = self._table_LD
        if table is None or len(table) < need or table.device != positions_BL.device:
            length = 1 << max(need - 1, 63).bit_length()  # doubling: a growing cache asks for one more each step
            table = sinusoidal(length, self.width, base=self.base, interleaved=self.interleaved)
            self._table_LD = table = table.to(positions_BL.device)
        return table[positions_BL]


class Learned(TokenEmbedding):
    """A vector for each position up to `context`, learnt like a word's."""


# ---- rotating queries and keys --------------------------------------------------------------------------------


class Rotation(NamedTuple):
    """The angles of some positions, ready to turn queries and keys of any head."""

    cos_B1LK: Tensor
    sin_B1LK: Tensor


Rescale = Callable[[Tensor], Tensor]


class Rotary(nn.Module):
    """RoPE: feature pairs of a query or key are turned by an angle proportional to its position.

    Turning by m and by n leaves a score that depends on m - n only, and a turn never changes a norm. The pair
    of feature i is i + K/2 (as Llama's checkpoints have it); where a checkpoint pairs 2i with 2i + 1, `weights/`
    reorders the rows of its query and key projections, which gives the same scores.
    """

    def __init__(self, head_width: int, *, base: float = 10000.0, rescale: Rescale | None = None) -> None:
        super().__init__()
        assert head_width % 2 == 0, f"rotary positions turn pairs of features, but the head width is {head_width}"
        self.head_width, self.base, self.rescale = head_width, base, rescale

    def frequencies(self, device: torch.device | None = None) -> Tensor:
        """Radians a position, for each pair: from 1 down to 1 / base."""
        exponent = torch.arange(0, self.head_width, 2, device=device).float() / self.head_width
        frequency = 1.0 / self.base**exponent
        return frequency if self.rescale is None else self.rescale(frequency)

    def forward(self, positions_BL: Tensor) -> Rotation:
        # float32 whatever the model's dtype: bfloat16 cannot tell position 257 from 256
        angle_BLK = (positions_BL[..., None].float() * self.frequencies(positions_BL.device)).repeat(1, 1, 2)
        return Rotation(angle_BLK.cos()[:, None], angle_BLK.sin()[:, None])


def rotate(x_BHLK: Tensor, rotation: Rotation) -> Tensor:
    """Turn each pair (a, b) of features: (a cos - b sin, b cos + a sin)."""
    a, b = x_BHLK.chunk(2, dim=-1)
    cos, sin = rotation.cos_B1LK.to(x_BHLK.dtype), rotation.sin_B1LK.to(x_BHLK.dtype)
    return x_BHLK * cos + torch.cat((-b, a), dim=-1) * sin


def linear_rescale(factor: float) -> Rescale:
    """Position interpolation: `factor` times the context by turning `factor` times more slowly."""
    return lambda frequency: frequency / factor


def llama3_rescale(factor: float, low: float, high: float, original_context: int) -> Rescale:
    """Llama 3.1's way: slow pairs (under `low` turns in the original context) turn `factor` times more slowly,
    fast ones (over `high` turns) are left alone, and those between are blended."""

    def rescale(frequency: Tensor) -> Tensor:
        turns = original_context * frequency / (2 * math.pi)
        keep = ((turns - low) / (high - low)).clamp(0, 1)
        return (1 - keep) * frequency / factor + keep * frequency

    return rescale


# ---- added to the scores --------------------------------------------------------------------------------------


class Alibi(nn.Module):
    """A penalty on the score that grows with distance, at a slope of its own for each head."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def slopes(self) -> list[float]:
        """A geometric series from 2^(-8/H); for a number of heads that is no power of two, the series of the
        next lower power, filled up from every second member of the series twice as dense."""

        def series(count: int) -> list[float]:
            return [2.0 ** (-8.0 * (i + 1) / count) for i in range(count)]

        power = 1 << (self.heads.bit_length() - 1)
        return series(power) + series(2 * power)[0::2][: self.heads - power]

    def forward(self, query_positions_BQ: Tensor, key_positions_BS: Tensor) -> Tensor:
        distance_B1QS = (query_positions_BQ[:, :, None] - key_positions_BS[:, None, :]).abs()[:, None]
        slope_H11 = torch.tensor(self.slopes(), device=distance_B1QS.device)[:, None, None]
        return -slope_H11 * distance_B1QS
