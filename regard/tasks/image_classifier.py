"""One image, one stack."""

import torch
from torch import Tensor

from regard.errors import InputError
from regard.models.vision import Vision
from regard.tasks.base import Model, by_probability


class ImageClassifier(Model):
    """A vision model: pixels in the range it was trained on (C, Y, X) in, labels out."""

    network: Vision

    @property
    def tasks(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("classify",) if self.network.config.labels else ()

    def classify(self, item: Tensor) -> dict[str, float]:
        if not self.network.config.labels:
            self._cannot("classify")
        return by_probability(self.network.config.labels, self.logits(item))

    @torch.inference_mode()
    def logits(self, ids: Tensor, target: object = None) -> Tensor:
        """Of the labels (N), for the pixels of one image; without labels, the states (P, D)."""
        config = self.network.config
        if ids.shape != (config.channels, config.image, config.image):
            wanted = [config.channels, config.image, config.image]
            raise InputError(f"the image has shape {list(ids.shape)}, but this model looks at {wanted}")
        out: Tensor = self.network(ids.float()[None].to(self.device))
        return out[0]
