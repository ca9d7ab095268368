"""A model with int8 weights: the same model, its matrices swapped."""

from typing import TypeVar

from torch import Tensor, nn

from regard.blocks.embeddings import TokenEmbedding
from regard.blocks.int8 import Int8Embedding, Int8Linear, Int8Matrix
from regard.models.parts import TextEmbedding

M = TypeVar("M", bound=nn.Module)


def quantize(model: M) -> M:
    """Swap every linear part, the projection to the vocabulary too, and the tokens' embeddings.

    Matrices that were one stay one. Positions, norms and biases stay as they are.
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
