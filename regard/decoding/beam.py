"""Beam search: several hypotheses per text, the best of them kept, in a batch.

The plain reference: the native search must find the same tokens. Each step, of all continuations of a text's rows,

    1. those among the best `beam` that end are finished, and the best `n_best` of the finished are kept;
    2. the best `beam` of those that do not end continue.

A text is done when no active row can still beat the worst hypothesis it keeps. A sum of log-probabilities only falls,
and the length penalty is monotone in the length, so a row's best possible score is its present sum at the next length
or at the greatest: this is a bound, not a guess, and continuing would not change the result. Of equals, the one of the
better row comes first, then that of the lower token.

S active texts  R rows, the same number for each text  N one text's continuations: rows x vocabulary
C the best of them  K those that continue  L prompt and generated  T generated  P longest prefix  V vocabulary
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.rules import Rule, rules_for
from regard.decoding.search_protocol import Prompts, SearchLoop, Step, StepRequest, run_search
from regard.decoding.settings import SearchSettings
from regard.decoding.topk import NextTokenScores, best


@dataclass
class BeamText:
    """The finished hypotheses that a text keeps, best first, and when they are enough."""

    settings: SearchSettings
    limit: int
    kept: list[Hypothesis] = field(default_factory=list)
    finished: int = 0

    def add(self, hypothesis: Hypothesis) -> None:
        self.finished += 1
        if all(hypothesis.tokens != other.tokens for other in self.kept):  # two end tokens can end one text
            self.kept.append(hypothesis)
            self.kept.sort(key=lambda kept: -kept.score)
            del self.kept[self.settings.n_best :]

    def is_done(self, length: int, best: float) -> bool:
        """After `length` tokens, when the best active row has the sum `best`."""
        s = self.settings
        if length >= self.limit or best == -torch.inf:
            return True
        if self.finished >= s.enough:
            return True
        bound = max(s.score(best, length + 1), s.score(best, self.limit))
        return len(self.kept) == s.n_best and bound <= self.kept[-1].score


@dataclass
class BeamRows:
    """The active rows."""

    seen_RL: Tensor
    forced_RP: Tensor
    sums_R: Tensor
    log_probs_RT: Tensor

    def forced_at(self, index: int) -> Tensor | None:
        return self.forced_RP[:, index] if index < self.forced_RP.shape[1] else None

    def generated(self, row: int, prompt: int) -> tuple[list[int], list[float]]:
        """A row's tokens after the prompt, and the model's log-probabilities of them."""
        return self.seen_RL[row, prompt:].tolist(), self.log_probs_RT[row].tolist()

    def extended(self, rows_R: Tensor, tokens_R: Tensor, log_probs_R: Tensor, sums_R: Tensor) -> "BeamRows":
        return BeamRows(
            seen_RL=torch.cat((self.seen_RL[rows_R], tokens_R[:, None]), dim=1),
            forced_RP=self.forced_RP[rows_R],
            sums_R=sums_R,
            log_probs_RT=torch.cat((self.log_probs_RT[rows_R], log_probs_R[:, None]), dim=1),
        )


def beam(
    step: Step, prompts: Prompts, settings: SearchSettings, *, rules: Sequence[Rule] | None = None
) -> list[list[Hypothesis]]:
    """Each text's `n_best` hypotheses, best first; fewer where there are no more. Rules may only lower logits."""
    return run_search(beam_loop(prompts, settings, rules=rules), step)


def beam_loop(prompts: Prompts, settings: SearchSettings, *, rules: Sequence[Rule] | None = None) -> SearchLoop:
    rules = rules_for(settings, prompts) if rules is None else rules
    device, prompt, end = prompts.ids_BL.device, prompts.length, prompts.end
    ends = torch.tensor(end, dtype=torch.long, device=device)
    texts = [BeamText(settings, limit) for limit in prompts.limits(settings)]
    count = settings.beam * (1 + len(end))  # each row has len(end) ends, so `beam` of these continue
    active, length, request = texts, 0, StepRequest(prompts.ids_BL)
    empty = torch.zeros(len(texts), 0, device=device)
    rows = BeamRows(prompts.seen_BL, prompts.forced_BP, empty.sum(1), empty)
    while any(length < text.limit for text in active):
        logits_RV = yield request
        scores = NextTokenScores(logits_RV, rows.seen_RL, rules, rows.forced_at(length), count=count, topk=prompts.topk)
        length += 1
        sums_SC, rows_SC, tokens_SC = continuations(scores, rows.sums_R, len(active), count)
        log_probs_SC = scores.log_probs(rows_SC, tokens_SC)
        ended_SC = torch.isin(tokens_SC, ends)

        # 1. what is finished
        at_limit_S = torch.tensor([text.limit == length for text in active], device=device)
        finished_SC = (ended_SC | at_limit_S[:, None]) & (sums_SC > -torch.inf)
        for s, c in finished_SC[:, : settings.beam].nonzero().tolist():
            row, token, log_prob, total = (x[s, c].item() for x in (rows_SC, tokens_SC, log_probs_SC, sums_SC))
            tokens, log_probs = rows.generated(int(row), prompt)
            active[s].add(Hypothesis.of([*tokens, int(token)], [*log_probs, log_prob], total, settings, end))
        for s in (sums_SC[:, 0] == -torch.inf).nonzero()[:, 0].tolist():
            if not active[s].kept:  # the rules allow no token: keep the best row as far as it came
                row = s * (scores.rows // len(active))
                active[s].add(Hypothesis.of(*rows.generated(row, prompt), rows.sums_R[row].item(), settings, end))

        # 2. what continues
        order_SK = ended_SC.byte().sort(dim=1, stable=True).indices[:, : settings.beam]
        sums_SK = sums_SC.masked_fill(ended_SC, -torch.inf).gather(1, order_SK)
        stay = [s for s, top in enumerate(sums_SK[:, 0].tolist()) if not active[s].is_done(length, top)]
        active = [active[s] for s in stay]
        rows_R, tokens_R, log_probs_R = (
            x.gather(1, order_SK)[stay].flatten() for x in (rows_SC, tokens_SC, log_probs_SC)
        )
        rows = rows.extended(rows_R, tokens_R, log_probs_R, sums_SK[stay].flatten())
        request = StepRequest(tokens_R[:, None], rows_R)
    nothing = Hypothesis.of([], [], 0.0, settings, end)
    return [text.kept if text.limit else [nothing] for text in texts]


def continuations(scores: NextTokenScores, sums_R: Tensor, texts: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` best continuations of each text, best first: their sums, rows and tokens. -> 3 x (S, C)"""
    values_RC, tokens_RC = scores.best(count)  # no row can contribute more than all of them
    sums_SN = (sums_R[:, None] + values_RC).view(texts, -1)
    sums_SC, indices_SC = best(sums_SN, count)
    width = scores.rows // texts
    rows_SC = indices_SC // tokens_RC.shape[1] + torch.arange(0, scores.rows, width, device=sums_R.device)[:, None]
    return sums_SC, rows_SC, tokens_RC.view(texts, -1).gather(1, indices_SC)
