"""Dropout that is fast on a CPU.

torch draws a random number for every element of every call, one after the other, which takes a quarter of a small
model's training step. Here a mask is a slice of one long random row, at a random offset, and dropout is one
multiplication. The row is drawn again every few updates (`reseed`); in between, the offsets differ.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MIN_ROW_LENGTH = 1 << 20
"""Elements of a row at least: 4 MB, and 65,536 possible offsets."""
OFFSET_MULTIPLE = 16
"""Offsets are multiples of this many elements, 64 bytes: aligned slices are faster."""


class MaskPool:
    """Long random rows of 0 (dropped) and 1 / (1 - p) (kept); masks are slices of them."""

    def __init__(self) -> None:
        self._pattern_seed = 0
        self._rows: dict[tuple[float, int], Tensor] = {}
        self._offsets = torch.default_generator

    def reseed(self, pattern: int, offsets: int) -> None:
        """Seed the rows, which are drawn again if this seed is new, and the offsets of the masks."""
        if pattern != self._pattern_seed:
            self._pattern_seed = pattern
            self._rows.clear()
        self._offsets = torch.Generator().manual_seed(offsets)

    def mask(self, like: Tensor, p: float) -> Tensor:
        """A mask of the shape of `like`. Before the first `reseed`, torch's default generator draws its offset."""
        size = like.numel()
        # depends on this mask alone: if it depended on earlier masks, a resumed run would differ
        length = max(MIN_ROW_LENGTH, 1 << (2 * size - 1).bit_length())
        row = self._rows.get((p, length))
        if row is None:
            generator = torch.Generator().manual_seed(self._pattern_seed)
            kept = torch.rand(length, generator=generator) >= p
            row = self._rows[p, length] = kept.to(torch.float32).div_(1.0 - p)
        choices = (len(row) - size) // OFFSET_MULTIPLE + 1
        offset = OFFSET_MULTIPLE * int(torch.randint(choices, (1,), generator=self._offsets))
        return row[offset : offset + size].view(like.shape).to(like.dtype)


class Dropout(nn.Module):
    """While training, set each element to 0 with probability p and scale the others by 1 / (1 - p)."""

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        self.p = p
        self.mask_pool = MaskPool()

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        if x.device.type != "cpu":  # elsewhere torch's dropout is faster
            return F.dropout(x, self.p)
        return x * self.mask_pool.mask(x, self.p)

    def add(self, x: Tensor, part: Tensor) -> Tensor:
        """x + dropout(part), in one pass over memory."""
        if not self.training or self.p == 0.0 or x.device.type != "cpu":
            dropped: Tensor = self(part)
            return x + dropped
        return torch.addcmul(x, part, self.mask_pool.mask(part, self.p))


def share_mask_pool(model: nn.Module) -> MaskPool:
    """Give all dropouts of a model the same pool, and return it."""
    pool = MaskPool()
    for part in model.modules():
        if isinstance(part, Dropout):
            part.mask_pool = pool
    return pool
