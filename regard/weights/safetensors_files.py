"""Safetensors files <-> a model's tensors: nothing missing, nothing left over, every shape as expected."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from regard.config import load_json
from regard.errors import OutputError, WeightsError, one_line
from regard.io import atomic_file
from regard.models import Family, build
from regard.models.config import BlockConfig
from regard.weights.model_directory import (
    INDEX,
    MAX_TENSORS,
    QWEIGHT,
    SCALE,
    WEIGHTS,
    StoredArray,
    WeightsFile,
    broken_file,
    check_counts,
    check_header,
    read_header,
)
from regard.weights.quantize import quantize

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


def read_tensors(directory: Path) -> dict[str, Tensor]:
    """Every tensor of a model directory."""
    if (directory / INDEX).is_file():
        return _read_shards(directory)
    if (directory / WEIGHTS).is_file():
        return read_file(directory / WEIGHTS)
    if any(directory.glob("pytorch_model*.bin")):
        raise WeightsError(
            f"{directory}: contains only pickled weights, which regard never opens because they can run code; "
            f"save the model as safetensors first"
        )
    raise WeightsError(f"{directory}: {WEIGHTS} is missing")


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    try:
        with atomic_file(path) as draft:
            save_file(contiguous, draft, metadata={"format": "pt"})  # without it transformers refuses the file
    except SafetensorError as error:
        raise OutputError(f"{path}: cannot be written ({error})") from None


def mean(models: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of the weights of several models, summed in float64, one model at a time."""
    total: dict[str, Tensor] = {}
    count = 0
    for count, tensors in enumerate(models, 1):  # noqa: B007 (the last count is the number of models)
        for name, tensor in tensors.items():
            total[name] = total[name] + tensor.detach().double() if name in total else tensor.detach().double()
    return {name: (tensor / count).float() for name, tensor in total.items()}


def build_model(config: BlockConfig, tensors: Mapping[str, Tensor], where: Path, *, int8: bool = False) -> Family:
    """Build a model with these settings and load its weights; half-precision weights become float32."""
    check_counts(config, len(tensors), where)
    try:
        with torch.device("meta"):  # no memory, and no initialization that would be overwritten
            model = quantize(build(config)) if int8 else build(config)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        reason = one_line(error)
        raise WeightsError(
            f"{where}: its settings describe a model larger than any machine can hold ({reason:.100})"
        ) from None
    _check_tensors(state_tensors(model), tensors, where)
    state = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    model.load_state_dict(state, strict=False, assign=True)
    model.tie()
    return model.eval()


def _check_tensors(expected: Mapping[str, Tensor], tensors: Mapping[str, Tensor], where: Path) -> None:
    _check_names("missing", expected.keys() - tensors.keys(), where)
    _check_names("left over", tensors.keys() - expected.keys(), where)
    for name, parameter in expected.items():
        found = tensors[name]
        if found.shape != parameter.shape:
            shapes = f"has shape {list(found.shape)}, but its settings require {list(parameter.shape)}"
            raise WeightsError(f"{where}: '{name}' {shapes}")
        floats = parameter.is_floating_point()
        if not (found.is_floating_point() if floats else found.dtype == parameter.dtype):
            dtype = "floating point" if floats else str(parameter.dtype)
            raise WeightsError(f"{where}: '{name}' is {found.dtype}, not {dtype}")


def dequantized(tensors: Mapping[str, Tensor], where: Path) -> dict[str, Tensor]:
    """int8 matrices as float32 again, for further training."""
    qweights = {name.removesuffix(QWEIGHT): tensor for name, tensor in tensors.items() if name.endswith(QWEIGHT)}
    scales = {name: tensors[name + SCALE] for name in qweights if name + SCALE in tensors}
    others = {name: tensor for name, tensor in tensors.items() if not name.endswith((QWEIGHT, SCALE))}
    try:
        return others | {name: qweights[name] * scales[name][:, None] for name in scales}
    except (RuntimeError, IndexError):
        raise WeightsError(f"{where}: the scales of an int8 matrix have another shape than its rows") from None


def parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """A model's parameters by name; a tied one appears once, under its first name."""
    return dict(model.named_parameters())


def state_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every tensor that a model's file contains: the parameters, and the buffers of an int8 model."""
    return {**parameters(model), **dict(model.named_buffers())}


def read_file(path: Path) -> dict[str, Tensor]:
    check_header(path)
    try:
        file = WeightsFile(path)
        header, start = read_header(file)
        return {name: _tensor(file, start, entry) for name, entry in header.items()}
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise broken_file(path, error) from None


def _tensor(file: WeightsFile, start: int, entry: dict[str, Any]) -> Tensor:
    """In memory of our own, see `WeightsFile`: safetensors would map the file."""
    if entry["dtype"] not in DTYPES:
        raise ValueError(f"numbers of the type {entry['dtype']}")
    first, end = entry["data_offsets"]
    if first == end:
        return torch.empty(entry["shape"], dtype=DTYPES[entry["dtype"]])
    numbers = StoredArray(file, start + first, (end - first,), np.dtype(np.uint8))
    return torch.from_numpy(np.asarray(numbers)).view(DTYPES[entry["dtype"]]).reshape(entry["shape"])


def _read_shards(directory: Path) -> dict[str, Tensor]:
    index = load_json(directory / INDEX).get("weight_map")
    if not isinstance(index, dict) or not all(isinstance(shard, str) for shard in index.values()):
        raise WeightsError(f"{directory / INDEX}: the table 'weight_map' of tensor names and files is missing")
    tensors: dict[str, Tensor] = {}
    for shard in sorted(set(index.values())):
        if Path(shard).name != shard:  # a path must not leave the directory
            raise WeightsError(f"{directory / INDEX}: '{shard}' is not a plain file name")
        if not (directory / shard).is_file():
            raise WeightsError(f"{directory / INDEX}: lists '{shard}', but that file is missing")
        found = read_file(directory / shard)
        if twice := found.keys() & tensors.keys():
            raise WeightsError(f"{directory / shard}: '{min(twice)}' is also in another shard")
        tensors.update(found)
        if len(tensors) > MAX_TENSORS:
            raise WeightsError(f"{directory / INDEX}: its shards have more than {MAX_TENSORS:,} tensors")
    if lost := index.keys() - tensors.keys():
        raise WeightsError(f"{directory / INDEX}: lists '{min(lost)}', but no shard contains it")
    return tensors


def _check_names(problem: str, names: Iterable[str], where: Path) -> None:
    if listed := sorted(names):
        more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
        raise WeightsError(f"{where}: tensors do not match its settings; {problem}: {', '.join(listed[:3])}{more}")
