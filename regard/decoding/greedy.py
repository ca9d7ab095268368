"""Greedy search: always the likeliest next token. The simplest loop there is.

B batch  L length of what is read first  V vocabulary
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Step = Callable[[Tensor], Tensor]
"""New tokens (B, L) -> logits of the one after the last (B, V). What came before is the step's to remember."""


def greedy(
    step: Step, first_BL: Tensor, *, max_new: int, end: Sequence[int] = (), never: Sequence[int] = ()
) -> list[list[int]]:
    """What each row goes on to say after `first`, without its end token, at most `max_new` tokens."""
    said: list[list[int]] = [[] for _ in first_BL]
    talking = set(range(len(said)))
    ids_BL = first_BL
    for _ in range(max_new):
        logits_BV = step(ids_BL)
        if never:
            logits_BV = logits_BV.index_fill(1, torch.tensor(never, device=logits_BV.device), -torch.inf)
        best_B = logits_BV.argmax(-1)
        for row, token in enumerate(best_B.tolist()):
            if row in talking and token in end:
                talking.remove(row)
            elif row in talking:
                said[row].append(token)
        if not talking:
            break
        ids_BL = best_B[:, None]
    return said
