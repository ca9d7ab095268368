import pytest
import torch
from torch import Tensor

from regard.blocks.kv_cache import DecoderKVCache, GrowingKVCache


def tokens(start: int, stop: int, batch: int = 2) -> Tensor:
    """Keys that say which row and which token they are: 100 * row + token."""
    rows = torch.arange(batch)[:, None] * 100 + torch.arange(start, stop)
    return rows[:, None, :, None].float().expand(batch, 3, stop - start, 4)


def said(cache: GrowingKVCache) -> list[list[int]]:
    assert torch.equal(cache.values_BHSK, -cache.keys_BHSK)
    rows: list[list[int]] = cache.keys_BHSK[:, 2, :, 3].int().tolist()
    return rows


def append(cache: GrowingKVCache, start: int, stop: int, batch: int = 2) -> None:
    new = tokens(start, stop, batch)
    cache.append(new, -new)


def test_append_gives_the_keys_and_values_of_all() -> None:
    cache = GrowingKVCache()
    append(cache, 0, 3)
    keys, values = cache.append(tokens(3, 4), -tokens(3, 4))
    assert torch.equal(keys, tokens(0, 4))
    assert torch.equal(values, -tokens(0, 4))
    assert cache.length == 4


def test_an_empty_cache_has_no_keys_to_give() -> None:
    assert GrowingKVCache().length == 0
    with pytest.raises(AssertionError, match="the cache is empty"):
        _ = GrowingKVCache().keys_BHSK
    with pytest.raises(AssertionError, match="the cache is empty"):
        _ = GrowingKVCache().values_BHSK


def test_growing_token_by_token_copies_seldom() -> None:
    cache, buffers = GrowingKVCache(), set()
    for t in range(100):
        append(cache, t, t + 1)
        buffers.add(cache.keys_BHSK.untyped_storage().nbytes())
    assert said(cache) == [list(range(100)), list(range(100, 200))]
    assert len(buffers) <= 8  # doubling: 1, 2, 4 ... 128


def test_a_long_append_gets_the_room_it_needs() -> None:
    cache = GrowingKVCache()
    append(cache, 0, 2)
    append(cache, 2, 50)
    assert said(cache) == [list(range(50)), list(range(100, 150))]


def test_reorder_copies_rows() -> None:
    cache = GrowingKVCache()
    append(cache, 0, 2, batch=3)
    cache.reorder(torch.tensor([2, 0, 0]))
    assert said(cache) == [[200, 201], [0, 1], [0, 1]]
    append(cache, 2, 3, batch=3)
    assert said(cache) == [[200, 201, 2], [0, 1, 102], [0, 1, 202]]


def test_reorder_can_change_the_number_of_rows() -> None:
    cache = GrowingKVCache()
    append(cache, 0, 2, batch=3)
    cache.reorder(torch.tensor([1]))
    append(cache, 2, 9, batch=1)
    assert said(cache) == [[100, 101, 2, 3, 4, 5, 6, 7, 8]]
    cache.reorder(torch.tensor([0, 0]))
    append(cache, 9, 10)
    assert said(cache) == [[100, 101, 2, 3, 4, 5, 6, 7, 8, 9], [100, 101, 2, 3, 4, 5, 6, 7, 8, 109]]


def test_reordering_nothing_is_nothing() -> None:
    cache = GrowingKVCache()
    cache.reorder(torch.tensor([1, 0]))
    assert cache.length == 0


def test_a_decoders_cache_remembers_which_tokens_are_real() -> None:
    cache = DecoderKVCache(layers=2)
    assert cache.length == 0
    first = torch.tensor([[False, True], [True, True]])
    assert cache.extend(first).tolist() == [[False, True], [True, True]]
    assert cache.extend(torch.tensor([[True], [False]])).tolist() == [[False, True, True], [True, True, False]]
    assert cache.length == 3


def filled() -> DecoderKVCache:
    cache = DecoderKVCache(layers=2)
    cache.extend(torch.tensor([[False, True, True], [True, True, True]]))
    for layer in cache.layers:
        append(layer.self_attention, 0, 3)
    return cache


def test_a_decoders_cache_reorders_tokens_and_what_is_real() -> None:
    cache = filled()
    cache.reorder(torch.tensor([1, 0]))
    assert cache.extend(torch.ones(2, 1, dtype=torch.bool)).tolist() == [[True] * 4, [False, True, True, True]]
    for layer in cache.layers:
        assert said(layer.self_attention) == [[100, 101, 102], [0, 1, 2]]


def test_an_empty_decoders_cache_can_be_reordered() -> None:
    cache = DecoderKVCache(layers=1)
    cache.reorder(torch.tensor([0]))
    assert cache.length == 0
