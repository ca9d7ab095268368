"""Attention masks. The only file that makes them, and they have one meaning:

    may_attend: bool, True = this query may attend to this key, everywhere, always.

Shapes broadcast to (B batch, H heads, Q queries, S keys). `None` means that every query may attend to every key.
"""

import torch
from torch import Tensor


def everyone_present(ids_BL: Tensor) -> Tensor:
    """No padding anywhere. -> (B, L)"""
    return torch.ones_like(ids_BL, dtype=torch.bool)


def padding(present_BS: Tensor) -> Tensor | None:
    """No query attends to padding: `present` is True where a key is a real token. -> (B, 1, 1, S)

    None if nothing is padded, which is usual: attention without a mask is fastest.
    """
    return None if bool(present_BS.all()) else present_BS[:, None, None, :]


def look_ahead(queries: int, keys: int | None = None, *, device: torch.device | None = None) -> Tensor:
    """The causal mask: no query attends to a later key. -> (1, 1, Q, S)

    With a cache there are more keys than queries: the queries are the *last* positions, so the last query sees every
    key and the triangle is at the lower right.
    """
    keys = queries if keys is None else keys
    visible_QS = torch.ones(queries, keys, dtype=torch.bool, device=device)
    return visible_QS.tril(keys - queries)[None, None]


def combine(*masks: Tensor | None) -> Tensor | None:
    """A query may attend only where every mask allows it."""
    result: Tensor | None = None
    for mask in masks:
        if mask is not None:
            result = mask if result is None else result & mask
    return result


def positions(present_BL: Tensor) -> Tensor:
    """The position of each real token, from 0; padding on either side is not counted."""
    return (present_BL.long().cumsum(-1) - 1).clamp(min=0)
