"""Greedy search: always the likeliest next token, the first of equals.

B sentences  R rows  L length of what is read first  V vocabulary
"""

from collections.abc import Sequence

from torch import Tensor

from regard.decoding.request import Asking, NextToken, Opening, Step, answered
from regard.decoding.rules import Rule
from regard.decoding.settings import Search
from regard.decoding.token_loop import follow
from regard.decoding.topk import Weighed


def greedy(
    step: NextToken | Step, first_BL: Tensor, *, max_new: int, end: Sequence[int] = (), never: Sequence[int] = ()
) -> list[list[int]]:
    """What each row goes on to say after `first`, without its end token, at most `max_new` tokens."""
    opening = Opening(first_BL=first_BL, room=max_new, end=end, never=never)
    asking = greedy_asking(opening, Search(), shrink=isinstance(step, Step))
    return [found.tokens for (found,) in answered(asking, step)]


def greedy_asking(
    opening: Opening, settings: Search, *, rules: Sequence[Rule] | None = None, shrink: bool = True
) -> Asking:
    return follow(opening, settings, likeliest, rules=rules, shrink=shrink)


def likeliest(weighed: Weighed, writes: Sequence[int]) -> Tensor:
    return weighed.best(1)[1][:, 0]
