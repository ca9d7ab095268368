"""Log-probabilities and perplexity equal a computation by hand, and what the searches report."""

import copy
import math

import pytest
import torch
from torch.nn import functional

from regard.evaluation import likelihood
from regard.evaluation.likelihood import likelihoods, perplexity, score_tokens, target_tokens
from regard.tasks import TranslationModel

Pairs = list[tuple[str, str]]


def by_hand(model: TranslationModel, source: str, target: str) -> list[float]:
    """One pair, token by token, with torch's cross-entropy."""
    ids = model.tokenizer.encode_target(target)
    assert ids[-1] == model.tokenizer.end
    found = []
    for position, token in enumerate(ids):
        seen = torch.tensor([[model.generation.start, *ids[:position]]])
        with torch.no_grad():
            logits = model.network(torch.tensor([model.tokenizer.encode(source)]), seen)[0, -1]
        found.append(-functional.cross_entropy(logits, torch.tensor(token)).item())
    return found


def test_by_hand(toy: TranslationModel, pairs: Pairs) -> None:
    found = list(likelihoods(toy, pairs))
    for one, (source, target) in zip(found, pairs, strict=True):
        expected = by_hand(toy, source, target)
        assert one.log_probs == pytest.approx(expected, abs=1e-4)
        assert one.log_prob == pytest.approx(sum(expected), abs=1e-3)
        assert one.mean == pytest.approx(sum(expected) / len(expected), abs=1e-4)
        assert one.words == len(target.split())
        assert toy.tokenizer.decode(toy.tokenizer.encode_target(target)) == target
        assert len(one.pieces) == len(expected)
        assert one.pieces[-1] == "</s>"


def test_perplexity_by_hand(toy: TranslationModel, pairs: Pairs) -> None:
    values = [value for pair in pairs for value in by_hand(toy, *pair)]
    found = perplexity(likelihoods(toy, pairs))
    assert (found.tokens, found.pairs, found.left_out) == (len(values), 4, 0)
    assert found.words == 4 + 4 + 9 + 1 + 1  # the keeper's sentence has five
    assert found.per_token == pytest.approx(math.exp(-sum(values) / len(values)), rel=1e-4)
    assert found.per_word == pytest.approx(math.exp(-sum(values) / found.words), rel=1e-4)


def test_the_perplexity_of_a_uniform_model_is_its_vocabulary(toy: TranslationModel, pairs: Pairs) -> None:
    blank = copy.deepcopy(toy)
    with torch.no_grad():
        for parameter in blank.network.parameters():
            parameter.zero_()
    assert perplexity(likelihoods(blank, pairs)).per_token == pytest.approx(304, rel=1e-5)


@pytest.mark.parametrize("beam", [1, 4])
def test_the_search_reports_the_same(toy: TranslationModel, pairs: Pairs, beam: int) -> None:
    """The same tokens have the same log-probabilities, found by a search or given."""
    sources = [source for source, _ in pairs]
    for source, found in zip(sources, toy.translations(sources, beam=beam, n_best=beam, max_tokens=8), strict=True):
        for one in found:
            ids = [toy.tokenizer.id_of(piece) for piece in one.pieces]
            ids = ids + [toy.tokenizer.end] * one.ended
            (again,) = score_tokens(toy, [toy.tokenizer.encode(source)], [ids])
            assert again.ended == one.ended
            assert again.log_probs == pytest.approx(one.log_probs, abs=1e-4)
            assert again.log_prob == pytest.approx(one.log_prob, abs=1e-3)


def test_the_language_is_read_with_the_source(toy: TranslationModel, pairs: Pairs) -> None:
    source, target = pairs[0]
    (found,) = likelihoods(toy, [pairs[0]], to="de")
    tag = toy.tokenizer.id_of(">>de<<")
    assert tag is not None
    (expected,) = score_tokens(toy, [[tag, *toy.tokenizer.encode(source)]], [toy.tokenizer.encode_target(target)])
    assert found.log_probs == expected.log_probs
    assert found.log_prob != next(likelihoods(toy, [pairs[0]])).log_prob


def test_batching_changes_nothing(toy: TranslationModel, pairs: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [pairs[i % 4] for i in range(23)]
    together = list(likelihoods(toy, many))
    monkeypatch.setattr(likelihood, "POSITIONS_PER_BATCH", 30)
    monkeypatch.setattr(likelihood, "PAIRS_PER_WINDOW", 5)
    in_parts = list(likelihoods(toy, iter(many)))
    alone = [next(likelihoods(toy, [pair])) for pair in many]
    for one, other, third in zip(together, in_parts, alone, strict=True):
        assert one.pieces == other.pieces == third.pieces
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4)
        assert one.log_probs == pytest.approx(third.log_probs, abs=1e-4)


def test_pairs_without_a_score(toy: TranslationModel) -> None:
    given = [("", "Fisch!"), ("Fish!", ""), ("Fish! " * 40, "Fisch!"), ("Fish!", "Fisch! " * 40), ("Fish!", "Fisch!")]
    found = list(likelihoods(toy, given))
    assert [one.fault[:6] for one in found] == ["the so", "", "longer", "longer", ""]
    assert found[1].pieces == ["</s>"]  # an empty text is a text
    assert math.isnan(found[0].log_prob)
    total = perplexity(found)
    assert (total.pairs, total.left_out) == (2, 3)
    assert math.isfinite(total.per_token)


def test_a_line_without_spaces_is_one_long_word() -> None:
    total = likelihood.Perplexity(log_prob=-2000.0, tokens=300, words=1, pairs=1)
    assert total.per_token == pytest.approx(math.exp(2000 / 300))
    assert total.per_word == math.inf
    assert math.isnan(likelihood.Perplexity().per_token)


def test_the_end_token_comes_once(toy: TranslationModel) -> None:
    assert target_tokens(toy, "Fisch!") == toy.tokenizer.encode_target("Fisch!")
    assert target_tokens(toy, "") == [toy.tokenizer.end]
