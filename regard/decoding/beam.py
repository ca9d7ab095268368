"""Beam search: several hypotheses a sentence, the best of them kept, in a batch.

The plain reference: faster engines are held to its tokens. Each step, of all continuations of a sentence's rows,

    1. those among the best `beam` that end are finished, and the best `n_best` of the finished are kept;
    2. the best `beam` of those that do not end go on.

A sentence is done when no row of it can still come before the worst that it keeps. A sum of log-probabilities only
falls, and the length penalty is monotone in the length, so a row's best end is its present sum at the next length or
at the greatest: this is a bound, not a guess, and going on would not change the result. Of equals, the one of the
better row comes first, then that of the lower token.

S sentences that go on  R rows, the same number for each sentence  N one sentence's continuations: rows x vocabulary
C the best of them  K those that go on  L read and said  T said  P longest prefix  V vocabulary
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.request import Prompts, SearchLoop, Step, StepRequest, run_search
from regard.decoding.rules import Rule, rules_for
from regard.decoding.settings import SearchSettings
from regard.decoding.topk import NextTokenScores, best


@dataclass
class Sentence:
    """What is kept of a sentence, best first, and when that is enough."""

    settings: SearchSettings
    limit: int
    kept: list[Hypothesis] = field(default_factory=list)
    finished: int = 0

    def keep(self, hypothesis: Hypothesis) -> None:
        self.finished += 1
        if all(hypothesis.tokens != other.tokens for other in self.kept):  # two end tokens can end one text
            self.kept.append(hypothesis)
            self.kept.sort(key=lambda kept: -kept.score)
            del self.kept[self.settings.n_best :]

    def is_done(self, said: int, best: float) -> bool:
        """After `said` tokens, when the best row that goes on has the sum `best`."""
        s = self.settings
        if said >= self.limit or best == -torch.inf:
            return True
        if self.finished >= s.enough:
            return True
        within_reach = max(s.score(best, said + 1), s.score(best, self.limit))
        return len(self.kept) == s.n_best and within_reach <= self.kept[-1].score


@dataclass
class Rows:
    """What is known of each row that goes on."""

    seen_RL: Tensor
    forced_RP: Tensor
    sums_R: Tensor
    own_RT: Tensor

    def forced_at(self, place: int) -> Tensor | None:
        return self.forced_RP[:, place] if place < self.forced_RP.shape[1] else None

    def text(self, row: int, read: int) -> tuple[list[int], list[float]]:
        """What a row said, and the model's log-probabilities of it."""
        return self.seen_RL[row, read:].tolist(), self.own_RT[row].tolist()

    def extended(self, rows_R: Tensor, tokens_R: Tensor, own_R: Tensor, sums_R: Tensor) -> "Rows":
        return Rows(
            seen_RL=torch.cat((self.seen_RL[rows_R], tokens_R[:, None]), dim=1),
            forced_RP=self.forced_RP[rows_R],
            sums_R=sums_R,
            own_RT=torch.cat((self.own_RT[rows_R], own_R[:, None]), dim=1),
        )


def beam(
    step: Step, opening: Prompts, settings: SearchSettings, *, rules: Sequence[Rule] | None = None
) -> list[list[Hypothesis]]:
    """Each sentence's `n_best` hypotheses, best first; fewer where there are no more. Rules may only lower."""
    return run_search(beam_loop(opening, settings, rules=rules), step)


def beam_loop(opening: Prompts, settings: SearchSettings, *, rules: Sequence[Rule] | None = None) -> SearchLoop:
    rules = rules_for(settings, opening) if rules is None else rules
    device, read, end = opening.first_BL.device, opening.read, opening.end
    ends = torch.tensor(end, dtype=torch.long, device=device)
    sentences = [Sentence(settings, limit) for limit in opening.limits(settings)]
    wanted = settings.beam * (1 + len(end))  # each row has len(end) ends, so `beam` of so many go on
    going, said, ask = sentences, 0, StepRequest(opening.first_BL)
    nothing = torch.zeros(len(sentences), 0, device=device)
    rows = Rows(opening.seen_BL, opening.forced_BP, nothing.sum(1), nothing)
    while any(said < sentence.limit for sentence in going):
        weighed = NextTokenScores((yield ask), rows.seen_RL, rules, rows.forced_at(said), wanted=wanted)
        said += 1
        sums_SC, rows_SC, tokens_SC = continuations(weighed, rows.sums_R, len(going), wanted)
        own_SC = weighed.own(rows_SC, tokens_SC)
        ended_SC = torch.isin(tokens_SC, ends)

        # 1. what is finished
        at_limit_S = torch.tensor([sentence.limit == said for sentence in going], device=device)
        finished_SC = (ended_SC | at_limit_S[:, None]) & (sums_SC > -torch.inf)
        for s, c in finished_SC[:, : settings.beam].nonzero().tolist():
            row, token, own, total = (x_SC[s, c].item() for x_SC in (rows_SC, tokens_SC, own_SC, sums_SC))
            said_before, own_before = rows.text(int(row), read)
            going[s].keep(Hypothesis.of([*said_before, int(token)], [*own_before, own], total, settings, end))
        for s in (sums_SC[:, 0] == -torch.inf).nonzero()[:, 0].tolist():
            if not going[s].kept:  # nothing may be said: its best row, as far as that came
                row = s * (weighed.rows // len(going))
                going[s].keep(Hypothesis.of(*rows.text(row, read), rows.sums_R[row].item(), settings, end))

        # 2. what goes on
        order_SK = ended_SC.byte().sort(dim=1, stable=True).indices[:, : settings.beam]
        sums_SK = sums_SC.masked_fill(ended_SC, -torch.inf).gather(1, order_SK)
        stay = [s for s, most in enumerate(sums_SK[:, 0].tolist()) if not going[s].is_done(said, most)]
        going = [going[s] for s in stay]
        rows_R, tokens_R, own_R = (x.gather(1, order_SK)[stay].flatten() for x in (rows_SC, tokens_SC, own_SC))
        rows = rows.extended(rows_R, tokens_R, own_R, sums_SK[stay].flatten())
        ask = StepRequest(tokens_R[:, None], rows_R)
    nothing_said = Hypothesis.of([], [], 0.0, settings, end)
    return [sentence.kept if sentence.limit else [nothing_said] for sentence in sentences]


def continuations(
    weighed: NextTokenScores, sums_R: Tensor, sentences: int, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` best continuations of each sentence, best first: their sums, rows and tokens. -> 3 x (S, C)"""
    values_RC, tokens_RC = weighed.best(count)  # no row can have more than all of them
    sums_SN = (sums_R[:, None] + values_RC).view(sentences, -1)
    sums_SC, places_SC = best(sums_SN, count)
    width = weighed.rows // sentences
    rows_SC = places_SC // tokens_RC.shape[1] + torch.arange(0, weighed.rows, width, device=sums_R.device)[:, None]
    return sums_SC, rows_SC, tokens_RC.view(sentences, -1).gather(1, places_SC)
