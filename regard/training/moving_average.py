"""An exponential moving average of a model's weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from regard.weights.safetensors_files import parameters


class MovingAverage:
    """The averaged weights, as `tensors` by parameter name. Validation and export use them instead of the model's."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay = model, decay
        self.tensors = {name: parameter.detach().clone() for name, parameter in parameters(model).items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        # Early on the average follows quickly: after n updates it looks back over about n / 10 of them.
        decay = min(self.decay, (1 + step) / (10 + step))
        weights = parameters(self.model)
        torch._foreach_lerp_(list(self.tensors.values()), [weights[name] for name in self.tensors], 1 - decay)

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Give the model the averaged weights while the block runs."""
        weights = parameters(self.model)
        saved = {name: parameter.detach().clone() for name, parameter in weights.items()}
        with torch.no_grad():
            for name, parameter in weights.items():
                parameter.copy_(self.tensors[name])
            try:
                yield
            finally:
                for name, parameter in weights.items():
                    parameter.copy_(saved[name])
