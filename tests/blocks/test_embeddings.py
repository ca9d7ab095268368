import pytest
import torch
from torch.testing import assert_close

from regard.blocks.embeddings import PatchEmbedding, TokenEmbedding


def test_a_token_is_a_row_of_the_table() -> None:
    part = TokenEmbedding(5, 3)
    assert torch.equal(part(torch.tensor([[4, 0, 4]]))[0], part.weight[[4, 0, 4]])


def test_scale_multiplies_what_comes_out_and_not_the_weight() -> None:
    part = TokenEmbedding(5, 4, scale=2.0)
    assert torch.equal(part(torch.tensor([[1]]))[0, 0], 2 * part.weight[1])


def test_patches_are_read_row_by_row() -> None:
    part = PatchEmbedding(image=4, patch=2, channels=1, width=4)
    part.projection.weight.data = torch.eye(4).view(4, 1, 2, 2)
    part.projection.bias.data.zero_()
    pixels = torch.arange(16.0).view(1, 1, 4, 4)
    expected = [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    assert part.patches == 4
    assert_close(part(pixels)[0], torch.tensor(expected).float())


def test_a_patch_sees_its_own_square_only() -> None:
    part, pixels = PatchEmbedding(image=6, patch=3, channels=2, width=5), torch.randn(1, 2, 6, 6)
    changed = pixels.clone()
    changed[..., :3, 3:] += 1
    different = (part(changed) != part(pixels)).any(-1)[0]
    assert different.tolist() == [False, True, False, False]


def test_patches_that_do_not_tile_are_refused() -> None:
    with pytest.raises(AssertionError, match="patches of 4 do not tile an image of 10"):
        PatchEmbedding(image=10, patch=4, channels=3, width=8)
