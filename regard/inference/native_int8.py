"""Int8 linear layers on the native kernels, inside torch modules: what blocks/int8.py computes, faster on a CPU.

R rows  D width
"""

from typing import Any

from torch import Tensor, nn

from regard.blocks.int8 import Int8Linear, Int8Matrix
from regard.inference.native import kernels, torch_kernels


class NativeInt8Linear(Int8Linear):
    """An int8 linear layer that uses the native kernel on a CPU."""

    def __init__(self, weight: Int8Matrix, bias: Tensor | None) -> None:
        super().__init__(weight, bias)
        self._packed: kernels.NativeLinear | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_packed": None}  # it holds addresses: a copy packs its own

    def rows(self, x_RD: Tensor) -> Tensor:
        if x_RD.device.type != "cpu":
            return super().rows(x_RD)
        if self._packed is None:
            packed = torch_kernels.pack_int8(self.weight.whole, self.weight.scale)
            self._packed = torch_kernels.linear_from_int8(packed, self.bias)
        return torch_kernels.linear(x_RD, self._packed)


def use_native_linear(model: nn.Module) -> None:
    """Swap the int8 linear layers of a model, where the native kernels run on this machine."""
    int8 = [
        (part, name, child)
        for part in model.modules()
        for name, child in part.named_children()
        if type(child) is Int8Linear
    ]
    if int8 and kernels.available():
        for part, name, child in int8:
            setattr(part, name, NativeInt8Linear(child.weight, child.bias))
