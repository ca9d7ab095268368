"""The best next tokens: the same as a full sort would give, equals and forbidden ones included."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.decoding import rules
from regard.decoding.search_protocol import NO_TOKEN
from regard.decoding.topk import CHUNK, NextTokenScores, best, best_of_many
from regard.errors import ModelError

NO = -math.inf
same_each_time = settings(deadline=None, derandomize=True, max_examples=60)


def everything(scores: NextTokenScores) -> tuple[torch.Tensor, torch.Tensor]:
    """Each token's own and ruled log-probability, (R, V)."""
    rows, vocab = scores.ruled_logits().shape
    at = torch.meshgrid(torch.arange(rows), torch.arange(vocab), indexing="ij")
    return scores.log_probs(*at), scores.ruled_log_probs(*at)


def by_sorting(values: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    sorted_values, places = values.sort(dim=1, descending=True, stable=True)
    return sorted_values[:, :count], places[:, :count]


@same_each_time
@given(st.integers(1, 9), st.integers(1, 40 * CHUNK), st.integers(1, 6), st.integers(2, 2000), st.integers(0, 10**6))
def test_the_best_of_many_are_the_first_of_the_sorted(count: int, vocab: int, rows: int, kinds: int, seed: int) -> None:
    """Few kinds of numbers, so that there are many equals."""
    values = torch.randint(kinds, (rows, vocab), generator=torch.Generator().manual_seed(seed)).float()
    for search in (best, best_of_many):
        for found, expected in zip(search(values, count), by_sorting(values, count), strict=True):
            assert torch.equal(found, expected)


@same_each_time
@given(st.integers(1, 5), st.integers(10, 3000), st.sets(st.integers(0, 9), max_size=9), st.integers(0, 10**6))
def test_forbidden_tokens_are_not_among_the_best(count: int, vocab: int, suppressed: set[int], seed: int) -> None:
    logits = torch.randn(3, vocab, generator=torch.Generator().manual_seed(seed))
    logits[:, :10] += 3.0
    scores = NextTokenScores(logits, torch.zeros(3, 0), [rules.suppress(sorted(suppressed))], None, count=count)
    values, tokens = scores.best(count)
    left = logits.log_softmax(-1).index_fill(1, torch.tensor(sorted(suppressed), dtype=torch.long), NO)
    expected, places = by_sorting(left, count)
    assert torch.equal(tokens[values > NO], places[expected > NO])
    assert_close(values, expected)


def test_what_is_only_forbidden_leaves_the_rest_as_it_was() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0]])
    own, ruled = everything(NextTokenScores(logits, torch.zeros(1, 0), [rules.suppress([1])], None, count=1))
    assert_close(own, logits.log_softmax(-1))
    assert ruled[0, 0] == own[0, 0]
    assert ruled[0, 1] == NO
    assert own.max() <= 0.0
    assert logits.tolist() == [[1.0, 2.0, 3.0]], "what the step gave is the step's"


def test_what_is_forced_is_said_even_if_it_is_forbidden() -> None:
    logits = torch.zeros(3, 4)
    forced = torch.tensor([2, NO_TOKEN, 1])
    own, ruled = everything(NextTokenScores(logits, torch.zeros(3, 0), [rules.suppress([1])], forced, count=1))
    assert (ruled > NO).tolist() == [
        [False, False, True, False],
        [True, False, True, True],
        [False, True, False, False],
    ]
    assert ruled[2, 1] == own[2, 1]


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_broken_logits_are_an_error_and_no_text(broken: float) -> None:
    with pytest.raises(ModelError, match="not finite"):
        NextTokenScores(torch.tensor([[0.0, broken]]), torch.zeros(1, 0), [], None, count=1)
