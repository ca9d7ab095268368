"""The library of compiled loops, its functions and the weights that they read, as arrays. Ask `available()` first.

No torch here: to translate, a process may do without.

D width  N outputs
"""

import ctypes
import functools
from collections.abc import Callable
from ctypes import POINTER, Structure, c_float, c_int, c_long, c_void_p
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.inference.native import build

Array = NDArray[Any]
Floats = NDArray[np.float32]

WIDTH = 32
"""Widths must be a multiple of this."""
ACTIVATIONS = {"none": 0, "relu": 1, "silu": 2, "gelu": 3, "gelu_tanh": 4}


SHORT = ("search_rows", "search_done", "search_hypothesis", "search_drop", "memory_room", "stack_room")
LENT = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")


def available() -> bool:
    return level() > 0


@functools.cache
def level() -> int:
    """1: AVX2. 2: AVX-512 with VNNI."""
    library = build.library()
    return 0 if library is None else prepare(library)


class Part(Structure):
    """kernels.h's of the same name: a linear part."""

    _fields_ = (
        *((name, c_void_p) for name in ("weights", "sums", "scales", "bias")),
        *((name, c_long) for name in ("width", "outs", "packed")),
    )


class Look(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("q", "keys", "values", "slots", "places", "lengths")),
        *((name, c_long) for name in ("rows", "heads", "kv_heads", "width")),
        *((name, c_long) for name in ("slot_stride", "head_stride", "stride", "longest", "turned")),
        ("scale", c_float),
        ("half", c_int),
        ("out", c_void_p),
    )


def prepare(library: ctypes.CDLL) -> int:
    """Say what the functions take, lend them torch's threads, and give the library's level."""
    at, whole = c_void_p, c_int
    takes: dict[str, tuple[Any, ...]] = {
        "lend_threads": (at, at, at),
        "pack": (at, c_long, c_long, whole, at, at),
        "pack_floats": (at, c_long, c_long, at),
        "linear": (POINTER(POINTER(Part)), whole, at, c_long, whole, whole, at, POINTER(c_void_p)),
        "look": (POINTER(Look), whole),
        "weigh": (at, c_long, c_long, c_long, whole, at, at, at, at),
        "embed": (at, at, at, c_long, at),
        "read_sentences": (at, at, at, c_long, c_long, whole, at, at),
        "decode": (at, at, c_long, at, whole, at),
        "search_end": (at,),
        "search_read": (at, at, at, at, at, c_long, whole),
        "search_drop": (at,),
    }
    gives: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "float_panel": (c_long, ()),
        "stack_room": (c_long, (at, c_long)),
        "memory_room": (c_long, (c_long,)),
        "read_room": (c_long, (at, c_long)),
        "search_begin": (c_void_p, (at,)),
        "search_go_on": (whole, (at, c_long, c_long, whole)),
        "search_rows": (c_long, (at,)),
        "search_done": (c_long, (at, POINTER(c_long))),
        "search_hypothesis": (c_void_p, (at, c_long)),
    }
    for name, (result, arguments) in (gives | {name: (None, taken) for name, taken in takes.items()}).items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    _lend(library)
    return int(library.level())


def _lend(library: ctypes.CDLL) -> None:
    """torch brings an OpenMP of its own; a second one beside it would make their threads wait for each other."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        return
    folder = Path(found.origin).parent
    for path in sorted([*folder.glob("lib/libgomp*"), *folder.parent.glob("torch.libs/libgomp*")]):
        openmp = ctypes.CDLL(str(path))
        library.lend_threads(
            *(ctypes.cast(getattr(openmp, name), c_void_p) for name in LENT),
        )
        return


@functools.cache
def call(name: str) -> Callable[..., int]:
    library = build.library()
    assert library is not None, "ask available() first"
    function: Callable[..., int] = getattr(library, name)
    if name not in SHORT:
        return function
    # what takes a microsecond keeps Python's lock: to get it back from another worker can take fifty
    held: Any = getattr(ctypes.PyDLL(library._name, handle=library._handle), name)
    held.argtypes, held.restype = getattr(library, name).argtypes, getattr(library, name).restype
    kept: Callable[..., int] = held
    return kept


class Tensor(Protocol):
    """torch's, as far as it matters here."""

    def data_ptr(self) -> int: ...


def at(numbers: Array | Tensor | None) -> int | None:
    """Where they lie."""
    if numbers is None:
        return None
    return int(numbers.ctypes.data) if isinstance(numbers, np.ndarray) else numbers.data_ptr()


def widened(numbers: Array, most: int) -> Array:
    """With zeros after the last of each row, up to so many; as it is where it has them."""
    missing = most - numbers.shape[-1]
    if missing:
        numbers = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, missing)])
    return np.ascontiguousarray(numbers)


class Weights:
    """A linear part's, as the compiled loops want them."""

    def __init__(
        self, weights: Array, scales_N: Floats | None, bias_N: Floats | None, *, outs: int, width: int
    ) -> None:
        self.outs, self.width = outs, width
        self._kept = [weights, scales_N, bias_N]  # the part has only their addresses
        self.part = Part(at(weights), None, at(scales_N), at(bias_N), width, outs, 0)

    @classmethod
    def of_floats(cls, weight_ND: Floats, bias_N: Floats | None) -> "Weights":
        """As they are, without a copy, where the width allows it."""
        outs, width = weight_ND.shape
        weight_ND = widened(weight_ND, width + -width % WIDTH)
        return cls(weight_ND, None, bias_N, outs=outs, width=weight_ND.shape[1])

    @classmethod
    def of_fixed_floats(cls, weight_ND: Floats, bias_N: Floats | None) -> "Weights":
        """A copy in the order in which they are read, for floats that nobody will change: faster, most for few rows."""
        outs, width = weight_ND.shape
        weight_ND = widened(weight_ND, width + -width % WIDTH)
        width, panel = weight_ND.shape[1], call("float_panel")()
        packed = np.zeros(-(-outs // panel) * panel * width, np.float32)
        call("pack_floats")(at(weight_ND), outs, width, at(packed))
        weights = cls(packed, None, bias_N, outs=outs, width=width)
        weights.part.packed = 1
        return weights

    @classmethod
    def of_int8(cls, packed: "Packed", bias_N: Floats | None) -> "Weights":
        bias_N = np.zeros(packed.outs, np.float32) if bias_N is None else bias_N
        bias_N = widened(bias_N, len(packed.scales_N))
        weights = cls(packed.weights, packed.scales_N, bias_N, outs=packed.outs, width=packed.width)
        weights.part.sums = at(packed.sums_N)
        weights._kept.append(packed.sums_N)
        return weights


@dataclass(frozen=True, eq=False)
class Packed:
    """An int8 matrix in the order in which the compiled loops read it, whole panels of outputs."""

    weights: NDArray[np.int8]
    sums_N: NDArray[np.int32]
    scales_N: Floats
    outs: int
    width: int


def pack(whole_ND: NDArray[np.int8], scale_N: Floats) -> Packed:
    outs, width = whole_ND.shape
    whole_ND = widened(whole_ND, width + -width % WIDTH)
    width, panel = whole_ND.shape[1], call("panel")(level())
    room = -(-outs // panel) * panel
    packed, sums_N = np.empty(room * width, np.int8), np.empty(room, np.int32)
    call("pack")(at(whole_ND), outs, width, level(), at(packed), at(sums_N))
    return Packed(packed, sums_N, widened(scale_N.astype(np.float32), room), outs, width)
