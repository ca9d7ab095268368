"""Greedy search: always the likeliest next token, the first of equals.

B sentences  R rows  L length of what is read first  V vocabulary
"""

from collections.abc import Sequence

from torch import Tensor

from regard.decoding.follow import follow
from regard.decoding.interface import NextToken, Opening
from regard.decoding.settings import Search


def greedy(
    step: NextToken, first_BL: Tensor, *, max_new: int, end: Sequence[int] = (), never: Sequence[int] = ()
) -> list[list[int]]:
    """What each row goes on to say after `first`, without its end token, at most `max_new` tokens."""
    opening = Opening(first_BL=first_BL, room=max_new, end=end, never=never)
    return [hypothesis.tokens for hypothesis in follow(step, opening, Search(), likeliest)]


def likeliest(ruled_RV: Tensor, writes: Sequence[int]) -> Tensor:
    return ruled_RV.argmax(-1)
