"""Device and number format by name, and a safe import of torch.

import_torch()                    import torch so that it is safe on this CPU
resolve_device("auto")            cuda, else mps, else cpu
resolve_dtype("auto", device)     float32 on a CPU, bfloat16 on a GPU that supports it in hardware
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from regard.cpu import threads
from regard.cpu.capabilities import prepare
from regard.errors import UsageError
from regard.plural import counted

if TYPE_CHECKING:
    import torch


def import_torch() -> None:
    """Import torch after `prepare`, and give it the number of threads that was used without it."""
    prepare()
    import torch  # noqa: F401

    threads.apply_to_torch()


def resolve_device(name: str = "auto") -> torch.device:
    """The device with this name; `auto` is the fastest available."""
    import torch

    if not isinstance(name, str):
        raise UsageError(f"device must be a name such as 'cpu', not {name!r}")
    mps, gpus = torch.backends.mps.is_available(), torch.cuda.device_count()
    if name == "auto":
        name = "cuda" if gpus else "mps" if mps else "cpu"
    match = re.fullmatch(r"cpu|mps|cuda(?::(0|[1-9][0-9]?))?", name)
    if not match:
        raise UsageError(f"device {name!r} is not known: use auto, cpu, mps, cuda or cuda:N")
    if name == "mps" and not mps:
        raise UsageError("device 'mps' is not available: it needs a Mac with Apple silicon; use auto or cpu")
    if name.startswith("cuda") and int(match[1] or 0) >= gpus:
        raise UsageError(
            f"device {name!r} is not available: torch sees {counted(gpus, 'CUDA device')}; use auto or cpu"
        )
    return torch.device(name)


def resolve_dtype(name: str, device: torch.device) -> torch.dtype:
    """The number format with this name; `auto` is bfloat16 on a GPU that supports it in hardware, else float32.

    On a CPU without AVX-512, torch's bfloat16 matmul takes 8 times as long as float32 (AMD EPYC, 256 rows).
    """
    import torch

    if name == "auto":
        native = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if native else torch.float32
    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if name not in known:
        raise UsageError(f"dtype {name!r} is not known: use auto, {', '.join(known)}")
    if name == "float16" and device.type == "cpu":
        raise UsageError("dtype 'float16' is for GPUs: use auto, float32 or bfloat16 on the CPU")
    if name == "bfloat16" and device.type == "cpu" and not prepare().bfloat16:
        raise UsageError("dtype 'bfloat16' crashes or gives wrong results on this CPU: use auto or float32")
    return known[name]
