"""Record the intermediate tensors of a forward pass.

A `Trace` is passed to a model for one forward pass. Each part records its tensors under a dotted path such as
`encoder.blocks.3.attention.weights`. Without a trace nothing is kept and the fused kernels run; with one, the
reference kernel runs, which has the weights to record, and the output is the same.
"""

import difflib
from collections.abc import Iterator, Mapping

from torch import Tensor

from regard.errors import UsageError


class MissingPath(UsageError, KeyError):
    """No tensor has this path."""

    __str__ = Exception.__str__  # a KeyError shows its message as a quoted string


class Trace(Mapping[str, Tensor]):
    """Tensors by path, in the order of the computation."""

    def __init__(self) -> None:
        self._tensors: dict[str, Tensor] = {}
        self._prefix = ""

    __eq__, __hash__ = object.__eq__, object.__hash__  # a Mapping compares its values, which tensors cannot

    def __repr__(self) -> str:
        shown = [f"{path} {tuple(self[path].shape)}" for path in (*self,)[:3]]
        return f"<Trace of {len(self)} tensors: {', '.join([*shown, '…'][: len(self)])}>"

    def note(self, name: str, tensor: Tensor) -> None:
        path = self._prefix + name
        assert path not in self._tensors, f"{path} was recorded twice; use one trace per forward pass"
        self._tensors[path] = tensor.detach()

    def inside(self, name: str) -> "Trace":
        """The same record for a part: its paths start with `name.`"""
        part = Trace()
        part._tensors, part._prefix = self._tensors, f"{self._prefix}{name}."
        return part

    def __getitem__(self, path: str) -> Tensor:
        if path not in self:
            near = difflib.get_close_matches(path, [*self], n=1)
            raise MissingPath(f"nothing was recorded as '{path}'" + (f" - did you mean '{near[0]}'?" if near else ""))
        return self._tensors[self._prefix + path]

    def __contains__(self, path: object) -> bool:
        return f"{self._prefix}{path}" in self._tensors

    def __iter__(self) -> Iterator[str]:
        return (path.removeprefix(self._prefix) for path in self._tensors if path.startswith(self._prefix))

    def __bool__(self) -> bool:
        """True for an empty trace too."""
        return True

    def __len__(self) -> int:
        return sum(1 for _ in self)
