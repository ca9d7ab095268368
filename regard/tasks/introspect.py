"""A look inside a translation: a second pass over its tokens, with every step of it written down.

N layers  H heads  T target tokens  S source tokens  L length  V vocabulary
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.blocks.trace import Trace
from regard.decoding import align
from regard.models.seq2seq import Seq2Seq
from regard.text.tokenizer import Tokenizer
from regard.text.word_ids import word_numbers


@torch.inference_mode()
def trace(network: Seq2Seq, source: Sequence[int], target: Sequence[int]) -> Trace:
    seen = Trace()
    source_1S, target_1L = _rows(network, source, target)
    seen.note("source_ids", source_1S)
    seen.note("target_ids", target_1L)
    network(source_1S, target_1L, trace=seen)
    return seen


@torch.inference_mode()
def logits(network: Seq2Seq, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """Of the token after each of the target. -> (L, V)"""
    logits_1LV: Tensor = network(*_rows(network, source, target))
    return logits_1LV[0]


def _rows(network: Seq2Seq, *rows: Sequence[int]) -> list[Tensor]:
    device = next(network.parameters()).device
    return [torch.tensor([row], device=device) for row in rows]


@torch.inference_mode()
def attention_of_words(seen: Trace, tokenizer: Tokenizer, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """How much each word of the target looks at each word of the source (target words, source words)."""
    weights = [seen[name][0] for name in seen if name.endswith(".cross.weights")]
    special = {tokenizer.pad, tokenizer.start, tokenizer.end, *(i for i in source[:1] if _is_tag(tokenizer, i))}
    source_words = word_numbers(tokenizer.pieces(source), source, special)
    target_words = word_numbers(tokenizer.pieces_target(target), target, special)
    when, layer = align.usual(len(weights))
    return align.of_words(align.soft(torch.stack(weights), when=when, layer=layer), source_words, target_words)


def _is_tag(tokenizer: Tokenizer, token: int) -> bool:
    (piece,) = tokenizer.pieces([token])
    return piece.startswith(">>") and piece.endswith("<<")
