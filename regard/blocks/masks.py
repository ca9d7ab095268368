"""Who may look at whom. The only file that makes masks, and they have one meaning:

    may_attend: bool, True = this query may look at this key, everywhere, always.

Shapes broadcast to (B batch, H heads, Q queries, S keys). `None` means that everyone may look everywhere.
"""

import torch
from torch import Tensor


def everyone_present(ids_BL: Tensor) -> Tensor:
    """No padding anywhere. -> (B, L)"""
    return torch.ones_like(ids_BL, dtype=torch.bool)


def padding(present_BS: Tensor) -> Tensor | None:
    """Nobody looks at padding: `present` is True where a key is a real token. -> (B, 1, 1, S)

    Where nothing is padded, which is usual, there is no mask: that is the fastest one.
    """
    return None if bool(present_BS.all()) else present_BS[:, None, None, :]


def look_ahead(queries: int, keys: int | None = None, *, device: torch.device | None = None) -> Tensor:
    """Nobody looks at what comes later. -> (1, 1, Q, S)

    With a cache there are more keys than queries: the queries are the *last* ones, so the last query sees
    every key and the triangle sits at the lower right.
    """
    keys = queries if keys is None else keys
    visible_QS = torch.ones(queries, keys, dtype=torch.bool, device=device)
    return visible_QS.tril(keys - queries)[None, None]


def packed(document_BL: Tensor) -> Tensor:
    """Several documents in one row, numbered: nobody looks into another document. -> (B, 1, L, L)"""
    return (document_BL[:, :, None] == document_BL[:, None, :])[:, None]


def combine(*masks: Tensor | None) -> Tensor | None:
    """A query may look only where every mask lets it."""
    result: Tensor | None = None
    for mask in masks:
        if mask is not None:
            result = mask if result is None else result & mask
    return result


def positions(present_BL: Tensor) -> Tensor:
    """Where each real token stands, counted from 0 and not counting padding, on whichever side it is."""
    return (present_BL.long().cumsum(-1) - 1).clamp(min=0)
