"""Vision: an encoder over the patches of an image. ViT.

    pixels -> patches -> embeddings, a class token before them, + positions -> [ the block ] x N -> label

B batch  C channels  Y X height and width  P patches and the class token  D width  N labels
"""

import torch
from torch import Tensor, nn

from regard.blocks.dropout import Dropout
from regard.blocks.embeddings import Learned, PatchEmbedding
from regard.blocks.trace import Trace
from regard.models.config import VisionConfig
from regard.models.parts import make_stack


class Vision(nn.Module):
    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        self.patches = PatchEmbedding(config.image, config.patch, config.channels, config.width)
        self.class_token = nn.Parameter(torch.zeros(config.width))
        self.positions = Learned(self.patches.patches + 1, config.width)
        self.dropout = Dropout(config.dropout)
        self.stack = make_stack(config, config.layers, "learned")
        self.classifier = nn.Linear(config.width, len(config.labels)) if config.labels else None

    def tie(self) -> None:
        """No weights are tied."""

    def states(self, pixels_BCYX: Tensor, trace: Trace | None = None) -> Tensor:
        """The final state of the class token (first) and of each patch. -> (B, P, D)"""
        patches_BPD = self.patches(pixels_BCYX)
        if trace:
            trace.note("embedding.patches", patches_BPD)
        first_B1D = self.class_token.expand(len(pixels_BCYX), 1, -1)
        x_BPD = torch.cat((first_B1D, patches_BPD), dim=1) + self.positions.weight
        if trace:
            trace.note("embedding.output", x_BPD)
        states_BPD: Tensor = self.stack(self.dropout(x_BPD), trace=trace and trace.inside("stack"))
        return states_BPD

    def forward(self, pixels_BCYX: Tensor, trace: Trace | None = None) -> Tensor:
        """Logits of the labels (B, N); without labels, the states (B, P, D)."""
        states_BPD = self.states(pixels_BCYX, trace)
        if self.classifier is None:
            return states_BPD
        logits_BN: Tensor = self.classifier(states_BPD[:, 0])
        if trace:
            trace.note("logits", logits_BN)
        return logits_BN
