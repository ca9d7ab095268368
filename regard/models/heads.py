"""Heads on top of a stack: states -> logits, and pooling of states.

B batch  L length  D width  V vocabulary  N labels
"""

import torch
from torch import Tensor, nn

from regard.blocks.feedforward import ACTIVATIONS
from regard.models.config import EncoderConfig
from regard.models.parts import make_norm


class MaskedLanguageHead(nn.Module):
    """BERT's masked-LM head: a dense layer, a norm, then the transposed embedding matrix with a bias."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.width, config.width)
        # the activation of the blocks; without a gate, swiglu becomes silu
        self.activation = ACTIVATIONS["silu" if config.activation == "swiglu" else config.activation]
        self.norm = make_norm(config)
        self.output = nn.Linear(config.width, config.vocab)

    def forward(self, states_BLD: Tensor) -> Tensor:
        logits_BLV: Tensor = self.output(self.norm(self.activation(self.dense(states_BLD))))
        return logits_BLV


class Pooler(nn.Module):
    """BERT's pooler: a dense layer on the first token's state."""

    def __init__(self, width: int, activation: str) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.activation = ACTIVATIONS[activation]

    def forward(self, first_BD: Tensor) -> Tensor:
        return self.activation(self.dense(first_BD))


def mean_pool(states_BLD: Tensor, present_BL: Tensor) -> Tensor:
    """The mean of the states of real tokens; zeros if there are none. -> (B, D)"""
    kept_BL1 = present_BL[..., None].to(states_BLD.dtype)
    return (states_BLD * kept_BL1).sum(1) / kept_BL1.sum(1).clamp(min=1)


def first_token(states_BLD: Tensor, present_BL: Tensor) -> Tensor:
    """The state of each row's first real token, with padding on either side. -> (B, D)"""
    return _select(states_BLD, present_BL.int().argmax(-1))


def last_token(states_BLD: Tensor, present_BL: Tensor) -> Tensor:
    """The state of each row's last real token. -> (B, D)"""
    positions_L = torch.arange(present_BL.shape[1], device=present_BL.device)
    return _select(states_BLD, (present_BL * positions_L).argmax(-1))


def _select(states_BLD: Tensor, position_B: Tensor) -> Tensor:
    return states_BLD[torch.arange(len(position_B), device=position_B.device), position_B]
