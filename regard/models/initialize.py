"""Initial weights, as in each paper. Only for new models, never for models read from disk."""

import torch
from torch import nn

from regard.blocks.embeddings import Learned
from regard.models import Family
from regard.models.seq2seq import Seq2Seq


@torch.no_grad()
def initialize(model: Family, seed: int | None = None) -> None:
    """Initialize the model; the same seed gives the same weights."""
    random = torch.Generator()
    if seed is not None:
        random.manual_seed(seed)
    else:
        random.seed()
    for part in model.modules():
        if isinstance(part, nn.Linear | nn.Conv2d):
            if isinstance(model, Seq2Seq):
                nn.init.xavier_uniform_(part.weight, generator=random)
            else:
                nn.init.trunc_normal_(part.weight, std=0.02, a=-0.04, b=0.04, generator=random)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    # after the linear layers: a tied output projection must have the scale of an embedding
    for part in model.modules():
        if isinstance(part, nn.Embedding):
            # the paper multiplies embeddings by sqrt(width), which gives them size 1
            scaled = isinstance(model, Seq2Seq) and not isinstance(part, Learned)
            nn.init.normal_(part.weight, std=part.embedding_dim**-0.5 if scaled else 0.02, generator=random)
    if not isinstance(model, Seq2Seq) and model.config.norm_first:
        _shrink_residuals(model)


def _shrink_residuals(model: Family) -> None:
    """As in GPT-2: 2N parts add to one residual stream, so each is scaled by 1 / sqrt(2N)."""
    outputs = [
        part for name, part in model.named_modules() if name.endswith((".attention.output", ".feedforward.down"))
    ]
    for part in outputs:
        assert isinstance(part, nn.Linear)
        part.weight.mul_(len(outputs) ** -0.5)
