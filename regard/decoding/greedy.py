"""Greedy search: always the likeliest next token, the first of equals.

B sentences  R rows  L length of what is read first  V vocabulary
"""

from collections.abc import Sequence

from torch import Tensor

from regard.decoding.request import NextToken, Prompts, SearchLoop, Step, run_search
from regard.decoding.rules import Rule
from regard.decoding.settings import SearchSettings
from regard.decoding.token_loop import follow
from regard.decoding.topk import NextTokenScores


def greedy(
    step: NextToken | Step, first_BL: Tensor, *, max_new: int, end: Sequence[int] = (), never: Sequence[int] = ()
) -> list[list[int]]:
    """What each row goes on to say after `first`, without its end token, at most `max_new` tokens."""
    opening = Prompts(first_BL=first_BL, room=max_new, end=end, never=never)
    search_loop = greedy_loop(opening, SearchSettings(), shrink=isinstance(step, Step))
    return [found.tokens for (found,) in run_search(search_loop, step)]


def greedy_loop(
    opening: Prompts, settings: SearchSettings, *, rules: Sequence[Rule] | None = None, shrink: bool = True
) -> SearchLoop:
    return follow(opening, settings, likeliest, rules=rules, shrink=shrink)


def likeliest(weighed: NextTokenScores, writes: Sequence[int]) -> Tensor:
    return weighed.best(1)[1][:, 0]
