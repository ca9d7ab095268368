"""The compiled search, as a scheduler uses it: step by step, with requests that join and are cancelled."""

from collections.abc import Iterator

import pytest
import torch

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import SearchSettings
from regard.inference.backend import SpecialTokens
from regard.inference.native import kernels
from regard.inference.native.search import NativeSearch
from regard.inference.native_backend import NativeModel
from regard.models.config import Seq2SeqConfig
from regard.models.initialize import initialize
from regard.models.seq2seq import Seq2Seq

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no compiler, or a CPU without AVX2")
SOURCES = [[3, 4, 5], [6], [7, 8, 9, 10, 11, 12, 13], [14, 15], [16, 17, 18, 19], [3, 5, 7, 9, 11]]
MAX_TOKENS = 20


@pytest.fixture(params=[1, 4], ids=["greedy", "beam 4"])
def search(request: pytest.FixtureRequest) -> Iterator[NativeSearch]:
    config = Seq2SeqConfig(vocab=60, width=32, heads=4, inner=64, encoder_layers=1, decoder_layers=2, context=64)
    network = Seq2Seq(config).eval()
    initialize(network, seed=1)
    with torch.no_grad():
        network.target.tokens.weight.mul_(3.0)  # surer of its tokens, so that requests end at different lengths
    model = NativeModel.of_network(network)
    assert model is not None
    made = NativeSearch(
        model.native_encoder(16),
        model.decoder_io(MAX_TOKENS, shortlist=None),
        SearchSettings(beam=request.param, n_best=request.param),
        SpecialTokens(start=1, end=(2,), pad=0, suppressed=(0,)),
        source=16,
        max_tokens=MAX_TOKENS,
    )
    yield made
    made.close()


Results = dict[int, list[Hypothesis]]


def add(search: NativeSearch, numbers: range) -> None:
    search.add(numbers, [SOURCES[number] for number in numbers], [MAX_TOKENS] * len(numbers))


def finish(search: NativeSearch, max_steps: int = 0) -> Results:
    results: Results = {}
    while search.rows:
        results |= dict(search.step(max_rows=1000, wanted=1000, max_steps=max_steps))
    return results


def test_results_do_not_depend_on_the_number_of_steps_per_call(search: NativeSearch) -> None:
    add(search, range(6))
    expected = finish(search)
    assert sorted(expected) == [*range(6)]
    for max_steps in (1, 3):
        add(search, range(6))
        assert finish(search, max_steps) == expected


def test_max_steps_limits_the_generated_tokens(search: NativeSearch) -> None:
    add(search, range(6))
    for step in range(1, MAX_TOKENS + 1):
        for _, hypotheses in search.step(1000, 1000, max_steps=1):
            assert max(len(hypothesis.generated) for hypothesis in hypotheses) <= step
    assert not search.rows


@pytest.mark.parametrize("cancelled", [0, 2, 5], ids=["first", "middle", "last"])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_a_cancelled_request_leaves_and_the_others_keep_their_results(
    search: NativeSearch, cancelled: int, steps: int
) -> None:
    add(search, range(6))
    expected = finish(search)
    add(search, range(6))
    results: Results = {}
    for _ in range(steps):
        results |= dict(search.step(1000, 1000, max_steps=1))
    rows, under_way = search.rows, cancelled not in results
    for _ in range(2):  # the second time, or after it is done, there is nothing to cancel
        search.cancel(cancelled)
    assert search.rows == rows - under_way * rows // (6 - len(results))
    results |= finish(search)
    assert results == {number: expected[number] for number in range(6) if number != cancelled or not under_way}


def test_all_requests_can_be_cancelled_and_new_ones_take_their_place(search: NativeSearch) -> None:
    add(search, range(6))
    expected = finish(search)
    add(search, range(3))
    search.step(1000, 1000, max_steps=2)
    for number in range(3):
        search.cancel(number)
    assert search.rows == 0
    assert search.step(1000, 1000) == []
    add(search, range(3, 6))
    assert finish(search) == {number: expected[number] for number in range(3, 6)}


def test_cancelling_an_unknown_number_changes_nothing(search: NativeSearch) -> None:
    add(search, range(2))
    search.cancel(7)
    assert sorted(finish(search)) == [0, 1]
