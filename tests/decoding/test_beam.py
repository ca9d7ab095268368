"""Beam search against the whole space of texts, and against itself written without tensors."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import Babble, after, every_text, plain_beam, said_with_end

from regard.decoding.beam import beam
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.rules import suppress
from regard.decoding.search_protocol import Prompts
from regard.decoding.settings import SearchSettings
from regard.decoding.topk import best

FORMS = ("plain", "paper")
HABITS = ({"spread": 2.0}, {"spread": 0.5}, {"spread": 1.0, "hurry": 1.0}, {"spread": 0.3, "hurry": 2.0})
SEEDS = st.integers(0, 10**6)
PENALTIES = (-0.7, 0.0, 0.6, 1.0, 2.5)
same_each_time = settings(deadline=None, derandomize=True, max_examples=60)


def opening(*firsts: int, max_tokens: int | list[int], end: tuple[int, ...] = (0,), **more: object) -> Prompts:
    return Prompts(ids_BL=torch.tensor(firsts)[:, None], max_tokens=max_tokens, end=end, **more)  # type: ignore[arg-type]


def check(found: list[Hypothesis], expected: list[tuple[float, list[int]]]) -> None:
    assert [said_with_end(hypothesis) for hypothesis in found] == [said for _, said in expected]
    assert [hypothesis.score for hypothesis in found] == pytest.approx(
        [score for score, _ in expected], rel=1e-5, abs=1e-6
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("alpha", PENALTIES)
@pytest.mark.parametrize(("vocab", "limit"), [(3, 5), (4, 4), (5, 3), (4, 5)])
def test_a_beam_as_wide_as_the_space_finds_the_best_there_is(vocab: int, limit: int, alpha: float, form: str) -> None:
    how = SearchSettings(beam=vocab**limit, n_best=5, length_penalty=alpha, length_form=form)  # type: ignore[arg-type]
    babble = Babble(vocab, seed=vocab)
    for first, found in enumerate(beam(babble, opening(*range(6), max_tokens=limit), how)):
        texts = every_text(after(babble, [first]), limit, [0])
        ranked = sorted(((how.score(sum(own), len(own)), said) for said, own in texts), reverse=True)
        check(found, ranked[:5])


searches = st.builds(
    SearchSettings,
    beam=st.just(5),
    n_best=st.integers(1, 5),
    length_penalty=st.sampled_from(PENALTIES),
    length_form=st.sampled_from(FORMS),
)


@same_each_time
@given(searches, st.integers(2, 5), st.integers(3, 9), st.integers(1, 12), st.sampled_from(HABITS), SEEDS)
def test_it_is_the_plain_search_that_never_stops_early(
    how: SearchSettings, width: int, vocab: int, limit: int, habits: dict[str, float], seed: int
) -> None:
    """Early stopping is exact: with it a batch finds what a search that always goes to the limit finds."""
    how = SearchSettings(
        beam=width, n_best=min(how.n_best, width), length_penalty=how.length_penalty, length_form=how.length_form
    )
    babble = Babble(vocab, seed, **habits)
    for first, found in enumerate(beam(babble, opening(*range(4), max_tokens=limit), how)):
        check(found, plain_beam(after(babble, [first]), limit, [0], how))


class Table:
    """Probabilities of the next token by the last one alone."""

    def __init__(self, *rows: list[float]) -> None:
        self.logits, self.calls = torch.tensor(rows).log(), 0

    def __call__(self, ids_RL: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.logits[ids_RL[:, -1]]

    def reorder(self, rows_R: torch.Tensor) -> None: ...


def test_a_long_text_that_wins_by_its_length_is_waited_for() -> None:
    """One token more would not be enough; eight are."""
    step = Table([0.0, 0.0, 0.0], [0.9, 0.0, 0.1], [0.001, 0.0, 0.999])
    ((found,),) = beam(step, opening(1, max_tokens=9), SearchSettings(beam=2, length_penalty=2.0))
    assert found.tokens == [2] * 9


def test_a_text_that_wins_although_it_is_longer_is_waited_for() -> None:
    """With a negative exponent the next length is the best that can still come, not the greatest."""
    step = Table([0.0, 0.0, 0.0], [0.3, 0.0, 0.7], [0.99, 0.0, 0.01])
    ((found,),) = beam(step, opening(1, max_tokens=9), SearchSettings(beam=2, length_penalty=-1.0))
    assert (found.tokens, found.end) == ([2], 0)
    assert step.calls < 9


def test_it_stops_as_soon_as_nothing_better_can_come() -> None:
    how = SearchSettings(beam=4, length_penalty=0.0)
    babble = Babble(8, seed=1)
    beam(babble, opening(*range(8), max_tokens=200), how)
    assert len(babble.rows) < 60
    assert babble.rows[0] == 8
    assert babble.rows[1:] == sorted(babble.rows[1:], reverse=True), "sentences that are done cost nothing more"
    assert babble.rows[-1] < babble.rows[1] <= 8 * 4


@pytest.mark.parametrize("alpha", PENALTIES)
def test_a_beam_of_one_stops_where_greedy_search_stops(alpha: float) -> None:
    babble = Babble(6, seed=3)
    for first, (found,) in enumerate(
        beam(babble, opening(*range(9), max_tokens=12), SearchSettings(beam=1, length_penalty=alpha))
    ):
        said: list[int] = []
        while len(said) < 12 and said[-1:] != [0]:
            chances = babble.log_probabilities([first, *said])
            said.append(chances.index(max(chances)))
        assert said_with_end(found) == said


def test_a_beam_may_be_wider_than_the_vocabulary() -> None:
    babble = Babble(3, seed=5)
    how = SearchSettings(beam=50, n_best=50)
    ((*found,),) = beam(babble, opening(1, max_tokens=2), how)
    assert len(found) == 1 + 2 * 3  # the end, or one of two and then any
    assert len({tuple(said_with_end(one)) for one in found}) == len(found)


def test_patience_stops_when_so_many_have_ended() -> None:
    babble = Babble(6, seed=2)
    runs = {}
    for patience in (0.25, 0.5, 1.0, 2.0, None):
        steps = babble.again()
        ((found,),) = beam(
            steps, opening(4, max_tokens=60), SearchSettings(beam=8, length_penalty=2.0, patience=patience)
        )
        runs[patience] = (len(steps.rows), found.score)
    assert [runs[p] for p in (0.25, 0.5, 1.0, 2.0, None)] == sorted(runs.values())  # more patience: longer, no worse
    assert runs[0.25][0] < runs[None][0]
    assert runs[0.25][1] < runs[None][1]


def test_patience_waits_for_as_many_as_are_asked_for() -> None:
    (found,) = beam(Babble(6, seed=2), opening(4, max_tokens=60), SearchSettings(beam=8, n_best=8, patience=0.1))
    assert len(found) == 8
    assert all(one.ended for one in found)


def test_of_equals_the_lower_token_of_the_better_row_comes_first() -> None:
    class Indifferent:
        def __call__(self, ids: torch.Tensor) -> torch.Tensor:
            return torch.zeros(len(ids), 5)

        def reorder(self, rows: torch.Tensor) -> None: ...

    found = beam(Indifferent(), opening(0, 0, max_tokens=2, end=()), SearchSettings(beam=3, n_best=3))
    assert [[one.tokens for one in each] for each in found] == [[[0, 0], [0, 1], [0, 2]]] * 2


@same_each_time
@given(st.lists(st.lists(st.sampled_from([-1.0, 0.0, 1.0, -torch.inf]), min_size=6, max_size=6), min_size=1), st.data())
def test_best_is_a_stable_sort(rows: list[list[float]], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 8))
    values, places = best(torch.tensor(rows), count)
    for row, row_values, row_places in zip(rows, values.tolist(), places.tolist(), strict=True):
        expected = sorted(range(6), key=lambda place: -row[place])[:count]
        assert row_places == expected
        assert row_values == [row[place] for place in expected]


def test_limits_may_differ_and_nothing_is_a_text() -> None:
    rooms = [0, 1, 2, 5]
    how = SearchSettings(beam=3, n_best=3)
    babble = Babble(7, seed=9)
    together = beam(babble.again(), opening(1, 2, 3, 4, max_tokens=rooms), how)
    alone = [
        beam(babble.again(), opening(first, max_tokens=max_tokens), how)[0]
        for first, max_tokens in zip((1, 2, 3, 4), rooms, strict=True)
    ]
    assert together == alone
    (nothing,) = together[0]
    assert (nothing.tokens, nothing.score, nothing.log_prob, nothing.ended) == ([], 0.0, 0.0, False)
    assert all(
        len(said_with_end(one)) <= max_tokens for max_tokens, each in zip(rooms, together, strict=True) for one in each
    )


def test_without_room_no_step_is_made() -> None:
    babble = Babble(7, seed=9)
    assert [
        [one.tokens for one in each] for each in beam(babble, opening(1, 2, max_tokens=0), SearchSettings(beam=3))
    ] == [[[]]] * 2
    assert beam(babble, opening(1, max_tokens=9), SearchSettings(beam=3, max_tokens=0))[0][0].tokens == []
    assert babble.rows == []


def test_no_sentences_no_hypotheses() -> None:
    assert (
        beam(Babble(4, 0), Prompts(ids_BL=torch.zeros(0, 1, dtype=torch.long), max_tokens=4), SearchSettings(beam=2))
        == []
    )


@pytest.mark.parametrize("width", [1, 2, 4])
def test_ragged_prefixes_are_said_first_and_counted(width: int) -> None:
    prefixes = [[], [3], [2, 2, 5], [1, 4, 1, 0]]
    how = SearchSettings(beam=width, n_best=width)
    babble = Babble(6, seed=4)
    together = beam(babble.again(), opening(1, 1, 1, 1, max_tokens=6, prefixes=prefixes, suppressed=[5]), how)
    for prefix, found in zip(prefixes, together, strict=True):
        assert beam(babble.again(), opening(1, max_tokens=6, prefixes=[prefix], suppressed=[5]), how) == [found]
        for one in found:
            said = said_with_end(one)
            assert said[: len(prefix)] == prefix
            assert 5 not in said[len(prefix) :]
            own = [babble.log_probabilities([1, *said[:i]])[token] for i, token in enumerate(said)]
            assert one.log_probs == pytest.approx(own, abs=1e-5)
            assert one.score == pytest.approx(how.score(sum(own), len(own)), rel=1e-5, abs=1e-6)
    assert [one.tokens for one in together[3]] == [[1, 4, 1]], "a prefix that ends is the whole text"


def test_two_end_tokens_do_not_make_two_texts() -> None:
    how = SearchSettings(beam=9, n_best=9)
    for found in beam(Babble(5, seed=8), opening(1, 2, 3, max_tokens=4, end=(0, 4)), how):
        texts = [tuple(one.tokens) for one in found]
        assert len(set(texts)) == len(texts) == 9
        assert {one.end for one in found if one.ended} <= {0, 4}


def test_when_everything_is_forbidden_the_text_stops_there() -> None:
    how = SearchSettings(beam=3, n_best=2, no_repeat_ngram=1)
    for width, suppressed in itertools.product((1, 3), ([], [0])):
        how = SearchSettings(beam=width, no_repeat_ngram=1)
        ((found,),) = beam(Babble(4, seed=1), opening(1, max_tokens=9, suppressed=suppressed), how)
        assert len(found.tokens) <= 2 if suppressed else 3
        assert found.ended == (not suppressed)
    ((stuck,),) = beam(Babble(2, seed=1), opening(1, max_tokens=9), SearchSettings(beam=3), rules=[suppress([0, 1])])
    assert (stuck.tokens, stuck.score, stuck.ended) == ([], 0.0, False)


def test_the_minimum_length_is_kept_and_the_score_is_the_models() -> None:
    how = SearchSettings(beam=4, n_best=4, min_tokens=5, length_penalty=0.6, length_form="paper")
    for found in beam(Babble(5, seed=6), opening(1, 2, 3, max_tokens=9), how):
        assert all(len(one.tokens) >= 5 for one in found)
        for one in found:
            assert one.score == pytest.approx(how.score(one.log_prob, len(said_with_end(one))), rel=1e-5, abs=1e-6)


def test_penalties_move_the_score_but_not_the_log_probabilities() -> None:
    how = SearchSettings(beam=4, repetition_penalty=1.5, presence_penalty=0.3, frequency_penalty=0.2)
    babble = Babble(5, seed=6)
    ((found,),) = beam(babble.again(), opening(1, max_tokens=9), how)
    said = said_with_end(found)
    own = [babble.log_probabilities([1, *said[:i]])[token] for i, token in enumerate(said)]
    assert found.log_probs == pytest.approx(own, abs=1e-5)
    assert found.score < how.score(found.log_prob, len(said))
