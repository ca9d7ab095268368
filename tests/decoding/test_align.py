import pytest
import torch

from regard.decoding.align import NO_WORD, hard, moses, of_words, soft

# one layer, two heads; rows: the start, then three target tokens; columns: four source tokens
ONE = torch.tensor(
    [
        [[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.0, 0.0, 0.6, 0.4], [0.0, 0.0, 0.4, 0.6]],
        [[0.7, 0.1, 0.1, 0.1], [0.3, 0.5, 0.1, 0.1], [0.0, 0.0, 0.8, 0.2], [0.1, 0.1, 0.4, 0.4]],
    ]
)


def layers(count: int) -> torch.Tensor:
    """Layers that can be told apart: layer i looks at source token i."""
    weights = torch.zeros(count, 2, 3, count)
    for layer in range(count):
        weights[layer, :, :, layer] = 1.0
    return weights


def test_heads_are_averaged_where_a_token_is_read() -> None:
    torch.testing.assert_close(soft(ONE[None])[0], torch.tensor([0.2, 0.6, 0.1, 0.1]))
    assert soft(ONE[None]).shape == (3, 4)


def test_or_where_it_is_written() -> None:
    torch.testing.assert_close(soft(ONE[None], when="written")[0], torch.tensor([0.7, 0.1, 0.1, 0.1]))
    assert soft(ONE[None], when="written").shape == (3, 4)


@pytest.mark.parametrize(("count", "read", "written"), [(1, 0, 0), (2, 0, 0), (3, 1, 1), (6, 2, 4), (12, 5, 10)])
def test_which_layer(count: int, read: int, written: int) -> None:
    assert soft(layers(count)).argmax(1).tolist() == [read, read]
    assert soft(layers(count), when="written").argmax(1).tolist() == [written, written]
    assert soft(layers(count), layer=-1).argmax(1).tolist() == [count - 1, count - 1]


def test_each_target_token_has_the_source_token_that_it_looks_at_most() -> None:
    assert hard(soft(ONE[None])) == [(1, 0), (2, 1), (3, 2)]


def test_of_equals_the_first_and_of_nothing_none() -> None:
    assert hard(torch.tensor([[0.5, 0.5], [0.0, 0.0], [0.1, 0.9]])) == [(0, 0), (1, 2)]
    assert hard(torch.zeros(0, 4)) == []
    assert hard(torch.zeros(4, 0)) == []


def test_pieces_become_words() -> None:
    """Source: two words of two pieces, the second's together outweigh the best single piece; an end token each."""
    pieces = torch.tensor([[0.4, 0.1, 0.3, 0.2, 0.0], [0.1, 0.1, 0.1, 0.1, 0.6], [0.0, 0.1, 0.3, 0.4, 0.2]])
    words = of_words(pieces, [0, 0, 1, 1, NO_WORD], [0, 0, 1])
    torch.testing.assert_close(words, torch.tensor([[0.35, 0.35], [0.1, 0.7]]))
    assert hard(of_words(pieces[:1], [0, 1, 2, 2, NO_WORD], [0])) == [(2, 0)]


def test_a_target_token_of_no_word_has_no_link() -> None:
    assert hard(of_words(soft(ONE[None]), [0, 1, 2, NO_WORD], [0, NO_WORD, NO_WORD])) == [(1, 0)]
    assert hard(of_words(soft(ONE[None]), [NO_WORD] * 4, [0, 1, 2])) == []


def test_moses_writes_source_target() -> None:
    assert moses([(1, 2), (0, 0), (1, 0)]) == "0-0 1-0 1-2"
    assert moses([]) == ""
