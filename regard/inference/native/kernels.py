"""The library of compiled kernels and the weights of linear layers, as arrays. Check `available()` first.

Does not need torch: translation runs without it.

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

from regard.cpu import threads
from regard.decoding.hypothesis import BROKEN_LOGITS
from regard.errors import InputError, ModelError, OutOfMemory
from regard.inference.native import build

Array = NDArray[Any]
Floats = NDArray[np.float32]

WIDTH_MULTIPLE = 32
"""Widths must be a multiple of this."""
ACTIVATIONS = {"none": 0, "relu": 1, "silu": 2, "gelu": 3, "gelu_tanh": 4}
SHORT_CALLS = ("search_rows", "search_done", "search_hypothesis", "search_pop_done", "search_cancel")
"""Functions that take about a microsecond; they run without releasing Python's global lock."""
OPENMP_FUNCTIONS = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")


OK, OUT_OF_MEMORY, BAD_INPUT, NOT_FINITE = range(4)
"""`Status` in kernels.h: what a function returns that can fail."""


def check(status: int) -> None:
    """Raise what a status of the library means."""
    if status == OUT_OF_MEMORY:
        raise OutOfMemory("there is not enough memory for these texts; translate fewer or shorter ones at a time")
    if status == BAD_INPUT:
        raise InputError("a token or a length is outside what this model was made for")
    if status == NOT_FINITE:
        raise ModelError(BROKEN_LOGITS)


def available() -> bool:
    """Whether the compiled kernels run on this machine."""
    return isa_level() > 0


@functools.cache
def isa_level() -> int:
    """0: not available. 1: AVX2. 2: AVX-512 with VNNI."""
    library = build.library()
    return 0 if library is None else prepare(library)


class LinearStruct(Structure):
    """`Linear` in kernels.h: the weights of a linear layer."""

    _fields_ = (
        *((name, c_void_p) for name in ("weight", "weight_sums", "scales", "bias")),
        *((name, c_long) for name in ("width", "outputs", "packed")),
    )


class AttentionArgs(Structure):
    """The struct of the same name in kernels.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("q", "keys", "values", "seq_ids", "key_indices", "lengths")),
        *((name, c_long) for name in ("rows", "heads", "kv_heads", "width")),
        *((name, c_long) for name in ("seq_stride", "head_stride", "key_stride", "max_keys", "transposed_stride")),
        ("scale", c_float),
        ("fp16", c_int),
        ("out", c_void_p),
    )


def prepare(library: ctypes.CDLL) -> int:
    """Declare the functions' types, give the library torch's threads, and return its instruction set level."""
    pointer = c_void_p
    procedures: dict[str, tuple[Any, ...]] = {
        "use_openmp": (pointer, pointer, pointer),
        "pack_int8": (pointer, c_long, c_long, c_int, pointer, pointer),
        "pack_floats": (pointer, c_long, c_long, c_int, pointer),
        "linear": (POINTER(POINTER(LinearStruct)), c_int, pointer, c_long, c_int, c_int, pointer, POINTER(c_void_p)),
        "topk": (pointer, c_long, c_long, c_long, c_int, pointer, pointer, pointer, pointer),
        "search_free": (pointer,),
        "search_pop_done": (pointer,),
    }
    statuses: dict[str, tuple[Any, ...]] = {
        "attention": (POINTER(AttentionArgs), c_int),
        "embed": (pointer, pointer, pointer, c_long, pointer),
        "encode": (pointer, pointer, pointer, c_long, c_long, c_int, pointer, pointer),
        "decoder_step": (pointer, pointer, c_long, pointer, c_int, pointer),
        "search_new": (pointer, POINTER(c_void_p)),
        "search_add": (pointer, pointer, pointer, pointer, pointer, c_long, c_int),
        "search_step": (pointer, c_long, c_long, c_long, c_int),
    }
    functions: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "isa_level": (c_int, ()),
        "float_panel_width": (c_long, ()),
        "int8_panel_width": (c_int, (c_int,)),
        "linear_scratch_bytes": (c_long, (c_long, c_long)),
        "stack_scratch_bytes": (c_long, (pointer, c_long)),
        "memory_capacity": (c_long, (c_long,)),
        "encode_scratch_bytes": (c_long, (pointer, c_long)),
        "search_cancel": (c_int, (pointer, c_long)),
        "search_rows": (c_long, (pointer,)),
        "search_done": (c_long, (pointer, POINTER(c_long))),
        "search_hypothesis": (c_void_p, (pointer, c_long)),
    }
    functions |= {name: (None, arguments) for name, arguments in procedures.items()}
    functions |= {name: (c_int, arguments) for name, arguments in statuses.items()}
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    _share_threads(library)
    return int(library.isa_level())


def _share_threads(library: ctypes.CDLL) -> None:
    """Use the OpenMP that comes with torch: with a second one, the threads of the two would wait for each other."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        return
    folder = Path(found.origin).parent
    for path in sorted([*folder.glob("lib/libgomp*"), *folder.parent.glob("torch.libs/libgomp*")]):
        openmp = ctypes.CDLL(str(path))
        library.use_openmp(*(ctypes.cast(getattr(openmp, name), c_void_p) for name in OPENMP_FUNCTIONS))
        return


