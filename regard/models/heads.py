"""What stands on top of a stack: states -> logits.

B batch  L length  D width  V vocabulary  N labels
"""

import torch
from torch import Tensor, nn

from regard.blocks.feedforward import ACTIVATIONS
from regard.models.config import EncoderConfig
from regard.models.parts import make_norm


class MaskedLanguageHead(nn.Module):
    """BERT's: one more dense layer and norm, then the embedding matrix turned round, with a bias."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.width, config.width)
        # the activation of the blocks; a gated one has no meaning without a gate
        self.activation = ACTIVATIONS["silu" if config.activation == "swiglu" else config.activation]
        self.norm = make_norm(config)
        self.output = nn.Linear(config.width, config.vocab)

    def forward(self, states_BLD: Tensor) -> Tensor:
        logits_BLV: Tensor = self.output(self.norm(self.activation(self.dense(states_BLD))))
        return logits_BLV


class Pooler(nn.Module):
    """The first token's state through one more layer: BERT's summary of a text."""

    def __init__(self, width: int, activation: str) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.activation = ACTIVATIONS[activation]

    def forward(self, first_BD: Tensor) -> Tensor:
        return self.activation(self.dense(first_BD))


def mean_pool(states_BLD: Tensor, present_BL: Tensor) -> Tensor:
    """The mean of the real tokens' states; of no tokens, zeros. -> (B, D)"""
    kept_BL1 = present_BL[..., None].to(states_BLD.dtype)
    return (states_BLD * kept_BL1).sum(1) / kept_BL1.sum(1).clamp(min=1)


def first_token(states_BLD: Tensor, present_BL: Tensor) -> Tensor:
    """The state of each row's first real token, on whichever side the padding is. -> (B, D)"""
    return _pick(states_BLD, present_BL.int().argmax(-1))


def last_token(states_BLD: Tensor, present_BL: Tensor) -> Tensor:
    """The state of each row's last real token. -> (B, D)"""
    places_L = torch.arange(present_BL.shape[1], device=present_BL.device)
    return _pick(states_BLD, (present_BL * places_L).argmax(-1))


def _pick(states_BLD: Tensor, place_B: Tensor) -> Tensor:
    return states_BLD[torch.arange(len(place_B), device=place_B.device), place_B]
