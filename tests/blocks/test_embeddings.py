import math

import pytest
import torch
from torch.testing import assert_close

from regard.blocks.embeddings import Learned, PatchEmbedding, Sinusoidal, TextEmbedding, TokenEmbedding, sinusoidal


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


# ---- positions ----


@pytest.mark.parametrize("width", [1, 2, 3, 7, 8])
def test_sinusoids_of_any_width(width: int) -> None:
    table = sinusoidal(20, width)
    for position in (0, 1, 19):
        for d in range(width):
            wave = math.sin if d % 2 == 0 else math.cos
            expected = wave(position / 10000 ** (d // 2 * 2 / width))
            assert float(table[position, d]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("width", [1, 2, 5, 8])
def test_halves_are_all_sines_then_all_cosines(width: int) -> None:
    table, halves = sinusoidal(20, width), sinusoidal(20, width, interleaved=False)
    assert torch.equal(halves, torch.cat((table[:, 0::2], table[:, 1::2]), dim=1))


def test_sinusoids_are_exact_at_far_positions() -> None:
    assert float(sinusoidal(5001, 2)[5000, 0]) == pytest.approx(math.sin(5000), abs=1e-6)


def test_sinusoids_are_looked_up_by_position() -> None:
    positions = torch.tensor([[0, 0, 1], [5, 2, 9]])
    assert torch.equal(Sinusoidal(6)(positions), sinusoidal(10, 6)[positions])
    assert torch.equal(Sinusoidal(6, interleaved=False)(positions), sinusoidal(10, 6, interleaved=False)[positions])


@pytest.mark.parametrize("last", [63, 64, 65, 1000])
def test_the_table_of_sinusoids_grows(last: int) -> None:
    part = Sinusoidal(4)
    part(torch.tensor([[3]]))
    assert torch.equal(part(torch.tensor([[last]]))[0], sinusoidal(last + 1, 4)[last:])


def test_sinusoids_are_no_weights() -> None:
    part = Sinusoidal(4)
    part(torch.tensor([[3]]))
    assert not part.state_dict()


def test_learned_positions_are_rows_of_a_table() -> None:
    part = Learned(5, 3)
    assert torch.equal(part(torch.tensor([[4, 0]]))[0], part.weight[[4, 0]])


# ---- the sum ----


def test_a_text_embedding_is_the_norm_of_the_sum() -> None:
    tokens, learned, segments, norm = TokenEmbedding(5, 4), Learned(6, 4), TokenEmbedding(2, 4), torch.nn.LayerNorm(4)
    part = TextEmbedding(tokens, learned, segments=segments, norm=norm)
    ids, positions, types = torch.tensor([[4, 0]]), torch.tensor([[2, 3]]), torch.tensor([[0, 1]])
    assert_close(part(ids, positions, types), norm(tokens(ids) + learned(positions) + segments(types)))
    assert_close(part(ids, positions), part(ids, positions, torch.zeros_like(types)))
    assert torch.equal(TextEmbedding(tokens)(ids, positions), tokens(ids))
