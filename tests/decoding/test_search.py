"""search(): the settings choose the search, and what all searches share holds for each."""

import pytest
import torch
from toys import Babble, said_with_end

from regard.decoding.beam import beam
from regard.decoding.greedy import greedy
from regard.decoding.rules import suppress
from regard.decoding.search import search
from regard.decoding.search_protocol import Prompts, Step
from regard.decoding.settings import SearchSettings

GREEDY, BEAM, SAMPLE = SearchSettings(), SearchSettings(beam=3), SearchSettings(temperature=1.0, seed=1)
EACH = pytest.mark.parametrize("how", [GREEDY, BEAM, SAMPLE], ids=["greedy", "beam", "sample"])


def opening(*firsts: int, max_tokens: int | list[int] = 9, **more: object) -> Prompts:
    return Prompts(ids_BL=torch.tensor(firsts)[:, None], max_tokens=max_tokens, end=[0], **more)  # type: ignore[arg-type]


def test_a_step_is_what_can_be_called_and_reordered() -> None:
    assert isinstance(Babble(3, 0), Step)
    assert not isinstance(lambda ids: ids, Step)


def test_unless_told_otherwise_it_is_greedy() -> None:
    babble = Babble(7, seed=1)
    expected = greedy(babble.again(), torch.tensor([[1], [2], [3]]), max_tokens=9, end=[0])
    assert [one.tokens for (one,) in search(babble.again(), opening(1, 2, 3), GREEDY)] == expected


def test_a_plain_function_and_a_step_say_the_same() -> None:
    babble, step = Babble(7, seed=1), Babble(7, seed=1)
    first = torch.tensor([[1], [2], [3], [4], [5]])
    assert greedy(lambda ids: babble(ids), first, max_tokens=9, end=[0]) == greedy(step, first, max_tokens=9, end=[0])
    assert set(babble.rows) == {5}
    assert min(step.rows) < 5, "rows that are done leave the batch"


def test_greedy_is_a_beam_of_one_down_to_the_scores() -> None:
    babble = Babble(7, seed=1)
    how = SearchSettings(
        repetition_penalty=1.3, frequency_penalty=0.5, no_repeat_ngram=2, min_tokens=3, length_penalty=0.6
    )
    for (one,), (other,) in zip(
        search(babble.again(), opening(1, 2, 3, 4), how), beam(babble.again(), opening(1, 2, 3, 4), how), strict=True
    ):
        assert (one.tokens, one.end) == (other.tokens, other.end)
        assert one.log_probs == other.log_probs
        assert one.score == pytest.approx(other.score, rel=1e-6)


@EACH
def test_rules_can_be_given(how: SearchSettings) -> None:
    for found in search(Babble(7, seed=1), opening(1, 2, 3), how, rules=[suppress([0, 1, 2, 3])]):
        assert set(found[0].tokens) <= {4, 5, 6}


@EACH
def test_the_settings_limit_and_the_room_limit(how: SearchSettings) -> None:
    babble = Babble(7, seed=1)
    for max_tokens, asked, expected in ((9, 4, 4), (4, 9, 4), (4, None, 4), (-1, 5, 0)):
        settings = SearchSettings(**vars(how) | {"max_tokens": asked, "min_tokens": min(4, asked or 4)})
        found = search(babble.again(), opening(1, 2, max_tokens=max_tokens), settings)
        assert [len(each[0].tokens) for each in found] == [expected] * 2


@EACH
def test_padding_before_the_text_changes_nothing(how: SearchSettings) -> None:
    """The rules do not see it; the step that is used here reads it, so both openings read the same ids."""
    settings = SearchSettings(**vars(how) | {"no_repeat_ngram": 2, "repetition_penalty": 1.5, "presence_penalty": 0.4})
    first = torch.tensor([[5, 5, 3, 4], [1, 2, 3, 4]])
    present = torch.tensor([[False, False, True, True], [True] * 4])
    babble = Babble(7, seed=3)
    padded = search(babble.again(), Prompts(ids_BL=first, present_BL=present, max_tokens=9, end=[0]), settings)
    whole = search(babble.again(), Prompts(ids_BL=first, max_tokens=9, end=[0]), settings)
    assert padded[1] == whole[1]
    assert padded[0] != whole[0], "here the two fives count as read"


@EACH
def test_what_is_said_is_a_list_of_numbers(how: SearchSettings) -> None:
    for found in search(Babble(7, seed=1), opening(1, 2, 3), how):
        for one in found:
            assert all(type(token) is int for token in said_with_end(one))
            assert all(type(value) is float for value in [one.score, one.log_prob, *one.log_probs])
            assert len(one.log_probs) == len(said_with_end(one))


@EACH
def test_a_prefix_stays_with_its_sentence_when_another_leaves(how: SearchSettings) -> None:
    prefixes = [[5], [6, 6, 6, 6], [4, 3, 2, 1]]
    found = search(Babble(7, seed=1), opening(1, 2, 3, max_tokens=[1, 9, 9], prefixes=prefixes), how)
    assert [each[0].tokens[:4] for each in found] == prefixes
