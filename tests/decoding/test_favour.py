"""Favoured runs of tokens come, as far as the model can be talked into them."""

import torch

from regard.decoding.rules import CONTINUE_BOOST, START_BOOST, boost


def test_the_first_token_then_the_others_then_nothing() -> None:
    rule = boost([(5, 6, 7)])
    logits = torch.zeros(1, 10)

    def likelier(*said: int) -> dict[int, float]:
        changed = rule(logits, torch.tensor([said], dtype=torch.long).reshape(1, -1))
        return {i: float(x) for i, x in enumerate(changed[0]) if x}

    assert likelier() == {5: START_BOOST}
    assert likelier(1, 5) == {6: CONTINUE_BOOST}
    assert likelier(1, 5, 6) == {7: CONTINUE_BOOST}
    assert likelier(5, 6, 7) == {}
    assert likelier(5, 6, 1) == {5: START_BOOST}, "begun and left: from the start again"
    assert not logits.any(), "what was given is not changed"


def test_what_was_read_does_not_count() -> None:
    rule = boost([(5,)], after=2)
    assert rule(torch.zeros(1, 8), torch.tensor([[5, 5]]))[0, 5] == START_BOOST
    assert rule(torch.zeros(1, 8), torch.tensor([[5, 5, 5]]))[0, 5] == 0