@functools.cache
def call(name: str) -> Callable[..., int]:
    """A function of the library."""
    library = build.library() if available() else None  # available() declares the functions' types
    assert library is not None, "check available() first"
    function: Callable[..., int] = getattr(library, name)
    if name not in SHORT_CALLS:
        return function
    # keeps Python's lock: after a release, taking it back from another worker can cost fifty microseconds
    held: Any = getattr(ctypes.PyDLL(library._name, handle=library._handle), name)
    held.argtypes, held.restype = getattr(library, name).argtypes, getattr(library, name).restype
    short: Callable[..., int] = held
    return short


class Tensor(Protocol):
    """A torch tensor, as far as it matters here."""

    def data_ptr(self) -> int: ...


def address(array: Array | Tensor | None) -> int | None:
    """Where the numbers are in memory."""
    if array is None:
        return None
    return int(array.ctypes.data) if isinstance(array, np.ndarray) else array.data_ptr()


def pad_last_dim(array: Array, size: int) -> Array:
    """Append zeros to the last dimension up to this size; returns the same array if there is nothing to do."""
    missing = size - array.shape[-1]
    if missing:
        array = np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)])
    return np.ascontiguousarray(array)


def _padded_width(weight_ND: Array) -> Array:
    width = weight_ND.shape[1]
    return pad_last_dim(weight_ND, width + -width % WIDTH_MULTIPLE)


class NativeLinear:
    """The weights of a linear layer, in the layout of the compiled kernels."""

    def __init__(
        self, weight: Array, scales_N: Floats | None, bias_N: Floats | None, *, outputs: int, width: int
    ) -> None:
        self.outputs, self.width = outputs, width
        self._keep_alive = [weight, scales_N, bias_N]  # the struct has only their addresses
        self.struct = LinearStruct(
            weight=address(weight), scales=address(scales_N), bias=address(bias_N), width=width, outputs=outputs
        )

    @classmethod
    def from_floats(cls, weight_ND: Floats, bias_N: Floats | None) -> "NativeLinear":
        """Uses the weights in place, so it sees their changes; copies only to pad the width."""
        padded_ND = _padded_width(weight_ND)
        return cls(padded_ND, None, bias_N, outputs=len(padded_ND), width=padded_ND.shape[1])

    @classmethod
    def from_frozen_floats(cls, weight_ND: Floats, bias_N: Floats | None) -> "NativeLinear":
        """Copies the weights to the order in which they are read: faster, above all for few rows."""
        weight_ND = _padded_width(weight_ND)
        outputs, width = weight_ND.shape
        panel = call("float_panel_width")()
        packed = np.zeros(-(-outputs // panel) * panel * width, np.float32)
        call("pack_floats")(address(weight_ND), outputs, width, threads.current_threads(), address(packed))
        layer = cls(packed, None, bias_N, outputs=outputs, width=width)
        layer.struct.packed = 1
        return layer

    @classmethod
    def from_int8(cls, packed: "PackedInt8", bias_N: Floats | None) -> "NativeLinear":
        bias_N = np.zeros(packed.outputs, np.float32) if bias_N is None else bias_N
        bias_N = pad_last_dim(bias_N, len(packed.scales_N))
        layer = cls(packed.qweight, packed.scales_N, bias_N, outputs=packed.outputs, width=packed.width)
        layer.struct.weight_sums = address(packed.weight_sums_N)
        layer._keep_alive.append(packed.weight_sums_N)
        return layer


@dataclass(frozen=True, eq=False)
class PackedInt8:
    """An int8 matrix in the order in which the kernels read it, padded to whole panels of outputs."""

    qweight: NDArray[np.int8]
    weight_sums_N: NDArray[np.int32]
    scales_N: Floats
    outputs: int
    width: int


def pack_int8(qweight_ND: NDArray[np.int8], scale_N: Floats) -> PackedInt8:
    qweight_ND = _padded_width(qweight_ND)
    outputs, width = qweight_ND.shape
    panel = call("int8_panel_width")(isa_level())
    padded = -(-outputs // panel) * panel
    packed, sums_N = np.empty(padded * width, np.int8), np.empty(padded, np.int32)
    call("pack_int8")(address(qweight_ND), outputs, width, isa_level(), address(packed), address(sums_N))
    scales_N = pad_last_dim(scale_N.astype(np.float32), padded)
    return PackedInt8(packed, sums_N, scales_N, outputs, width)
