import pytest
import torch
from toys import Babble, said_with_end

from regard.decoding.sample import draw, sample, seed_for
from regard.decoding.search_protocol import Prompts
from regard.decoding.settings import SearchSettings

END = (0,)


def opening(*firsts: int, max_tokens: int = 9, **more: object) -> Prompts:
    return Prompts(ids_BL=torch.tensor(firsts)[:, None], max_tokens=max_tokens, end=END, **more)  # type: ignore[arg-type]


def test_samples_are_as_frequent_as_they_are_likely() -> None:
    stats = pytest.importorskip("scipy.stats")
    babble, many = Babble(6, seed=1, spread=1.0), 4096
    firsts, copies = 8, 512
    how = SearchSettings(temperature=1.0, n_best=copies, seed=3, max_tokens=1)
    seeds = [seed_for(how.seed, [i]) for i in range(firsts)]
    found = sample(babble, opening(*[5] * firsts, seeds=seeds), how)
    counts = torch.zeros(6)
    for each in found:
        for one in each:
            counts[said_with_end(one)[0]] += 1
    expected = many * torch.tensor(babble.log_probabilities([5])).double().exp()
    assert stats.chisquare(counts.double().numpy(), expected.numpy()).pvalue > 0.01


def test_pairs_of_tokens_are_as_frequent_as_they_are_likely() -> None:
    """The second draw of a text does not hang on its first."""
    stats = pytest.importorskip("scipy.stats")
    babble, copies = Babble(4, seed=2, spread=0.7), 1000
    how = SearchSettings(temperature=1.0, n_best=copies, seed=1, max_tokens=2)
    seeds = [seed_for(how.seed, [i]) for i in range(4)]
    found = [one for each in sample(babble, opening(2, 2, 2, 2, seeds=seeds), how) for one in each]
    said = [tuple(said_with_end(one)) for one in found]
    pairs = [(0,), *((a, b) for a in (1, 2, 3) for b in range(4))]
    chances = []
    for first, *rest in pairs:
        chance = babble.log_probabilities([2])[first]
        chance += sum(babble.log_probabilities([2, first])[second] for second in rest)
        chances.append(torch.tensor(chance).double().exp().item())
    expected = [len(said) * chance / sum(chances) for chance in chances]
    assert stats.chisquare([said.count(pair) for pair in pairs], expected).pvalue > 0.01


def test_a_sample_does_not_depend_on_its_neighbours() -> None:
    babble, how = Babble(9, seed=4), SearchSettings(temperature=1.2, top_p=0.95, seed=11, n_best=3)
    together = sample(babble.again(), opening(1, 2, 3, 4, max_tokens=[7, 3, 0, 12]), how)
    for first, max_tokens, found in zip((1, 2, 3, 4), (7, 3, 0, 12), together, strict=True):
        assert sample(babble.again(), opening(first, max_tokens=max_tokens), how) == [found]
    again = sample(babble.again(), opening(4, 1, max_tokens=[12, 7]), how)
    assert again == [together[3], together[0]]


def test_a_longer_limit_goes_on_where_the_shorter_stopped() -> None:
    babble, how = Babble(9, seed=4), SearchSettings(temperature=1.0, seed=2, min_tokens=20)
    short, long = (
        sample(babble.again(), opening(1, max_tokens=max_tokens), how)[0][0].tokens for max_tokens in (5, 20)
    )
    assert long[:5] == short
    assert len(long) == 20


def test_seeds() -> None:
    babble = Babble(50, seed=4)

    def said(seed: int | None) -> list[list[int]]:
        return [
            one.tokens
            for one in sample(babble.again(), opening(1), SearchSettings(temperature=1.0, seed=seed, n_best=4))[0]
        ]

    assert said(1) == said(1)
    assert said(1) != said(2)
    assert said(None) != said(None)
    assert len(set(map(tuple, said(1)))) > 1, "one text's samples differ"


def test_a_texts_own_seed_depends_on_the_text() -> None:
    assert seed_for(1, [5, 6]) == seed_for(1, (5, 6))
    assert len({seed_for(1), seed_for(1, [5, 6]), seed_for(1, [6, 5]), seed_for(2, [5, 6]), seed_for(15, [6])}) == 5
    assert all(0 <= seed_for(seed, [1]) < 2**63 for seed in (None, 0, 2**63 - 1))


def test_almost_no_temperature_is_greedy_search() -> None:
    babble = Babble(9, seed=4)
    (found,) = sample(babble, opening(1), SearchSettings(temperature=0.001, seed=1))[0]
    said: list[int] = []
    while len(said) < 9 and said[-1:] != [0]:
        chances = babble.log_probabilities([1, *said])
        said.append(chances.index(max(chances)))
    assert said_with_end(found) == said


def test_top_k_of_one_is_greedy_search_at_any_temperature() -> None:
    babble = Babble(9, seed=4)
    cold, hot = (
        sample(babble.again(), opening(1, 2), SearchSettings(temperature=t, top_k=1, seed=1)) for t in (0.001, 9.0)
    )
    assert cold == hot


def test_log_probabilities_are_the_models_own() -> None:
    babble = Babble(9, seed=4)
    how = SearchSettings(temperature=3.0, top_k=4, seed=5, length_penalty=1.0)
    for first, (found,) in zip((1, 2, 3), sample(babble, opening(1, 2, 3), how), strict=True):
        said = said_with_end(found)
        own = [babble.log_probabilities([first, *said[:i]])[token] for i, token in enumerate(said)]
        assert found.log_probs == pytest.approx(own, abs=1e-5)
        assert found.score == pytest.approx(sum(own) / len(own), rel=1e-5, abs=1e-6)


def test_texts_that_are_done_cost_nothing_more() -> None:
    babble = Babble(4, seed=4)
    sample(
        babble, opening(1, 2, 3, max_tokens=[9, 1, 0]), SearchSettings(temperature=1.0, seed=5, n_best=4, min_tokens=9)
    )
    assert babble.rows == [3, *[4] * 8]


def test_prefixes_are_said_first() -> None:
    found = sample(
        Babble(9, 1), opening(1, 1, prefixes=[[7], [5, 5, 5]]), SearchSettings(temperature=1.0, seed=1, n_best=3)
    )
    assert all(one.tokens[:1] == [7] for one in found[0])
    assert all(one.tokens[:3] == [5, 5, 5] for one in found[1])


def test_when_everything_is_forbidden_the_text_stops_there() -> None:
    how = SearchSettings(temperature=1.0, seed=1, no_repeat_ngram=1)
    ((found,),) = sample(Babble(4, 1), opening(1, suppressed=[0]), how)
    assert sorted(found.tokens) == [2, 3]
    assert not found.ended


def test_what_has_no_probability_is_never_drawn() -> None:
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]])
    for point, token in ((0.0, 1), (0.4999, 1), (0.5001, 3), (1.0, 3)):
        assert draw(logits, torch.tensor([point], dtype=torch.double)).tolist() == [token]
