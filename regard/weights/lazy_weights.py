"""A model's weights as numpy arrays, mapped from disk: pages are read when first used. Without torch."""

import json
import math
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from regard.errors import WeightsError
from regard.models.config import BlockConfig, Seq2SeqConfig

if TYPE_CHECKING:
    from regard.models import Seq2Seq

Array = NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "I8": np.dtype("i1"), "I32": np.dtype("<i4")}
QWEIGHT, SCALE = ".whole", ".scale"
"""Suffixes of the two tensors of an int8 matrix: the integers, and one scale per row."""


class MappedArrays(dict[str, Array]):
    """Arrays by name, and the memory-mapped file that holds them."""

    def __init__(self, arrays: Mapping[str, Array], content: mmap.mmap) -> None:
        super().__init__(arrays)
        self._content = content

    def renamed(self, arrays: Mapping[str, Array]) -> "MappedArrays":
        """The same file with its arrays under other names."""
        return MappedArrays(arrays, self._content)

    def drop_pages(self) -> None:
        """Free the pages that were read, once the caller has a copy. Later reads come from disk again.

        Changes to the arrays are lost.
        """
        if hasattr(mmap, "MADV_DONTNEED"):
            self._content.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True, eq=False)
class LazyModel:
    """A translation model whose weights are mapped from disk; its torch network is built when it is needed."""

    config: Seq2SeqConfig
    arrays: MappedArrays
    where: Path
    int8: bool

    def open(self) -> "Seq2Seq":
        """The network, on the mapped weights."""
        from regard.cpu.device import import_torch

        import_torch()
        import torch

        from regard.models import Seq2Seq
        from regard.weights.safetensors_files import build_model

        tensors = {name: torch.from_numpy(array) for name, array in self.arrays.items()}
        network = build_model(self.config, tensors, self.where, int8=self.int8)
        assert isinstance(network, Seq2Seq)
        return network


def read_arrays(path: Path) -> MappedArrays | None:
    """Every array of a safetensors file, or None if one has a dtype that numpy lacks (bfloat16)."""
    try:
        with safe_open(path, framework="np"):  # checks the offsets and lengths in the header
            pass
        with path.open("rb") as file:
            # copy on write: changes to an array never reach the file
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        start = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:start])
        header.pop("__metadata__", None)
        if any(entry["dtype"] not in DTYPES for entry in header.values()):
            return None
        return MappedArrays({name: _array(content, start, entry) for name, entry in header.items()}, content)
    except (SafetensorError, OSError, ValueError) as error:
        raise broken_file(path, error) from None


def broken_file(path: Path, error: Exception) -> WeightsError:
    reason = " ".join(str(error).split())
    return WeightsError(f"{path}: not a complete safetensors file ({reason}); it may have been truncated")


def max_layers(config: BlockConfig) -> int:
    """The number of layers of the deepest stack.

    A layer has many tensors, so a file with fewer tensors than layers cannot be right. Comparing the two first avoids
    building a model of a million layers.
    """
    return max(getattr(config, name, 0) for name in ("layers", "encoder_layers", "decoder_layers"))


def _array(content: mmap.mmap, start: int, entry: dict[str, Any]) -> Array:
    shape, count = entry["shape"], math.prod(entry["shape"])
    array: Array = np.frombuffer(content, DTYPES[entry["dtype"]], count, start + entry["data_offsets"][0]).reshape(
        shape
    )
    return array if array.flags.aligned else array.copy()
