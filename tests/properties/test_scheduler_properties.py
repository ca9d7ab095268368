"""The scheduler finds what a plain search finds for each text alone: whatever else is under way, however many rows fit.

The plain search reads everything again at each step; the scheduler's kv caches are shared by many texts.
"""

from collections.abc import Sequence

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import CONTEXT, VOCAB, decoders, translators
from test_search_properties import END, ROOM, START, Continuing, Translating, own_seeds, same, searches, start
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import search
from regard.decoding.search_protocol import Prompts
from regard.decoding.settings import SearchSettings
from regard.inference.backend import SpecialTokens
from regard.inference.requests import Request
from regard.inference.scheduler import Scheduler
from regard.inference.torch_backend import DecoderBackend, Seq2SeqBackend
from regard.models import Decoder, Seq2Seq

TOKENS = SpecialTokens(start=START, end=END, pad=0, suppressed=[START])


@st.composite
def texts(draw: st.DrawFn) -> list[Tensor]:
    """Sources of all lengths, (1, S) each."""
    rows = draw(st.lists(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=9), min_size=1, max_size=12))
    return [torch.tensor([row]) for row in rows]


def requests(rows: Sequence[Tensor], hows: Sequence[SearchSettings]) -> list[Request]:
    return [
        Request(ids=row[0].tolist(), settings=how, max_tokens=min(ROOM, how.max_tokens or ROOM))
        for row, how in zip(rows, hows, strict=True)
    ]


def together(
    model: Seq2Seq, rows: Sequence[Tensor], how: SearchSettings, fit: int, workers: int = 1
) -> list[list[Hypothesis]]:
    scheduler = Scheduler(Seq2SeqBackend(model), TOKENS, max_rows=fit)
    return scheduler.run(requests(rows, [how] * len(rows)), workers=workers)


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
@given(translators(), texts(), st.data(), st.sampled_from([3, 20]))
def test_requests_with_different_settings_run_together(
    model: Seq2Seq, rows: list[Tensor], data: st.DataObject, fit: int
) -> None:
    hows = [data.draw(searches(rewards=True)) for _ in rows]
    found = Scheduler(Seq2SeqBackend(model), TOKENS, max_rows=fit).run(requests(rows, hows))
    for row, how, hypotheses in zip(rows, hows, found, strict=True):
        (alone,) = search(Translating(model, row), start(1, seeds=own_seeds([row], how)), how)
        same(hypotheses, alone)


@settings(max_examples=30)
@given(decoders(), texts(), searches(rewards=True), st.sampled_from([3, 20]))
def test_prompts_are_continued_as_if_alone(model: Decoder, rows: list[Tensor], how: SearchSettings, fit: int) -> None:
    longest = CONTEXT - 9
    some = [
        Request(ids=row[0].tolist(), settings=how, max_tokens=min(longest, how.max_tokens or longest)) for row in rows
    ]
    tokens = SpecialTokens(start=None, end=END, pad=0)
    found = Scheduler(DecoderBackend(model), tokens, max_rows=fit).run(some)
    for row, hypotheses in zip(rows, found, strict=True):
        alone = Prompts(ids_BL=row, max_tokens=longest, end=END, seeds=own_seeds([row], how))
        same(hypotheses, search(Continuing(model, torch.ones_like(row, dtype=torch.bool)), alone, how)[0])


@settings(max_examples=30)
@given(translators(), texts(), st.integers(1, 8))
def test_the_order_of_the_texts_changes_nothing(model: Seq2Seq, rows: list[Tensor], beam: int) -> None:
    how = SearchSettings(beam=beam, n_best=beam)
    forwards, backwards = (together(model, order, how, 10) for order in (rows, rows[::-1]))
    for one, other in zip(forwards, backwards[::-1], strict=True):
        same(one, other)


@settings(max_examples=20)
@given(translators(), texts())
def test_a_stream_is_the_result_token_by_token(model: Seq2Seq, rows: list[Tensor]) -> None:
    scheduler = Scheduler(Seq2SeqBackend(model), TOKENS)
    plain = together(model, rows, SearchSettings(), 20)
    handles = [
        scheduler.submit(Request(ids=row[0].tolist(), settings=SearchSettings(), max_tokens=ROOM, stream=True))
        for row in rows
    ]
    for handle, (expected,) in zip(handles, plain, strict=True):
        assert list(handle.tokens()) == expected.tokens
        same(handle.result(), [expected])


def test_nothing_to_do_is_nothing_done() -> None:
    class Never:
        parallel_steps = False

        def __getattr__(self, name: str) -> object:
            raise AssertionError

    assert Scheduler(Never(), TOKENS).run([]) == []  # type: ignore[arg-type]
