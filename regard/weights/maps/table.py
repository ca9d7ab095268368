"""The shape of a name table: rows of (ours, theirs), read in both directions.

A `*` stands for a block's number. Where the numbers themselves lie differently, the row says how in both
directions; everything else is a plain renaming. A tensor that no row knows is an error. A plain renaming works on
numpy's arrays just as well, for who does without torch.
"""

from __future__ import annotations

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
"""Tensors, or arrays."""


@dataclass(frozen=True)
class Layout:
    """How one of their tensors lies in memory, against ours (one or several)."""

    to_ours: Callable[[Tensor], Sequence[Tensor]]
    to_theirs: Callable[[Sequence[Tensor]], Tensor]


@dataclass(frozen=True)
class Row:
    ours: tuple[str, ...]
    theirs: str
    layout: Layout
    copies: tuple[str, ...] = ()
    """Other names under which the same, shared tensor may lie in their files."""


@dataclass(frozen=True)
class Foreign:
    """Everything that regard knows of one model type of `transformers`."""

    model_type: str
    kind: type[BlockConfig]
    """The settings, and with them the family, that it becomes here."""
    read_settings: Callable[[Mapping[str, object], Iterable[str]], BlockConfig]
    """Their config.json and the names of their tensors -> our settings."""
    write_settings: Callable[[BlockConfig], dict[str, object]]
    rows: Callable[[BlockConfig], list[Row]]
    prefix: str = ""
    """What stands before the base model's names where there is a head, and is left out where there is none."""
    no_weights: tuple[str, ...] = ()
    """Tensors in their files that are no weights or that no task of ours needs."""
    computed: Callable[[BlockConfig], dict[str, Tensor]] = lambda config: {}
    """Those of them that a reader of theirs would miss."""


SAME = Layout(lambda theirs: [theirs], lambda ours: ours[0])
TRANSPOSED = Layout(lambda theirs: [theirs.t()], lambda ours: ours[0].t())


def shaped(ours: tuple[int, ...], theirs: tuple[int, ...]) -> Layout:
    """The same numbers under another shape."""

    def to_ours(tensor: Tensor) -> Sequence[Tensor]:
        if tensor.shape != theirs:  # as many numbers in a third shape are not the same numbers
            raise ValueError
        return [tensor.reshape(ours)]

    return Layout(to_ours, lambda tensors: tensors[0].reshape(theirs))


def thirds(*, transposed: bool) -> Layout:
    """Query, key and value in one tensor, one after the other along the last axis (GPT-2)."""

    def to_ours(theirs: Tensor) -> Sequence[Tensor]:
        return [third.t() if transposed else third for third in theirs.tensor_split(3, dim=-1)]

    def to_theirs(ours: Sequence[Tensor]) -> Tensor:
        import torch

        return torch.cat([third.t() if transposed else third for third in ours], dim=-1)

    return Layout(to_ours, to_theirs)


def pairs_to_halves(heads: int) -> Layout:
    """Rotary pairs (2i, 2i + 1) of each head <-> our pairs (i, i + K/2), by reordering the rows of a projection."""

    def to_ours(theirs: Tensor) -> Sequence[Tensor]:
        return [theirs.reshape(heads, -1, 2, *theirs.shape[1:]).transpose(1, 2).reshape(theirs.shape)]

    def to_theirs(ours: Sequence[Tensor]) -> Tensor:
        return ours[0].reshape(heads, 2, -1, *ours[0].shape[1:]).transpose(1, 2).reshape(ours[0].shape)

    return Layout(to_ours, to_theirs)


def row(ours: str, theirs: str, layout: Layout = SAME, *, copies: tuple[str, ...] = ()) -> Row:
    return Row((ours,), theirs, layout, copies)


def part(ours: str, theirs: str, layout: Layout = SAME) -> list[Row]:
    """The weight and the bias of a linear part or a norm. (A bias is a vector: nothing to transpose.)"""
    bias_layout = SAME if layout is TRANSPOSED else layout
    return [
        row(f"{ours}.weight", f"{theirs}.weight", layout),
        row(f"{ours}.bias", f"{theirs}.bias", bias_layout),
    ]


def to_ours(theirs: Mapping[str, Numbers], foreign: Foreign, rows: list[Row], where: Path) -> dict[str, Numbers]:
    """Their tensors under our names."""
    bare = not any(name.startswith(foreign.prefix) for name in theirs)  # a base model, saved without its prefix
    left = {name: tensor for name, tensor in theirs.items() if not _matches_any(foreign.no_weights, name)}
    ours: dict[str, Numbers] = {}
    for entry in rows:
        for pattern in (entry.theirs, *entry.copies):
            pattern = pattern.removeprefix(foreign.prefix) if bare else pattern
            for name in list(left):
                number = _match(pattern, name)
                if number is None:
                    continue
                tensor = left.pop(name)
                names = [our_name.replace("*", number) for our_name in entry.ours]
                if names[0] not in ours:  # else it is another copy of a shared tensor
                    ours.update(zip(names, _laid_out(entry, tensor, name, where), strict=True))
    if left:
        first = ", ".join(sorted(left)[:3])
        raise WeightsError(
            f"{where}: no part of the model is called {first} ({counted(len(left), 'tensor')} left over)"
        )
    return ours


def to_theirs(ours: Mapping[str, Tensor], foreign: Foreign, rows: list[Row], *, bare: bool) -> dict[str, Tensor]:
    """Our tensors under their names."""
    left, theirs = dict(ours), {}
    for entry in rows:
        for name in list(left):
            number = _match(entry.ours[0], name)
            if number is None:
                continue
            tensors = [left.pop(our_name.replace("*", number)) for our_name in entry.ours]
            their_name = entry.theirs.removeprefix(foreign.prefix) if bare else entry.theirs
            theirs[their_name.replace("*", number)] = entry.layout.to_theirs(tensors)
    assert not left, f"{foreign.model_type} has no name for {sorted(left)[:3]}"
    return theirs


def _laid_out(entry: Row, tensor: Any, name: str, where: Path) -> Sequence[Any]:
    try:
        return entry.layout.to_ours(tensor)
    except (RuntimeError, ValueError):  # a shape that cannot be cut or reordered like this
        raise WeightsError(f"{where}: '{name}' has the unexpected shape {list(tensor.shape)}") from None


def _match(pattern: str, name: str) -> str | None:
    """The block's number where `name` fits, '' where the pattern has none, None where it does not fit."""
    found = re.fullmatch(re.escape(pattern).replace(r"\*", "([0-9]+)"), name)
    if found is None:
        return None
    return found.group(1) if found.groups() else ""


def _matches_any(patterns: Iterable[str], name: str) -> bool:
    return any(_match(pattern, name) is not None for pattern in patterns)
