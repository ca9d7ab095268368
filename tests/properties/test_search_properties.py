"""Searching with real models, caches and padding: neither neighbours nor beams nor leaving rows change a text.

Token for token. Two batches' numbers differ in their last bits, so a choice that hangs on those could differ too; the
examples are the same each time, and none of them hangs on so little.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import CONTEXT, VOCAB, Batch, batches, decoders, translators
from torch import Tensor

from regard.decoding.beam import beam
from regard.decoding.greedy import greedy
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.sample import seed_for
from regard.decoding.score import scored
from regard.decoding.search import search
from regard.decoding.search_protocol import Prompts
from regard.decoding.settings import SearchSettings
from regard.models import Decoder, Seq2Seq
from regard.models.seq2seq import Memory

END, START, ROOM = (2, 5), 0, 7


class Translating:
    """A translator as a step, without a cache: it reads everything again each time."""

    def __init__(self, model: Seq2Seq, ids_BS: Tensor, present_BS: Tensor | None = None) -> None:
        self.model, self.memory = model, model.encode(ids_BS, present_BS)
        self.ids_RL = torch.zeros(len(ids_BS), 0, dtype=torch.long)

    def __call__(self, ids_RL: Tensor) -> Tensor:
        self.ids_RL = torch.cat((self.ids_RL, ids_RL), dim=1)
        return self.model.decode(self.ids_RL, self.memory)[:, -1]

    def reorder(self, rows_R: Tensor) -> None:
        self.memory = Memory(*(part[rows_R] for part in self.memory))
        self.ids_RL = self.ids_RL[rows_R]


class Continuing:
    """A decoder as a step, for prompts that are padded on the left."""

    def __init__(self, model: Decoder, present_BL: Tensor) -> None:
        self.model, self.cache, self.present_BL = model, model.new_cache(), present_BL

    def __call__(self, ids_RL: Tensor) -> Tensor:
        present = self.present_BL if self.cache.length == 0 else torch.ones_like(ids_RL, dtype=torch.bool)
        return self.model(ids_RL, present, self.cache)[:, -1]

    def reorder(self, rows_R: Tensor) -> None:
        self.cache.reorder(rows_R)


def start(count: int, **more: object) -> Prompts:
    first = torch.full((count, 1), START)
    return Prompts(ids_BL=first, max_tokens=ROOM, end=END, suppressed=[START], **more)  # type: ignore[arg-type]


def same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(one.tokens, one.end) for one in found] == [(one.tokens, one.end) for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-4, rel=1e-4)
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4, rel=1e-4)


@st.composite
def searches(draw: st.DrawFn, rewards: bool = False) -> SearchSettings:
    """Of any kind, beams most often."""
    sampling = draw(st.integers(0, 3)) == 0
    width = 1 if sampling else draw(st.integers(1, 5))
    kind = {"temperature": draw(st.sampled_from([0.5, 1.0, 2.0])), "top_p": 0.9} if sampling else {"beam": width}
    return SearchSettings(
        **kind,
        n_best=draw(st.integers(1, 3 if sampling else width)),
        seed=draw(st.integers(0, 99)),
        length_penalty=draw(st.sampled_from([-0.5, 0.0, 0.6, 1.0, 2.0])),
        length_form=draw(st.sampled_from(["plain", "paper"])),
        patience=draw(st.sampled_from([None, None, 0.5, 1.0])),
        no_repeat_ngram=draw(st.sampled_from([0, 0, 1, 2])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.3])) if rewards else 1.0,
        min_tokens=draw(st.integers(0, 3)),
        max_tokens=draw(st.integers(3, ROOM)),
    )


def own_seeds(rows: list[Tensor], how: SearchSettings) -> list[int]:
    return [seed_for(how.seed, row[0].tolist()) for row in rows]


@settings(max_examples=40)
@given(translators(), batches(), searches(rewards=True))
def test_translating_alone_is_translating_in_a_batch(model: Seq2Seq, batch: Batch, how: SearchSettings) -> None:
    seeds_B = own_seeds(batch.rows, how)
    step = Translating(model, batch.ids_BL, batch.present_BL)
    together = search(step, start(len(batch.rows), seeds=seeds_B), how)
    for row, seed, found in zip(batch.rows, seeds_B, together, strict=True):
        (alone,) = search(Translating(model, row), start(1, seeds=[seed]), how)
        same(found, alone)


@settings(max_examples=40)
@given(decoders(), batches(longest=6), searches(rewards=True))
def test_continuing_alone_is_continuing_in_a_batch(model: Decoder, batch: Batch, how: SearchSettings) -> None:
    rows = batch.rows
    longest = batch.ids_BL.shape[1]
    ids_BL, present_BL = torch.zeros_like(batch.ids_BL), torch.zeros_like(batch.present_BL)
    for i, row in enumerate(rows):
        ids_BL[i, longest - row.shape[1] :], present_BL[i, longest - row.shape[1] :] = row[0], True
    max_tokens = [CONTEXT - longest] * len(rows)
    seeds_B = own_seeds(rows, how)
    opening = Prompts(ids_BL=ids_BL, present_BL=present_BL, max_tokens=max_tokens, end=END, seeds=seeds_B)
    together = search(Continuing(model, present_BL), opening, how)
    for row, seed, found in zip(rows, seeds_B, together, strict=True):
        alone = Prompts(ids_BL=row, max_tokens=CONTEXT - longest, end=END, seeds=[seed])
        same(found, search(Continuing(model, torch.ones_like(row, dtype=torch.bool)), alone, how)[0])


@settings(max_examples=30)
@given(translators(), batches(), st.sampled_from([-0.5, 0.0, 1.0, 2.0]))
def test_a_beam_of_one_is_greedy_search(model: Seq2Seq, batch: Batch, alpha: float) -> None:
    how, opening = SearchSettings(length_penalty=alpha), start(len(batch.rows))
    plain = Translating(model, batch.ids_BL, batch.present_BL)
    said = greedy(lambda ids: plain(ids), opening.ids_BL, max_tokens=ROOM, end=END, suppressed=[START])
    found = beam(Translating(model, batch.ids_BL, batch.present_BL), opening, how)
    assert [one.tokens for (one,) in found] == said


@settings(max_examples=40)
@given(translators(), batches(), searches())
def test_teacher_forcing_gives_the_same_scores(model: Seq2Seq, batch: Batch, how: SearchSettings) -> None:
    found = search(Translating(model, batch.ids_BL, batch.present_BL), start(len(batch.rows)), how)
    for row, hypotheses in zip(batch.rows, found, strict=True):
        for one in hypotheses:
            said = [*one.tokens, *([] if one.end is None else [one.end])]
            logits = model(row, torch.tensor([[START, *said[:-1]]]))[:, : len(said)]
            (again,) = scored(logits, [said], how, end=END)
            same([one], [again])
            assert one.log_prob == pytest.approx(again.log_prob, abs=1e-4, rel=1e-4)


@settings(max_examples=40)
@given(translators(), batches(), searches(rewards=True))
def test_the_best_come_first_and_each_comes_once(model: Seq2Seq, batch: Batch, how: SearchSettings) -> None:
    for found in search(Translating(model, batch.ids_BL, batch.present_BL), start(len(batch.rows)), how):
        assert 1 <= len(found) <= how.n_best
        for one in found:
            stuck = how.no_repeat_ngram == 1 and not one.ended  # everything may be forbidden before the limit
            assert len(one.tokens) >= how.min_tokens or stuck
            assert len(one.log_probs) <= (how.max_tokens or ROOM)
            assert START not in one.tokens
            assert not set(one.tokens) & set(END)
        if not how.temperature:
            scores = [one.score for one in found]
            assert scores == sorted(scores, reverse=True)
            assert len({tuple(one.tokens) for one in found}) == len(found)


@settings(max_examples=30)
@given(translators(), batches(), searches(rewards=True), st.data())
def test_a_forced_prefix_is_said_and_the_rest_follows_from_it(
    model: Seq2Seq, batch: Batch, how: SearchSettings, data: st.DataObject
) -> None:
    token = st.integers(6, VOCAB - 1)
    prefixes = [data.draw(st.lists(token, max_size=3)) for _ in batch.rows]
    seeds_B = own_seeds(batch.rows, how)
    opening = start(len(batch.rows), prefixes=prefixes, seeds=seeds_B)
    together = search(Translating(model, batch.ids_BL, batch.present_BL), opening, how)
    for row, prefix, own, found in zip(batch.rows, prefixes, seeds_B, together, strict=True):
        assert all(one.tokens[: len(prefix)] == prefix for one in found)
        (alone,) = search(Translating(model, row), start(1, prefixes=[prefix], seeds=[own]), how)
        same(found, alone)
