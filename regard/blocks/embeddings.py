"""Embeddings: tokens, segments and image patches -> vectors of the model's width.

B batch  L length  D width  C channels  Y X image height and width  P patches
"""

from torch import Tensor, nn


class TokenEmbedding(nn.Embedding):
    """One vector for each token of the vocabulary (or for each segment type).

    `scale` multiplies them. The paper uses sqrt(width): embeddings tied to the output projection start out small, and
    positions of size 1 would drown them.
    """

    def __init__(self, vocab: int, width: int, *, scale: float = 1.0) -> None:
        super().__init__(vocab, width)
        self.scale = scale

    def reset_parameters(self) -> None:
        if not self.weight.is_meta:  # on the meta device torch would import its compiler for this, which takes a second
            super().reset_parameters()

    def forward(self, ids_BL: Tensor) -> Tensor:
        return super().forward(ids_BL) * self.scale


class PatchEmbedding(nn.Module):
    """An image split into square patches, row by row, each projected to a vector."""

    def __init__(self, image: int, patch: int, channels: int, width: int) -> None:
        super().__init__()
        assert image % patch == 0, f"patches of {patch} do not tile an image of {image}"
        self.patches = (image // patch) ** 2
        # a convolution with stride = kernel size is a linear map of each patch
        self.projection = nn.Conv2d(channels, width, kernel_size=patch, stride=patch)

    def forward(self, pixels_BCYX: Tensor) -> Tensor:
        grid_BDYX: Tensor = self.projection(pixels_BCYX)
        return grid_BDYX.flatten(2).mT
