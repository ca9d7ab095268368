"""Where a look inside is written down.

A `Trace` is handed to a model for one forward pass. Each part notes what it saw under a dotted path such as
`encoder.blocks.3.attention.weights`. Without a trace nothing is kept and the fused kernels run; with one the
output is the same, and the reference kernel shows its weights.
"""

from collections.abc import Iterator

from torch import Tensor


class Trace:
    """A flat record, path -> tensor, in the order in which the data travelled."""

    def __init__(self) -> None:
        self._seen: dict[str, Tensor] = {}
        self._prefix = ""

    def note(self, name: str, tensor: Tensor) -> None:
        path = self._prefix + name
        assert path not in self._seen, f"{path} was noted twice: one trace is for one forward pass"
        self._seen[path] = tensor.detach()

    def inside(self, name: str) -> "Trace":
        """The same record, seen from one part: what it notes goes under `name.`"""
        part = Trace()
        part._seen, part._prefix = self._seen, f"{self._prefix}{name}."
        return part

    def __getitem__(self, path: str) -> Tensor:
        return self._seen[self._prefix + path]

    def __contains__(self, path: str) -> bool:
        return self._prefix + path in self._seen

    def __iter__(self) -> Iterator[str]:
        return (path.removeprefix(self._prefix) for path in self._seen if path.startswith(self._prefix))

    def __bool__(self) -> bool:
        """A trace that has seen nothing yet is still a trace."""
        return True

    def __len__(self) -> int:
        return sum(1 for _ in self)


def inside(trace: Trace | None, name: str) -> Trace | None:
    """`trace.inside(name)`, or nothing when nobody is looking."""
    return None if trace is None else trace.inside(name)


def note(trace: Trace | None, name: str, tensor: Tensor) -> None:
    if trace is not None:
        trace.note(name, tensor)
