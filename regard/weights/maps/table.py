"""Tables of tensor names: rows of (regard's name, Hugging Face's name), read in both directions.

A `*` stands for the number of a block. Where the numbers are arranged differently, the row has a `Layout` that
converts in both directions; every other row only renames. A tensor without a row is an error. Renaming works on numpy
arrays too, without torch.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from regard.errors import WeightsError
from regard.models.config import BlockConfig
from regard.plural import counted

if TYPE_CHECKING:
    from torch import Tensor

Numbers = TypeVar("Numbers")
"""Tensors or arrays."""


@dataclass(frozen=True)
class Layout:
    """How a tensor is arranged in a file, compared with regard's tensors (one or several)."""

    read: Callable[[Tensor], Sequence[Tensor]]
    """The file's tensor -> regard's tensors."""
    write: Callable[[Sequence[Tensor]], Tensor]
    """regard's tensors -> the file's tensor."""


@dataclass(frozen=True)
class Row:
    regard: tuple[str, ...]
    hf: str
    layout: Layout
    copies: tuple[str, ...] = ()
    """Other names that the same, tied tensor may have in Hugging Face's files."""


@dataclass(frozen=True)
class HFModelType:
    """A `model_type` of transformers: its settings and its table of names."""

    name: str
    config_type: type[BlockConfig]
    """regard's settings for it, and so its family."""
    read_settings: Callable[[Mapping[str, object], Iterable[str]], BlockConfig]
    """Raw config.json and the names of the tensors -> regard's settings."""
    write_settings: Callable[[BlockConfig], dict[str, object]]
    rows: Callable[[BlockConfig], list[Row]]
    prefix: str = ""
    """Prefix of the base model's names in a model with a head; a base model is saved without it."""
    ignored: tuple[str, ...] = ()
    """Tensors in the files that regard does not need: buffers, and weights without a use."""
    computed: Callable[[BlockConfig], dict[str, Tensor]] = lambda config: {}
    """Ignored tensors that transformers requires in a file."""


SAME = Layout(lambda stored: [stored], lambda tensors: tensors[0])
TRANSPOSED = Layout(lambda stored: [stored.t()], lambda tensors: tensors[0].t())


def shaped(regard: tuple[int, ...], hf: tuple[int, ...]) -> Layout:
    """The same numbers in another shape."""

    def read(stored: Tensor) -> Sequence[Tensor]:
        if stored.shape != hf:  # a third shape with as many numbers is an error, not something to reshape
            raise ValueError
        return [stored.reshape(regard)]

    return Layout(read, lambda tensors: tensors[0].reshape(hf))


def thirds(*, transposed: bool) -> Layout:
    """Query, key and value in one tensor, one after the other along the last axis (GPT-2)."""

    def read(stored: Tensor) -> Sequence[Tensor]:
        return [third.t() if transposed else third for third in stored.tensor_split(3, dim=-1)]

    def write(tensors: Sequence[Tensor]) -> Tensor:
        import torch

        return torch.cat([third.t() if transposed else third for third in tensors], dim=-1)

    return Layout(read, write)


def pairs_to_halves(heads: int) -> Layout:
    """Rotary pairs (2i, 2i + 1) of each head <-> regard's pairs (i, i + K/2): reorders the rows of a projection."""

    def read(stored: Tensor) -> Sequence[Tensor]:
        return [stored.reshape(heads, -1, 2, *stored.shape[1:]).transpose(1, 2).reshape(stored.shape)]

    def write(tensors: Sequence[Tensor]) -> Tensor:
        (tensor,) = tensors
        return tensor.reshape(heads, 2, -1, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)

    return Layout(read, write)


def row(regard: str, hf: str, layout: Layout = SAME, *, copies: tuple[str, ...] = ()) -> Row:
    return Row((regard,), hf, layout, copies)


def part(regard: str, hf: str, layout: Layout = SAME) -> list[Row]:
    """The weight and the bias of a linear layer or a norm. (A bias is a vector: there is nothing to transpose.)"""
    bias_layout = SAME if layout is TRANSPOSED else layout
    return [
        row(f"{regard}.weight", f"{hf}.weight", layout),
        row(f"{regard}.bias", f"{hf}.bias", bias_layout),
    ]


def from_hf(
    hf_tensors: Mapping[str, Numbers], model_type: HFModelType, rows: list[Row], where: Path
) -> dict[str, Numbers]:
    """Hugging Face's tensors under regard's names."""
    bare = not any(name.startswith(model_type.prefix) for name in hf_tensors)  # a base model, saved without its prefix
    left = {name: tensor for name, tensor in hf_tensors.items() if not _matches_any(model_type.ignored, name)}
    tensors: dict[str, Numbers] = {}
    for entry in rows:
        for pattern in (entry.hf, *entry.copies):
            pattern = pattern.removeprefix(model_type.prefix) if bare else pattern
            for name in list(left):
                number = _match(pattern, name)
                if number is None:
                    continue
                stored = left.pop(name)
                names = [regard_name.replace("*", number) for regard_name in entry.regard]
                if names[0] not in tensors:  # otherwise it is another copy of a tied tensor
                    tensors.update(zip(names, _convert(entry, stored, name, where), strict=True))
    if left:
        first = ", ".join(sorted(left)[:3])
        raise WeightsError(f"{where}: unknown tensors: {first} ({counted(len(left), 'tensor')} left over)")
    return tensors


def to_hf(tensors: Mapping[str, Tensor], model_type: HFModelType, rows: list[Row], *, bare: bool) -> dict[str, Tensor]:
    """regard's tensors under Hugging Face's names. `bare` leaves out the prefix, for a model without a head."""
    left, hf_tensors = dict(tensors), {}
    for entry in rows:
        for name in list(left):
            number = _match(entry.regard[0], name)
            if number is None:
                continue
            found = [left.pop(regard_name.replace("*", number)) for regard_name in entry.regard]
            hf_name = entry.hf.removeprefix(model_type.prefix) if bare else entry.hf
            hf_tensors[hf_name.replace("*", number)] = entry.layout.write(found)
    assert not left, f"{model_type.name} has no name for {sorted(left)[:3]}"
    return hf_tensors


def _convert(entry: Row, stored: Any, name: str, where: Path) -> Sequence[Any]:
    try:
        return entry.layout.read(stored)
    except (RuntimeError, ValueError, TypeError, IndexError, OverflowError):  # it cannot be split or reordered
        raise WeightsError(f"{where}: '{name}' has the unexpected shape {list(stored.shape)}") from None


def _match(pattern: str, name: str) -> str | None:
    """The number of the block if `name` matches, '' if the pattern has none, None if it does not match."""
    found = _compiled(pattern).fullmatch(name)
    if found is None:
        return None
    return found.group(1) if found.groups() else ""


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", "([0-9]+)"))


def _matches_any(patterns: Iterable[str], name: str) -> bool:
    return any(_match(pattern, name) is not None for pattern in patterns)
