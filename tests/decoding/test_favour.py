"""Favoured runs of tokens come, as far as the model can be talked into them."""

import torch

from regard.decoding.rules import BEGIN, GO_ON, favour


def test_the_first_token_then_the_others_then_nothing() -> None:
    rule = favour([(5, 6, 7)])
    logits = torch.zeros(1, 10)

    def likelier(*said: int) -> dict[int, float]:
        changed = rule(logits, torch.tensor([said], dtype=torch.long).reshape(1, -1))
        return {i: float(x) for i, x in enumerate(changed[0]) if x}

    assert likelier() == {5: BEGIN}
    assert likelier(1, 5) == {6: GO_ON}
    assert likelier(1, 5, 6) == {7: GO_ON}
    assert likelier(5, 6, 7) == {}
    assert likelier(5, 6, 1) == {5: BEGIN}, "begun and left: from the start again"
    assert not logits.any(), "what was given is not changed"


def test_what_was_read_does_not_count() -> None:
    rule = favour([(5,)], after=2)
    assert rule(torch.zeros(1, 8), torch.tensor([[5, 5]]))[0, 5] == BEGIN
    assert rule(torch.zeros(1, 8), torch.tensor([[5, 5, 5]]))[0, 5] == 0
