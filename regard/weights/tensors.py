"""Safetensors files -> a model's parameters, with nothing missing, nothing left over, every shape right."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.config import load_json
from regard.errors import OutputError, WeightsError
from regard.io import atomic_file
from regard.models import Family, build
from regard.models.config import BlockConfig
from regard.plural import counted
from regard.weights.arrays import SCALE, WHOLE, most_layers, not_whole
from regard.weights.directory import INDEX, ONE_FILE
from regard.weights.quantize import quantize


def read_tensors(directory: Path) -> dict[str, Tensor]:
    """Every tensor of a model directory, mapped from disk: memory is used only for what is touched."""
    if (directory / INDEX).is_file():
        return _read_shards(directory)
    if (directory / ONE_FILE).is_file():
        return read_file(directory / ONE_FILE)
    if any(directory.glob("pytorch_model*.bin")):
        raise WeightsError(
            f"{directory}: holds only pickled weights, which can run code and are never opened; "
            f"save the model as safetensors where it was made"
        )
    raise WeightsError(f"{directory}: there is no {ONE_FILE}")


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    try:
        with atomic_file(path) as draft:
            save_file(contiguous, draft, metadata={"format": "pt"})  # without it transformers refuses the file
    except SafetensorError as error:
        raise OutputError(f"{path}: cannot be written ({error})") from None


def mean(models: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Of the weights of several models, one after the other, summed in float64."""
    total: dict[str, Tensor] = {}
    count = 0
    for count, tensors in enumerate(models, 1):  # noqa: B007 (how many there were is what is asked)
        for name, tensor in tensors.items():
            total[name] = total[name] + tensor.detach().double() if name in total else tensor.detach().double()
    return {name: (tensor / count).float() for name, tensor in total.items()}


def fill(config: BlockConfig, tensors: Mapping[str, Tensor], where: Path, *, int8: bool = False) -> Family:
    """A model of these settings with these weights, as float32 where they were half precision."""
    layers = most_layers(config)
    if layers > len(tensors):
        asked, held = counted(layers, "layer"), counted(len(tensors), "tensor")
        raise WeightsError(f"{where}: its settings ask for {asked}, but it holds {held}")
    try:
        with torch.device("meta"):  # laid out without memory: nothing is initialised only to be overwritten
            model = quantize(build(config)) if int8 else build(config)
    except (RuntimeError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise WeightsError(f"{where}: its settings ask for more than any machine can hold ({reason:.100})") from None
    wanted = contents(model)
    _complain("missing from it", wanted.keys() - tensors.keys(), where)
    _complain("left over in it", tensors.keys() - wanted.keys(), where)
    for name, parameter in wanted.items():
        if tensors[name].shape != parameter.shape:
            there, here = list(tensors[name].shape), list(parameter.shape)
            raise WeightsError(f"{where}: '{name}' has shape {there}, but these settings ask for {here}")
        found, floats = tensors[name], parameter.is_floating_point()
        if not (found.is_floating_point() if floats else found.dtype == parameter.dtype):
            kind = "floating-point numbers" if floats else str(parameter.dtype)
            raise WeightsError(f"{where}: '{name}' holds {tensors[name].dtype}, not {kind}")
    taken = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    model.load_state_dict(taken, strict=False, assign=True)
    model.tie()
    return model.eval()


def widened(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices of int8 as floating-point numbers again, so that they can be learnt further."""
    whole = {name.removesuffix(WHOLE): tensor for name, tensor in tensors.items() if name.endswith(WHOLE)}
    scales = {name: tensors[name + SCALE][:, None] for name in whole if name + SCALE in tensors}
    others = {name: tensor for name, tensor in tensors.items() if not name.endswith((WHOLE, SCALE))}
    return others | {name: whole[name] * scales[name] for name in scales}


def parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """A model's parameters by name, a shared one once, under its first name."""
    return dict(model.named_parameters())


def contents(model: nn.Module) -> dict[str, Tensor]:
    """Everything of a model that its file holds: the parameters, and the matrices of an int8 model."""
    return {**parameters(model), **dict(model.named_buffers())}


def read_file(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise not_whole(path, error) from None


def _read_shards(directory: Path) -> dict[str, Tensor]:
    index = load_json(directory / INDEX).get("weight_map")
    if not isinstance(index, dict) or not all(isinstance(shard, str) for shard in index.values()):
        raise WeightsError(f"{directory / INDEX}: has no table 'weight_map' of tensor names and files")
    tensors: dict[str, Tensor] = {}
    for shard in sorted(set(index.values())):
        if Path(shard).name != shard:  # an index must not lead out of its directory
            raise WeightsError(f"{directory / INDEX}: '{shard}' is not a plain file name")
        if not (directory / shard).is_file():
            raise WeightsError(f"{directory / INDEX}: names '{shard}', which is not there")
        found = read_file(directory / shard)
        if twice := found.keys() & tensors.keys():
            raise WeightsError(f"{directory / shard}: '{min(twice)}' is in another shard as well")
        tensors.update(found)
    if lost := index.keys() - tensors.keys():
        raise WeightsError(f"{directory / INDEX}: names '{min(lost)}', which is in no shard")
    return tensors


def _complain(how: str, names: Iterable[str], where: Path) -> None:
    if listed := sorted(names):
        more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
        raise WeightsError(f"{where}: does not fit its settings; {how}: {', '.join(listed[:3])}{more}")
