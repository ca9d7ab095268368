"""Quantize a model to int8: the same model with its matrices replaced."""

from typing import TypeVar

from torch import Tensor, nn

from regard.blocks.embeddings import TextEmbedding, TokenEmbedding
from regard.blocks.int8 import Int8Embedding, Int8Linear, Int8Matrix

M = TypeVar("M", bound=nn.Module)


def quantize(model: M) -> M:
    """Replace every linear layer, including the output projection, and the token embeddings, in place.

    Tied matrices stay tied. Positions, norms and biases stay float32.
    """
    made: dict[int, Int8Matrix] = {}

    def matrix(weight: Tensor) -> Int8Matrix:
        if id(weight) not in made:
            made[id(weight)] = Int8Matrix.of(weight)
        return made[id(weight)]

    for part in list(model.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, nn.Linear):
                setattr(part, name, Int8Linear(matrix(child.weight), child.bias))
            elif isinstance(child, TokenEmbedding) and isinstance(part, TextEmbedding) and name == "tokens":
                setattr(part, name, Int8Embedding(matrix(child.weight), scale=child.scale))
    return model


def is_quantized(model: nn.Module) -> bool:
    return any(isinstance(part, Int8Matrix) for part in model.modules())
