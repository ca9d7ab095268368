"""One row a sentence, one token a step: the loop that greedy search and sampling share.

B sentences  R rows  L length of what is new  P longest prefix  V vocabulary
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.decoding.interface import Hypothesis, NextToken, Opening, Step
from regard.decoding.rules import Rule, rules_for, weigh
from regard.decoding.settings import Search

Choose = Callable[[Tensor, Sequence[int]], Tensor]
"""(what the rules left (R, V), which text each row writes) -> one token a row (R)."""


@dataclass
class Draft:
    """A text that is being written."""

    limit: int
    said: list[int] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    total: float = 0.0
    goes_on: bool = True

    def add(self, token: int, own: float, ruled: float, end: Sequence[int]) -> None:
        if ruled == -torch.inf:  # every token is forbidden: there it stays
            self.goes_on = False
            return
        self.said.append(token)
        self.own.append(own)
        self.total += ruled
        self.goes_on = token not in end and len(self.said) < self.limit


def follow(
    step: NextToken | Step,
    opening: Opening,
    settings: Search,
    choose: Choose,
    *,
    rules: Sequence[Rule] | None = None,
    copies: int = 1,
) -> list[Hypothesis]:
    """What each sentence goes on to say, `copies` times, as `choose` chooses.

    Rows that are done leave the batch if the step can be reordered, and are not listened to if it is a plain function.
    """
    rules = rules_for(settings, opening) if rules is None else rules
    drafts = [Draft(limit, goes_on=limit > 0) for limit in opening.limits(settings) for _ in range(copies)]
    writes = list(range(len(drafts)))  # the draft of each row
    seen_RL, forced_RP = (x.repeat_interleave(copies, 0) for x in (opening.seen_BL, opening.forced_BP))
    new_RL = opening.first_BL
    said = 0
    while any(draft.goes_on for draft in drafts):
        logits_RV = step(new_RL)
        if said == 0 and copies > 1:
            assert isinstance(step, Step), "only a step that can be reordered can go on several times"
            rows_R = torch.arange(len(new_RL), device=new_RL.device).repeat_interleave(copies)
            logits_RV = logits_RV[rows_R]
            step.reorder(rows_R)
        forced_R = forced_RP[:, said] if said < forced_RP.shape[1] else None
        own_RV, ruled_RV = weigh(logits_RV, seen_RL, rules, forced_R)
        tokens_R1 = choose(ruled_RV, writes)[:, None]
        own_R, ruled_R = (x_RV.gather(1, tokens_R1)[:, 0].tolist() for x_RV in (own_RV, ruled_RV))
        for draft, token, own, ruled in zip(writes, tokens_R1[:, 0].tolist(), own_R, ruled_R, strict=True):
            if drafts[draft].goes_on:
                drafts[draft].add(token, own, ruled, opening.end)
        said += 1
        new_RL, seen_RL = tokens_R1, torch.cat((seen_RL, tokens_R1), dim=1)
        stay = [row for row, draft in enumerate(writes) if drafts[draft].goes_on]
        if 0 < len(stay) < len(writes) and isinstance(step, Step):
            writes = [writes[row] for row in stay]
            rows_R = torch.tensor(stay, device=new_RL.device)
            step.reorder(rows_R)
            new_RL, seen_RL, forced_RP = new_RL[rows_R], seen_RL[rows_R], forced_RP[rows_R]
    return [Hypothesis.of(draft.said, draft.own, draft.total, settings, opening.end) for draft in drafts]
