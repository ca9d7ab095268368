"""One row a sentence, one token a step: the loop that greedy search and sampling share.

B sentences  R rows  L length of what is new  P longest prefix  V vocabulary
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.request import Prompts, SearchLoop, StepRequest
from regard.decoding.rules import Rule, rules_for
from regard.decoding.settings import SearchSettings
from regard.decoding.topk import NextTokenScores

Choose = Callable[[NextTokenScores, Sequence[int]], Tensor]
"""(every next token, which text each row writes) -> one token a row (R)."""


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
    opening: Prompts,
    settings: SearchSettings,
    choose: Choose,
    *,
    rules: Sequence[Rule] | None = None,
    copies: int = 1,
    shrink: bool = True,
) -> SearchLoop:
    """What each sentence goes on to say, `copies` times, as `choose` chooses.

    Rows that are done leave the batch; without `shrink` they are only not listened to any more.
    """
    rules = rules_for(settings, opening) if rules is None else rules
    drafts = [Draft(limit, goes_on=limit > 0) for limit in opening.limits(settings) for _ in range(copies)]
    writes = list(range(len(drafts)))  # the draft of each row
    seen_RL, forced_RP = (x.repeat_interleave(copies, 0) for x in (opening.seen_BL, opening.forced_BP))
    copied_R = torch.arange(len(opening.first_BL), device=seen_RL.device).repeat_interleave(copies)
    ask = StepRequest(opening.first_BL)
    said = 0
    while any(draft.goes_on for draft in drafts):
        logits_RV = yield ask
        if said == 0 and copies > 1:
            logits_RV = logits_RV[copied_R]
        forced_R = forced_RP[:, said] if said < forced_RP.shape[1] else None
        weighed = NextTokenScores(logits_RV, seen_RL, rules, forced_R, wanted=1)
        tokens_R = choose(weighed, writes)
        all_R = torch.arange(len(writes), device=tokens_R.device)
        own, ruled = weighed.own(all_R, tokens_R).tolist(), weighed.ruled(all_R, tokens_R).tolist()
        for draft, token, one_own, one_ruled in zip(writes, tokens_R.tolist(), own, ruled, strict=True):
            if drafts[draft].goes_on:
                drafts[draft].add(token, one_own, one_ruled, opening.end)
        rows_R = copied_R if said == 0 and copies > 1 else None
        said += 1
        seen_RL = torch.cat((seen_RL, tokens_R[:, None]), dim=1)
        stay = [row for row, draft in enumerate(writes) if drafts[draft].goes_on]
        if shrink and 0 < len(stay) < len(writes):
            writes = [writes[row] for row in stay]
            stay_R = torch.tensor(stay, device=tokens_R.device)
            rows_R = stay_R if rows_R is None else rows_R[stay_R]
            tokens_R, seen_RL, forced_RP = tokens_R[stay_R], seen_RL[stay_R], forced_RP[stay_R]
        ask = StepRequest(tokens_R[:, None], rows_R)
    said_by = [Hypothesis.of(draft.said, draft.own, draft.total, settings, opening.end) for draft in drafts]
    return [said_by[i : i + copies] for i in range(0, len(said_by), copies)]
