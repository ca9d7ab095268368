"""Greedy search: always the likeliest next token, the first of equals."""

from collections.abc import Sequence

from torch import Tensor

from regard.decoding.rules import Rule
from regard.decoding.search_protocol import NextToken, Prompts, SearchLoop, Step, run_search
from regard.decoding.settings import SearchSettings
from regard.decoding.token_loop import token_loop
from regard.decoding.topk import NextTokenScores


def greedy(
    step: NextToken | Step,
    ids_BL: Tensor,
    *,
    max_tokens: int,
    end: Sequence[int] = (),
    suppressed: Sequence[int] = (),
) -> list[list[int]]:
    """The continuation of each row, without its end token, of at most `max_tokens` tokens."""
    prompts = Prompts(ids_BL=ids_BL, max_tokens=max_tokens, end=end, suppressed=suppressed)
    loop = greedy_loop(prompts, SearchSettings(), shrink=isinstance(step, Step))
    return [hypothesis.tokens for (hypothesis,) in run_search(loop, step)]


def greedy_loop(
    prompts: Prompts, settings: SearchSettings, *, rules: Sequence[Rule] | None = None, shrink: bool = True
) -> SearchLoop:
    return token_loop(prompts, settings, likeliest, rules=rules, shrink=shrink)


def likeliest(scores: NextTokenScores, writes: Sequence[int]) -> Tensor:
    return scores.best(1)[1][:, 0]
