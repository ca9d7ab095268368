"""One row per text, one token per step: the loop that greedy search and sampling share.

B texts  R rows  P longest prefix  V vocabulary
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.rules import Rule, rules_for
from regard.decoding.search_protocol import Prompts, SearchLoop, StepRequest
from regard.decoding.settings import SearchSettings
from regard.decoding.topk import NextTokenScores

Choose = Callable[[NextTokenScores, Sequence[int]], Tensor]
"""(scores of every next token, which draft each row writes) -> one token per row (R)."""


@dataclass
class Draft:
    """A text that is being written."""

    limit: int
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    total: float = 0.0
    active: bool = True

    def add(self, token: int, log_prob: float, ruled_log_prob: float, end: Sequence[int]) -> None:
        if ruled_log_prob == -torch.inf:  # the rules allow no token: the text stops here
            self.active = False
            return
        self.tokens.append(token)
        self.log_probs.append(log_prob)
        self.total += ruled_log_prob
        self.active = token not in end and len(self.tokens) < self.limit


def token_loop(
    prompts: Prompts,
    settings: SearchSettings,
    choose: Choose,
    *,
    rules: Sequence[Rule] | None = None,
    copies: int = 1,
    shrink: bool = True,
) -> SearchLoop:
    """Continue each prompt, `copies` times, with the tokens that `choose` picks.

    Finished rows leave the batch; without `shrink` they stay in it and are ignored.
    """
    rules = rules_for(settings, prompts) if rules is None else rules
    drafts = [Draft(limit, active=limit > 0) for limit in prompts.limits(settings) for _ in range(copies)]
    writes = list(range(len(drafts)))  # the draft of each row
    seen_RL, forced_RP = (x.repeat_interleave(copies, 0) for x in (prompts.seen_BL, prompts.forced_BP))
    copied_R = torch.arange(len(prompts.ids_BL), device=seen_RL.device).repeat_interleave(copies)
    request = StepRequest(prompts.ids_BL)
    steps = 0
    while any(draft.active for draft in drafts):
        logits_RV = yield request
        if steps == 0 and copies > 1:
            logits_RV = logits_RV[copied_R]
        forced_R = forced_RP[:, steps] if steps < forced_RP.shape[1] else None
        scores = NextTokenScores(logits_RV, seen_RL, rules, forced_R, count=1, topk=prompts.topk)
        tokens_R = choose(scores, writes)
        all_R = torch.arange(len(writes), device=tokens_R.device)
        log_probs, ruled = scores.log_probs(all_R, tokens_R), scores.ruled_log_probs(all_R, tokens_R)
        columns = (tokens_R.tolist(), log_probs.tolist(), ruled.tolist())
        for draft, token, log_prob, ruled_log_prob in zip(writes, *columns, strict=True):
            if drafts[draft].active:
                drafts[draft].add(token, log_prob, ruled_log_prob, prompts.end)
        rows_R = copied_R if steps == 0 and copies > 1 else None
        steps += 1
        seen_RL = torch.cat((seen_RL, tokens_R[:, None]), dim=1)
        stay = [row for row, draft in enumerate(writes) if drafts[draft].active]
        if shrink and 0 < len(stay) < len(writes):
            writes = [writes[row] for row in stay]
            stay_R = torch.tensor(stay, device=tokens_R.device)
            rows_R = stay_R if rows_R is None else rows_R[stay_R]
            tokens_R, seen_RL, forced_RP = tokens_R[stay_R], seen_RL[stay_R], forced_RP[stay_R]
        request = StepRequest(tokens_R[:, None], rows_R, writes if copies == 1 else None)
    finished = [Hypothesis.of(draft.tokens, draft.log_probs, draft.total, settings, prompts.end) for draft in drafts]
    return [finished[i : i + copies] for i in range(0, len(finished), copies)]
