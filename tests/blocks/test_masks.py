import torch

from regard.blocks.attention import all_present, causal_mask, combine_masks, padding_mask, token_positions


def table(mask: torch.Tensor) -> list[list[int]]:
    rows: list[list[int]] = mask[0, 0].int().tolist()
    return rows


def test_look_ahead_is_a_lower_triangle() -> None:
    assert table(causal_mask(3)) == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert causal_mask(3).dtype == torch.bool
    assert causal_mask(3).shape == (1, 1, 3, 3)


def test_with_a_cache_the_queries_are_the_last_of_the_keys() -> None:
    assert table(causal_mask(2, 5)) == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def test_the_last_query_of_a_cache_sees_every_key() -> None:
    assert table(causal_mask(1, 4)) == [[1, 1, 1, 1]]


def test_padding_hides_keys_on_either_side() -> None:
    present = torch.tensor([[True, True, False], [False, True, True]])
    mask = padding_mask(present)
    assert mask is not None
    assert mask.shape == (2, 1, 1, 3)
    assert torch.equal(mask[:, 0, 0], present)


def test_padding_of_a_full_batch_is_no_mask() -> None:
    assert padding_mask(torch.ones(2, 3, dtype=torch.bool)) is None


def test_everyone_present_marks_every_token() -> None:
    present = all_present(torch.zeros(2, 3, dtype=torch.long))
    assert present.shape == (2, 3)
    assert present.dtype == torch.bool
    assert present.all()


def test_combining_nothing_is_nothing() -> None:
    assert combine_masks() is None
    assert combine_masks(None, None) is None


def test_none_does_not_narrow_a_mask() -> None:
    ahead = causal_mask(3)
    assert combine_masks(None, ahead, None) is ahead


def test_combine_broadcasts_and_leaves_its_masks_alone() -> None:
    ahead = causal_mask(3)
    before = ahead.clone()
    mask = combine_masks(ahead, padding_mask(torch.tensor([[True, True, True], [False, True, True]])))
    assert mask is not None
    assert mask.shape == (2, 1, 3, 3)
    assert mask[1, 0].int().tolist() == [[0, 0, 0], [0, 1, 0], [0, 1, 1]]
    assert torch.equal(ahead, before)


def test_positions_do_not_count_padding() -> None:
    left, right, inside = [0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 1, 0, 1]
    present = torch.tensor([left, right, inside], dtype=torch.bool)
    assert token_positions(present).tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 2, 2], [0, 0, 1, 1, 2]]


def test_positions_of_nothing_but_padding_can_still_be_looked_up() -> None:
    assert token_positions(torch.zeros(1, 3, dtype=torch.bool)).tolist() == [[0, 0, 0]]
