"""One step of a search, family by family: new tokens in, logits of the next one out, the past in a cache.

R rows  L new tokens  V vocabulary
"""

import torch
from torch import Tensor

from regard.models.decoder import Decoder


class WritingStep:
    """A decoder that goes on after its prompt, which is padded on the left."""

    def __init__(self, network: Decoder, present_BL: Tensor) -> None:
        self._network, self._present_BL, self._cache = network, present_BL, network.new_cache()

    def __call__(self, ids_RL: Tensor) -> Tensor:
        first = self._cache.length == 0
        present_RL = self._present_BL if first else torch.ones_like(ids_RL, dtype=torch.bool)
        states_RLD = self._network.states(ids_RL, present_RL, self._cache)
        logits_RV: Tensor = self._network.output(states_RLD[:, -1])
        return logits_RV

    def reorder(self, rows_R: Tensor) -> None:
        self._cache.reorder(rows_R)
