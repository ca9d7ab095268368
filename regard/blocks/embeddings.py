"""Embeddings: tokens, segments, positions and image patches -> vectors of the model's width, and their sum.

    TokenEmbedding  a trained vector for each token, or for each segment type
    PatchEmbedding  image patches, projected
    Sinusoidal      positions as fixed sines and cosines (Vaswani et al. 2017, Marian)
    Learned         positions as a trained table (BERT, GPT-2, ViT)
    TextEmbedding   tokens + segments + positions: what the first block reads

Here are positions added to the embeddings. Rotary and ALiBi act inside attention: positions.py.

B batch  L length  D width  C channels  Y X image height and width  P patches
"""

import torch
from torch import Tensor, nn

from regard.blocks.dropout import Dropout
from regard.blocks.sinusoids import sinusoids
from regard.blocks.trace import Trace


class TokenEmbedding(nn.Embedding):
    """One vector for each token of the vocabulary (or for each segment type).

    `scale` multiplies them. The paper uses sqrt(width): embeddings tied to the output projection start out small, and
    positions of size 1 would drown them.
    """

    def __init__(self, vocab: int, width: int, *, scale: float = 1.0) -> None:
        super().__init__(vocab, width)
        self.scale = scale

    def reset_parameters(self) -> None:
        if not self.weight.is_meta:  # on the meta device torch would import its compiler for this, which takes a second
            super().reset_parameters()

    def forward(self, ids_BL: Tensor) -> Tensor:
        return super().forward(ids_BL) * self.scale


class PatchEmbedding(nn.Module):
    """An image split into square patches, row by row, each projected to a vector."""

    def __init__(self, image: int, patch: int, channels: int, width: int) -> None:
        super().__init__()
        assert image % patch == 0, f"patches of {patch} do not tile an image of {image}"
        self.patches = (image // patch) ** 2
        # a convolution with stride = kernel size is a linear map of each patch
        self.projection = nn.Conv2d(channels, width, kernel_size=patch, stride=patch)

    def forward(self, pixels_BCYX: Tensor) -> Tensor:
        grid_BDYX: Tensor = self.projection(pixels_BCYX)
        return grid_BDYX.flatten(2).mT


# ---- positions ----


class Sinusoidal(nn.Module):
    """Fixed sines and cosines, looked up by position; any length.

    The table is a plain attribute, not a buffer: it is not a weight, it grows with the longest input seen, and a model
    can be built on the meta device and loaded from disk.
    """

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


def sinusoidal(length: int, width: int, *, base: float = 10000.0, interleaved: bool = True) -> Tensor:
    """The table of sinusoids.py as a tensor. -> (L, D)"""
    return torch.from_numpy(sinusoids(length, width, base=base, interleaved=interleaved))


class Learned(TokenEmbedding):
    """A trained vector for each position up to `context`."""


# ---- the sum ----


class TextEmbedding(nn.Module):
    """tokens (+ segments) (+ positions), then an optional norm."""

    def __init__(
        self,
        tokens: TokenEmbedding,
        positions: nn.Module | None = None,
        *,
        segments: TokenEmbedding | None = None,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.tokens, self.positions = tokens, positions
        self.segments, self.norm = segments, norm
        self.dropout = Dropout(dropout)

    def forward(
        self,
        ids_BL: Tensor,
        positions_BL: Tensor,
        segments_BL: Tensor | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        x_BLD: Tensor = self.tokens(ids_BL)
        if trace:
            trace.note("tokens", x_BLD)
        if self.segments is not None:
            x_BLD = x_BLD + self.segments(torch.zeros_like(ids_BL) if segments_BL is None else segments_BL)
        if self.positions is not None:
            encoding_BLD = self.positions(positions_BL)
            if trace:
                trace.note("positions", encoding_BLD)
            x_BLD = x_BLD + encoding_BLD.to(x_BLD.dtype)
        if self.norm is not None:
            x_BLD = self.norm(x_BLD)
        if trace:
            trace.note("output", x_BLD)
        dropped: Tensor = self.dropout(x_BLD)
        return dropped
