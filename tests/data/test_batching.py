"""Batches: every row once, never too many tokens, in an order that only the seed and the epoch decide."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data_samples import pairs, tokenizer, write
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching import Epochs, collate, plan_batches, rows_of_epoch
from regard.data.corpus import Corpus, Lengths, Ragged, gather, pad_rows, row_sums
from regard.data.sources import DataSettings, Files
from regard.data.token_cache import cached_corpus
from regard.errors import ConfigError

sizes = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=200)


def lengths_of(rows: list[tuple[int, int]]) -> Lengths:
    both = np.array(rows, np.int64)
    return Lengths(both[:, 0], both[:, 1])


@settings(deadline=None, max_examples=100)
@given(rows=sizes, tokens=st.integers(40, 400), seed=st.integers(0, 2**63 - 1), epoch=st.integers(0, 50))
def test_a_plan_has_every_row_once_and_no_batch_is_too_large(
    rows: list[tuple[int, int]], tokens: int, seed: int, epoch: int
) -> None:
    lengths, all_rows = lengths_of(rows), np.arange(len(rows))
    made = plan_batches(all_rows, lengths, tokens, seed, epoch)
    assert sorted(made.rows.tolist()) == all_rows.tolist()
    for number in range(len(made)):
        batch = made.batch(number)
        assert len(batch) > 0
        assert len(batch) * max(lengths.source[batch].max(), lengths.target[batch].max()) <= tokens
    again = plan_batches(all_rows, lengths, tokens, seed, epoch)
    assert again.rows.tolist() == made.rows.tolist()
    assert again.ends.tolist() == made.ends.tolist()


def test_batches_are_full_and_mixed() -> None:
    chance = np.random.default_rng(1)
    source = np.clip(chance.normal(15, 6, 30_000).astype(np.int64), 2, 80)
    lengths = Lengths(source, np.clip(source + chance.integers(-4, 5, 30_000), 2, 90))
    made = [plan_batches(np.arange(30_000), lengths, 4096, 1, epoch) for epoch in (0, 1)]
    batches = [made[0].batch(number) for number in range(len(made[0]))]
    area = sum(len(b) * (lengths.source[b].max() + lengths.target[b].max()) for b in batches)
    assert (lengths.source.sum() + lengths.target.sum()) / area > 0.85  # little padding
    means = np.array([lengths.source[b].mean() for b in batches])
    half = len(means) // 2
    assert means[:half].mean() == pytest.approx(means[half:].mean(), rel=0.15)  # not from short to long
    partners = {tuple(sorted(made[1].batch(n).tolist())) for n in range(len(made[1]))}
    assert not any(tuple(sorted(b.tolist())) in partners for b in batches)  # another epoch, other company


def test_no_rows_make_no_batches() -> None:
    assert len(plan_batches(np.arange(0), Lengths(np.zeros(0, np.int64), np.zeros(0, np.int64)), 10, 1, 0)) == 0


@given(count=st.integers(1, 50), weight=st.sampled_from([0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 3.25]))
def test_a_weight_is_how_often_a_row_is_drawn(count: int, weight: float) -> None:
    epochs = [rows_of_epoch([5, 5 + count], [1.0, weight], 7, epoch) for epoch in range(8)]
    for rows in epochs:
        assert rows[:5].tolist() == [0, 1, 2, 3, 4]
        assert abs(len(rows) - 5 - weight * count) < 1
    assert abs(sum(len(rows) - 5 for rows in epochs) - 8 * weight * count) < 1, "a tenth of three rows, now and then"
    times = np.bincount(np.concatenate([rows[5:] for rows in epochs]) - 5, minlength=count)
    assert times.max() - times.min() <= 1  # over the epochs, all rows get their turn


@pytest.fixture(scope="module", params=[0.0, 0.3], ids=["plain", "varied"])
def corpus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("corpus")
    write(folder, pairs(300))
    data = DataSettings(dir=str(folder), train=(Files(source="train.en", target="train.de"),), max_tokens=100)
    return cached_corpus(data, tokenizer(), folder / "cache", dropout=request.param)


def epochs(corpus: Corpus, **more: Any) -> Epochs:
    return Epochs(corpus, **({"tokens": 400, "seed": 3, "start": 1, "pad": 0} | more))


def test_a_batch_holds_its_rows(corpus: Corpus) -> None:
    own, texts, seen = tokenizer(), pairs(300), []
    for batch in epochs(corpus)(2):
        assert batch.source_BS.shape == batch.source_present_BS.shape
        assert batch.target_BL.shape == batch.labels_BL.shape == batch.target_present_BL.shape
        assert max(batch.source_BS.numel(), batch.target_BL.numel()) <= 400
        assert batch.tokens == int(batch.target_present_BL.sum())
        for i, row in enumerate(batch.rows.tolist()):
            seen.append(row)
            source = batch.source_BS[i][batch.source_present_BS[i]].tolist()
            labels = batch.labels_BL[i][batch.target_present_BL[i]].tolist()
            read = batch.target_BL[i][batch.target_present_BL[i]].tolist()
            assert (own.decode(source), own.decode(labels)) == texts[row]
            assert source[-1] == labels[-1] == own.end
            assert read == [1, *labels[:-1]]
        assert not batch.source_BS[~batch.source_present_BS].any()
        assert not batch.labels_BL[~batch.target_present_BL].any()
        assert not batch.target_BL[~batch.target_present_BL].any()
    assert sorted(seen) == list(range(300))


def test_any_batch_can_be_had_first(corpus: Corpus) -> None:
    whole = list(epochs(corpus)(1))
    again = epochs(corpus)(1)
    for number in (len(whole) - 1, 0, 3):
        assert again[number].source_BS.equal(whole[number].source_BS)
        assert again[number].labels_BL.equal(whole[number].labels_BL)
    assert again[-1].rows.equal(whole[-1].rows)
    assert [batch.tokens for batch in again[2:4]] == [batch.tokens for batch in whole[2:4]]
    with pytest.raises(IndexError):
        again[len(whole)]
    others = [[b.rows.tolist() for b in epochs(corpus, seed=seed)(epoch)] for seed, epoch in [(3, 0), (4, 1)]]
    assert [b.rows.tolist() for b in whole] not in others


@pytest.mark.parametrize("world", [2, 3, 50])
def test_the_parts_of_a_batch_are_the_batch(corpus: Corpus, world: int) -> None:
    whole = epochs(corpus)(0)
    parts = [epochs(corpus, rank=rank, world=world)(0) for rank in range(world)]
    assert {len(part) for part in parts} == {len(whole)}
    for number in range(0, len(whole), 5):
        batches = [part[number] for part in parts]
        counted = [row for b in batches if b.tokens for row in b.rows.tolist()]
        assert sorted(counted) == sorted(whole[number].rows.tolist())
        assert sum(b.tokens for b in batches) == whole[number].tokens
        for b in batches:  # one that has nothing to do still has something to compute
            assert b.source_BS.numel() > 0
            assert b.source_present_BS.any(dim=1).all()
            assert bool(b.tokens) == bool(b.target_present_BL.any())


def test_a_batch_in_pieces(corpus: Corpus) -> None:
    batch = epochs(corpus)(0)[0]
    assert batch.split(1) == [batch]
    pieces = batch.split(3)
    assert torch.cat([piece.labels_BL for piece in pieces]).equal(batch.labels_BL)
    assert torch.cat([piece.rows for piece in pieces]).equal(batch.rows)
    assert sum(piece.tokens for piece in pieces) == batch.tokens
    assert len(batch.split(10_000)) == len(batch.rows)
    assert batch.to(torch.device("cpu")).source_BS.equal(batch.source_BS)


def test_a_batch_must_hold_the_longest_pair(corpus: Corpus) -> None:
    with pytest.raises(ConfigError, match=r"a batch of 99 tokens cannot hold a pair of max_tokens = 100"):
        epochs(corpus, tokens=99)


def test_weights_of_files(tmp_path: Path) -> None:
    write(tmp_path, pairs(40))
    write(tmp_path, pairs(30, seed=2), "more")
    files = (Files(source="train.en", target="train.de"), Files(source="more.en", target="more.de"))
    corpus = cached_corpus(DataSettings(dir=str(tmp_path), train=files), tokenizer(), tmp_path / "cache")
    rows = np.concatenate([batch.rows for batch in epochs(corpus, weights=(2.0, 0.5))(0)])
    times = np.bincount(rows, minlength=len(corpus))
    first = corpus.ends[0]
    assert times[:first].tolist() == [2] * first
    assert times[first:].sum() == round(0.5 * (len(corpus) - first))


@given(rows=st.lists(st.lists(st.integers(4, 99), min_size=1, max_size=9), min_size=1, max_size=9))
def test_ragged_rows(rows: list[list[int]]) -> None:
    lengths = np.array([len(row) for row in rows])
    whole = Ragged(np.array([number for row in rows for number in row]), lengths)
    assert row_sums(whole.flat, lengths).tolist() == [sum(row) for row in rows]
    order = np.arange(len(rows))[::-1]
    assert gather(whole.flat, whole.starts[order], lengths[order]).flat.tolist() == [
        n for row in rows[::-1] for n in row
    ]
    matrix, present = pad_rows(whole, 0)
    assert [matrix[i][present[i]].tolist() for i in range(len(rows))] == rows
    batch = collate(whole, whole, np.arange(len(rows)), start=1, pad=0)
    assert batch.target_BL[:, 0].tolist() == [1] * len(rows)


def test_rows_of_nothing() -> None:
    none = np.zeros(0, np.int64)
    assert gather(np.arange(5), none, none).flat.tolist() == []
    assert row_sums(np.arange(3), np.array([0, 3, 0])).tolist() == [0, 3, 0]
