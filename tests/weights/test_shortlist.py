"""Shortlists: learnt from a corpus, stored with the model, and obeyed by the search."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import SearchSettings
from regard.errors import InputError, WeightsError
from regard.inference.backend import SpecialTokens
from regard.inference.native import kernels
from regard.inference.native_backend import NativeBackend, NativeModel
from regard.inference.requests import Request
from regard.inference.scheduler import Scheduler
from regard.models import build
from regard.models.config import GenerationConfig, Seq2SeqConfig
from regard.models.initialize import initialize
from regard.models.seq2seq import Seq2Seq
from regard.weights.model_directory import SHORTLIST, Checkpoint
from regard.weights.model_io import read_model, write_model
from regard.weights.quantize import quantize
from regard.weights.shortlist import Shortlist, learn

VOCAB, OFFSET = 60, 20
compiled_only = pytest.mark.skipif(not kernels.available(), reason="no compiler, or a CPU that the loops are not for")


def corpus(count: int = 400) -> list[tuple[list[int], list[int]]]:
    """Word w is translated as w + 20, in another order, and every sentence ends with 2."""
    random = torch.Generator().manual_seed(1)
    rows = [torch.randperm(15, generator=random)[:5] + 3 for _ in range(count)]
    return [(row.tolist(), [*(row.flip(0) + OFFSET).tolist(), 2]) for row in rows]


def test_each_word_is_related_first_of_all_to_its_translation() -> None:
    found = learn(corpus(), VOCAB, VOCAB, related=3, frequent=1)
    assert found.related_VC.shape == (VOCAB, 3)
    assert found.frequent_F.tolist() == [2]
    for word in range(3, 18):
        # the end, which is in every sentence, is explained by every word; a translation by one
        assert word + OFFSET in found.related_VC[word, :2].tolist()
    assert (found.related_VC[30:] == -1).all()


def test_a_word_has_no_more_than_it_met_and_no_more_than_asked() -> None:
    found = learn([([5], [7, 8]), ([6], [7])], VOCAB, VOCAB, related=4, frequent=5)
    assert sorted(found.related_VC[5].tolist()) == [-1, -1, 7, 8]
    assert found.related_VC[6].tolist() == [7, -1, -1, -1]
    assert found.frequent_F.tolist() == [7, 8]


def test_nothing_to_learn_from() -> None:
    with pytest.raises(InputError, match="at least one sentence pair"):
        learn([], VOCAB, VOCAB)


# ---- searching with one ----


def made(seed: int) -> Seq2Seq:
    config = Seq2SeqConfig(vocab=VOCAB, width=32, heads=4, inner=64, encoder_layers=1, decoder_layers=1, context=64)
    model = build(config)
    initialize(model, seed=seed)
    assert isinstance(model, Seq2Seq)
    with torch.no_grad():
        model.target.tokens.weight.mul_(4)
    return model.eval()


def found_by(
    model: Seq2Seq,
    rows: list[list[int]],
    plan: SearchSettings,
    shortlist: Shortlist | None,
    suppressed: tuple[int, ...] = (0,),
) -> list[list[Hypothesis]]:
    native = NativeModel.of_network(model)
    assert native is not None
    tokens = SpecialTokens(start=1, end=(2,), pad=0, suppressed=suppressed)
    requests = [Request(ids=row, settings=plan, max_tokens=9) for row in rows]
    return Scheduler(NativeBackend(native, shortlist), tokens).run(requests, workers=1)


@compiled_only
@pytest.mark.parametrize("int8", [False, True], ids=["float32", "int8"])
@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("min_tokens", [0, 4])
def test_a_search_with_a_shortlist_is_one_that_forbids_the_rest(int8: bool, width: int, min_tokens: int) -> None:
    shortlist, plan = (
        learn(corpus(), VOCAB, VOCAB, related=2, frequent=3),
        SearchSettings(beam=width, min_tokens=min_tokens),
    )
    for seed in range(12):
        model, source = made(seed), corpus(seed + 1)[-1][0]
        if int8:
            quantize(model)
        allowed = {2, *shortlist.frequent_F.tolist(), *shortlist.related_VC[source].flatten().tolist()} - {-1, 0}
        rest = tuple(set(range(VOCAB)) - allowed)
        (found,), (expected,) = (
            found_by(model, [source], plan, shortlist)[0],
            found_by(model, [source], plan, None, suppressed=rest)[0],
        )
        assert set(found.tokens) <= allowed
        assert found.tokens == expected.tokens or width > 1  # a beam compares sums, whose normaliser is another
        # probabilities are shares of what may be said: each step's are larger, by the same for all words of the step
        assert all(one >= other - 1e-5 for one, other in zip(found.log_probs, expected.log_probs, strict=False))


@compiled_only
def test_with_every_word_on_the_list_nothing_changes() -> None:
    everything = Shortlist(np.full((VOCAB, 1), -1, np.int32), np.arange(VOCAB, dtype=np.int32))
    rows = [source for source, _ in corpus(9)]
    for int8 in (False, True):
        model = quantize(made(3)) if int8 else made(3)
        plan = SearchSettings(beam=4, n_best=4, length_penalty=0.6)
        for found, expected in zip(
            found_by(model, rows, plan, everything, ()), found_by(model, rows, plan, None, ()), strict=True
        ):
            assert [one.tokens for one in found] == [one.tokens for one in expected]
            assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-5)


# ---- on disk ----


def test_it_is_kept_with_the_model(tmp_path: Path) -> None:
    shortlist = learn(corpus(), VOCAB, VOCAB)
    write_model(tmp_path, Checkpoint(made(1), GenerationConfig(), shortlist))
    read = read_model(tmp_path).shortlist
    assert read is not None
    assert np.array_equal(read.related_VC, shortlist.related_VC)
    assert np.array_equal(read.frequent_F, shortlist.frequent_F)


@pytest.mark.parametrize(
    ("related", "frequent", "said"),
    [
        (torch.full((VOCAB, 2), VOCAB), torch.tensor([1]), "tokens outside the vocabulary of 60"),
        (torch.full((VOCAB, 2), -2), torch.tensor([1]), "tokens outside the vocabulary of 60"),
        (torch.full((VOCAB - 1, 2), 1), torch.tensor([1]), "source vocabulary of 60"),
        (torch.full((VOCAB, 2), 1), torch.tensor([-1]), "source vocabulary of 60"),
        (torch.full((VOCAB,), 1), torch.tensor([1]), "must contain a matrix"),
    ],
)
def test_one_that_does_not_fit_is_named(
    tmp_path: Path, related: torch.Tensor, frequent: torch.Tensor, said: str
) -> None:
    write_model(tmp_path, Checkpoint(made(1), GenerationConfig()))
    save_file({"related": related.int(), "frequent": frequent.int()}, tmp_path / SHORTLIST)
    with pytest.raises(WeightsError, match=said):
        read_model(tmp_path)
