"""A model with int8 weights: the same model, its linear parts swapped."""

from torch import nn

from regard.blocks.int8 import Int8Linear


def quantize(model: nn.Module) -> nn.Module:
    """Swap every linear part, the projection to the vocabulary too; embeddings and norms stay as they are."""
    for name, part in list(model.named_children()):
        if isinstance(part, nn.Linear):
            setattr(model, name, Int8Linear.of(part))
        else:
            quantize(part)
    return model
