import pytest
import torch
from toys import Babble, said_with_end

from regard.decoding.beam import beam
from regard.decoding.score import log_probs, scored
from regard.decoding.search_protocol import NO_TOKEN, Prompts
from regard.decoding.settings import SearchSettings


def test_of_each_token_at_its_place() -> None:
    logits = torch.tensor([[[0.0, 0.0], [0.0, 1.0]], [[2.0, 2.0], [5.0, 5.0]]])
    found = log_probs(logits, torch.tensor([[0, 1], [1, NO_TOKEN]]))
    half = -0.6931472
    assert found.tolist() == [pytest.approx([half, -0.3132617]), pytest.approx([half, 0.0])]


def test_half_precision_is_summed_in_full() -> None:
    logits = torch.randn(1, 1, 5000).bfloat16()
    assert log_probs(logits, torch.tensor([[7]])).dtype == torch.float32


def test_a_target_scores_as_the_hypothesis_that_it_is() -> None:
    babble = Babble(6, seed=2)
    how = SearchSettings(beam=4, n_best=4, length_penalty=0.6, length_form="paper")
    (found,) = beam(babble, Prompts(ids_BL=torch.tensor([[3]]), max_tokens=8, end=[0]), how)
    targets = [said_with_end(one) for one in found]
    longest = max(map(len, targets))
    assert {one.ended for one in found} == {True, False}
    logits = torch.zeros(len(targets), longest, 6)
    for row, target in enumerate(targets):
        for place in range(len(target)):
            logits[row, place] = babble.again()(torch.tensor([[3, *target[:place]]]))[0]
    again = scored(logits, targets, how, end=[0])
    for one, other in zip(found, again, strict=True):
        assert (one.tokens, one.end) == (other.tokens, other.end)
        assert one.score == pytest.approx(other.score, rel=1e-6, abs=1e-6)
        assert one.log_probs == pytest.approx(other.log_probs, rel=1e-6, abs=1e-6)
        assert one.log_prob == pytest.approx(other.log_prob, rel=1e-6, abs=1e-6)


def test_an_empty_target() -> None:
    (nothing,) = scored(torch.zeros(1, 0, 5), [[]], SearchSettings())
    assert (nothing.tokens, nothing.score, nothing.ended) == ([], 0.0, False)
