"""The engine finds what a plain search finds for each text alone: whatever else is under way, however many rows fit.

The plain search has a cache that is copied at each step; the engine's keys and values stay where they are.
"""

from collections.abc import Sequence

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import VOCAB, translators
from test_search_properties import Translating, own_seeds, same, searches, start
from torch import Tensor

from regard.blocks.beam_cache import BeamCache
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.request import Prompts
from regard.decoding.search import search
from regard.decoding.settings import SearchSettings
from regard.inference.scheduler import run
from regard.inference.search_worker import Asked
from regard.models import Seq2Seq


@st.composite
def texts(draw: st.DrawFn) -> list[Tensor]:
    """Sources of all lengths, (1, S) each."""
    rows = draw(st.lists(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=9), min_size=1, max_size=12))
    return [torch.tensor([row]) for row in rows]


@torch.inference_mode()
def together(
    model: Seq2Seq, rows: Sequence[Tensor], how: SearchSettings, fit: int, workers: int = 1
) -> list[list[Hypothesis]]:
    seeds = own_seeds(list(rows), how)

    def begin(numbers: Sequence[int]) -> tuple[BeamCache, Prompts]:
        longest = max(rows[number].shape[1] for number in numbers)
        ids, present = torch.zeros(len(numbers), longest, dtype=torch.long), torch.zeros(len(numbers), longest) > 0
        for row, number in enumerate(numbers):
            ids[row, : rows[number].shape[1]], present[row, : rows[number].shape[1]] = rows[number], True
        memory = model.encode(ids, present)
        return model.group(memory), start(len(numbers), seeds=[seeds[number] for number in numbers])

    def answer(groups: Sequence[BeamCache], new: Sequence[Tensor]) -> Sequence[Tensor]:
        return torch.split(model.next_logits(torch.cat(list(new))[:, 0], groups), [len(each) for each in new])

    lengths, width = [row.shape[1] for row in rows], max(how.beam, how.n_best)
    return run(lambda: Asked(begin, answer, how), lengths, width, rows=fit, workers=workers)


@settings(max_examples=100)
@given(
    translators(),
    texts(),
    searches(rewards=True),
    st.sampled_from([1, 3, 8, 20, 256]),
    st.integers(1, 3),
)
def test_each_text_is_searched_as_if_it_were_alone(
    model: Seq2Seq, rows: list[Tensor], how: SearchSettings, fit: int, workers: int
) -> None:
    for row, seed, found in zip(rows, own_seeds(rows, how), together(model, rows, how, fit, workers), strict=True):
        (alone,) = search(Translating(model, row), start(1, seeds=[seed]), how)
        same(found, alone)


@settings(max_examples=30)
@given(translators(), texts(), st.integers(1, 8))
def test_the_order_of_the_texts_changes_nothing(model: Seq2Seq, rows: list[Tensor], beam: int) -> None:
    how = SearchSettings(beam=beam, n_best=beam)
    forwards, backwards = (together(model, order, how, 10) for order in (rows, rows[::-1]))
    for one, other in zip(forwards, backwards[::-1], strict=True):
        same(one, other)


def test_nothing_to_do_is_nothing_done() -> None:
    def never(*what: object) -> tuple[BeamCache, Prompts]:
        raise AssertionError

    assert run(lambda: Asked(never, never, SearchSettings(beam=4)), [], 4) == []  # type: ignore[arg-type]
