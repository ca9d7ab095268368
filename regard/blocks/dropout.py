"""Dropout that is fast on a CPU.

torch draws a random number for every element of every call, one after the other: a quarter of a small model's
training step. Here the keep-or-drop pattern is cut at a random place out of one long strip of it, and dropping is
then one multiplication. The strip is drawn anew every so often (`begin`); between two draws the places differ.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SHORTEST = 1 << 20
"""Elements of a strip at least: 4 MB, and a million places to cut at."""
STEP = 16
"""Places are multiples of 64 bytes, so that every cut is as fast as the first."""


class MaskPool:
    """A long random row of 0 (dropped) and 1 / (1 - p) (kept), from which masks are cut."""

    def __init__(self) -> None:
        self._pattern = 0
        self._rows: dict[tuple[float, int], Tensor] = {}
        self._places = torch.default_generator

    def begin(self, pattern: int, places: int) -> None:
        """Two seeds: of the row, which is drawn anew where this one is, and of the places of the cuts."""
        if pattern != self._pattern:
            self._pattern = pattern
            self._rows.clear()
        self._places = torch.Generator().manual_seed(places)

    def cut(self, like: Tensor, p: float) -> Tensor:
        """A mask of the shape of `like`. Until `begin`, torch's own generator chooses its place."""
        size = like.numel()
        # of this mask alone: had it to do with those before it, a run that is resumed would go another way
        length = max(SHORTEST, 1 << (2 * size - 1).bit_length())
        row = self._rows.get((p, length))
        if row is None:
            generator = torch.Generator().manual_seed(self._pattern)
            kept = torch.rand(length, generator=generator) >= p
            row = self._rows[p, length] = kept.to(torch.float32).div_(1.0 - p)
        place = STEP * int(torch.randint((len(row) - size) // STEP + 1, (1,), generator=self._places))
        return row[place : place + size].view(like.shape).to(like.dtype)


class Dropout(nn.Module):
    """While training, each element is 0 with probability p, and the rest grow to keep the sum."""

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        self.p = p
        self.strip = MaskPool()

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        if x.device.type != "cpu":  # elsewhere torch's own is the fast one
            return F.dropout(x, self.p)
        return x * self.strip.cut(x, self.p)

    def add(self, x: Tensor, part: Tensor) -> Tensor:
        """x + dropout(part), in one pass over memory."""
        if not self.training or self.p == 0.0 or x.device.type != "cpu":
            dropped: Tensor = self(part)
            return x + dropped
        return torch.addcmul(x, part, self.strip.cut(part, self.p))


def share_mask_pool(model: nn.Module) -> MaskPool:
    """Let all dropouts of a model cut from one strip, and give it."""
    strip = MaskPool()
    for part in model.modules():
        if isinstance(part, Dropout):
            part.strip = strip
    return strip
