"""The paper's positions: sines and cosines of many wavelengths, one per feature. Without torch.

L length  D width  W wavelengths
"""

import numpy as np
from numpy.typing import NDArray


def sinusoids(length: int, width: int, *, base: float = 10000.0, interleaved: bool = True) -> NDArray[np.float32]:
    """sin and cos of the position at `width / 2` wavelengths, from 2 pi to 2 pi * base. -> (L, D)

    Interleaved is the paper's order, sin cos sin cos; Marian has all sines, then all cosines. An odd width has one
    more sine than cosines. Computed in float64: at position 5,000 float32 is already off by 1e-4.
    """
    sines = (width + 1) // 2
    wavelength_W = base ** (np.arange(sines, dtype=np.float64) * 2 / width)
    angle_LW = np.arange(length, dtype=np.float64)[:, None] / wavelength_W
    sin_LW, cos_LW = np.sin(angle_LW), np.cos(angle_LW)[:, : width - sines]
    table_LD = np.empty((length, width), np.float32)
    if interleaved:
        table_LD[:, 0::2], table_LD[:, 1::2] = sin_LW, cos_LW
    else:
        table_LD[:, :sines], table_LD[:, sines:] = sin_LW, cos_LW
    return table_LD
