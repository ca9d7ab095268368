"""Rules one by one: on tensors that can be checked by hand, and against transformers' processors on random ones."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.decoding import rules
from regard.decoding.search_protocol import NO_TOKEN, Prompts
from regard.decoding.settings import SearchSettings

NO = -math.inf


def row(*values: float) -> Tensor:
    return torch.tensor([values], dtype=torch.float)


def test_repetition_divides_what_is_positive_and_multiplies_what_is_negative() -> None:
    logits = torch.tensor([[2.0, -2.0, 4.0, -4.0], [2.0, -2.0, 4.0, -4.0]])
    seen = torch.tensor([[0, 1, 0], [NO_TOKEN, NO_TOKEN, 2]])
    assert rules.repetition(2.0)(logits, seen).tolist() == [[1.0, -4.0, 4.0, -4.0], [2.0, -2.0, 2.0, -4.0]]


def test_frequency_counts_what_was_said_but_not_what_was_read() -> None:
    seen = torch.tensor([[0, 0, 1, 1, 2]])
    assert rules.frequency(0.5, after=2)(row(0, 0, 0, 0), seen).tolist() == [[0.0, -1.0, -0.5, 0.0]]


def test_presence_asks_only_whether_it_was_said() -> None:
    seen = torch.tensor([[0, 0, 1, 1, 2]])
    assert rules.presence(0.5, after=2)(row(0, 0, 0, 0), seen).tolist() == [[0.0, -0.5, -0.5, 0.0]]


@pytest.mark.parametrize(
    ("n", "seen", "banned"),
    [
        (1, [1, 3], {1, 3}),
        (2, [1, 2, 3, 1], {2}),
        (2, [1, 2, 1, 3, 1], {2, 3}),
        (3, [1, 2, 3, 1, 2], {3}),
        (3, [1, 2, 3, 2, 1], set()),
        (3, [1, 2], set()),
        (4, [1, 1, 1, 1], {1}),
        (4, [1, 1, 1], set()),
        (2, [], set()),
        (2, [NO_TOKEN, NO_TOKEN, 1], set()),
        (2, [NO_TOKEN, 1, 1], {1}),
        (3, [NO_TOKEN, NO_TOKEN, 2, NO_TOKEN, NO_TOKEN], set()),  # padding is no token that could come again
    ],
)
def test_no_repeat_ngram(n: int, seen: list[int], banned: set[int]) -> None:
    out = rules.no_repeat_ngram(n)(torch.zeros(1, 5), torch.tensor([seen], dtype=torch.long))
    assert {token for token in range(5) if out[0, token] == NO} == banned


def test_forbid() -> None:
    assert rules.suppress([0, 2])(row(1, 2, 3), torch.zeros(1, 0)).tolist() == [[NO, 2.0, NO]]


def test_min_new_forbids_the_end_until_enough_was_said() -> None:
    rule = rules.min_tokens(2, [0], after=3)
    for said, first in ((0, NO), (1, NO), (2, 1.0), (3, 1.0)):
        assert rule(row(1, 2), torch.zeros(1, 3 + said)).tolist() == [[first, 2.0]]


def test_temperature() -> None:
    assert rules.temperature(2.0)(row(1, NO), torch.zeros(1, 0)).tolist() == [[0.5, NO]]


def test_top_k_keeps_equals_of_the_last() -> None:
    assert rules.top_k(2)(row(1, 3, 2, 2, 0), torch.zeros(1, 0)).tolist() == [[NO, 3.0, 2.0, 2.0, NO]]
    assert rules.top_k(99)(row(1, 3), torch.zeros(1, 0)).tolist() == [[1.0, 3.0]]


@pytest.mark.parametrize(
    ("p", "kept"), [(0.01, {1}), (0.5, {1}), (0.51, {1, 3}), (0.79, {1, 3}), (0.81, {0, 1, 3}), (0.999, {0, 1, 2, 3})]
)
def test_top_p_keeps_the_fewest_that_reach_it(p: float, kept: set[int]) -> None:
    chances = torch.tensor([[0.15, 0.5, 0.05, 0.3]])
    out = rules.top_p(p)(chances.log(), torch.zeros(1, 0))
    assert {token for token in range(4) if out[0, token] > NO} == kept


def test_min_p_keeps_a_share_of_the_likeliest() -> None:
    chances = torch.tensor([[0.15, 0.5, 0.05, 0.3], [0.25, 0.25, 0.25, 0.25]])
    out = rules.min_p(0.31)(chances.log(), torch.zeros(2, 0))
    assert (out > NO).tolist() == [[False, True, False, True], [True] * 4]


def test_a_filter_always_leaves_something() -> None:
    logits = torch.tensor([[5.0, NO, NO], [0.0, 0.0, 0.0], [-1e30, -1e30, NO], [1e4, -1e4, 0.0]])
    for rule in (rules.top_k(1), rules.top_p(1e-9), rules.min_p(1.0), rules.temperature(0.001)):
        assert (rule(logits, torch.zeros(4, 0)) > NO).any(-1).all()


def test_the_order_can_be_read_off_the_list() -> None:
    opening = Prompts(ids_BL=torch.zeros(1, 2, dtype=torch.long), max_tokens=9, end=[1], suppressed=[3])
    everything = SearchSettings(
        temperature=0.5,
        top_k=3,
        top_p=0.9,
        min_p=0.1,
        repetition_penalty=1.1,
        frequency_penalty=0.1,
        presence_penalty=0.1,
        no_repeat_ngram=2,
        min_tokens=1,
    )
    *changes, suppressed, not_yet = rules.rules_for(everything, opening)
    names = [rule.__qualname__.split(".")[0] for rule in changes]
    assert names == ["repetition", "frequency", "presence", "no_repeat_ngram"]
    assert (suppressed, not_yet) == (rules.suppress([3]), rules.min_tokens(1, [1], after=2))
    assert [rule.__qualname__.split(".")[0] for rule in rules.sampling_rules(everything)] == [
        "temperature",
        "top_k",
        "top_p",
        "min_p",
    ]


def test_unless_asked_there_are_no_rules() -> None:
    assert rules.rules_for(SearchSettings(), Prompts(ids_BL=torch.zeros(1, 1), max_tokens=1)) == []
    assert rules.sampling_rules(SearchSettings(temperature=1.0)) == []


hf = pytest.importorskip("transformers", reason="the second opinion is not installed")

VOCAB, LENGTH = 30, 25
THEIRS = {
    "temperature": (rules.temperature(0.7), hf.TemperatureLogitsWarper(0.7)),
    "top_k": (rules.top_k(7), hf.TopKLogitsWarper(7)),
    "top_p": (rules.top_p(0.8), hf.TopPLogitsWarper(0.8)),
    "min_p": (rules.min_p(0.1), hf.MinPLogitsWarper(0.1)),
    "repetition": (rules.repetition(1.3), hf.RepetitionPenaltyLogitsProcessor(1.3)),
    "no_repeat 1": (rules.no_repeat_ngram(1), hf.NoRepeatNGramLogitsProcessor(1)),
    "no_repeat 2": (rules.no_repeat_ngram(2), hf.NoRepeatNGramLogitsProcessor(2)),
    "no_repeat 3": (rules.no_repeat_ngram(3), hf.NoRepeatNGramLogitsProcessor(3)),
    "suppress": (rules.suppress([4, 9]), hf.NoBadWordsLogitsProcessor([[4], [9]])),
    "min_tokens": (rules.min_tokens(9, [3], 17), hf.MinNewTokensLengthLogitsProcessor(17, 9, [3])),
}


@pytest.mark.parametrize("name", THEIRS)
def test_transformers_agrees(name: str) -> None:
    ours, theirs = THEIRS[name]
    random = torch.Generator().manual_seed(0)
    for length in (1, 2, LENGTH, LENGTH + 1):
        logits = 3 * torch.randn(40, VOCAB, generator=random)
        seen = torch.randint(VOCAB // 4, (40, length), generator=random)  # few words: many come twice
        assert_close(ours(logits, seen), theirs(seen, logits.clone()), rtol=1e-6, atol=1e-6)
