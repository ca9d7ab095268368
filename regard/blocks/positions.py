"""Positions that act inside attention, which alone does not see order.

    Rotary  rotates queries and keys, so that scores depend on distance only (RoFormer, Llama)
    Alibi   added to the scores; a penalty that grows with distance (Press et al. 2022)

Sinusoidal and learned positions are added to the embeddings: embeddings.py.

B batch  L length  K head width  H heads  Q queries  S keys
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

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
