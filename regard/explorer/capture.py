"""One forward pass of a model, stage by stage, as plain values: for the terminal and for JSON.

All values come from a `Trace` of the forward pass that the model runs for its answers.

L length  D width  H heads  Q queries  S keys
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from regard.blocks.trace import Trace
from regard.tasks import TranslationModel
from regard.tasks.base import Model

LINKS_PER_TOKEN = 5
"""Keys kept per query and head: those with the largest weights."""
PATTERN_SHARE = 0.5
"""A head has a pattern if at least this share of its attention follows it."""


@dataclass(frozen=True)
class TokenView:
    """A text as tokens."""

    side: str
    pieces: list[str]
    ids: list[int]
    special: list[bool]
    """True for start, end and separator tokens."""


@dataclass(frozen=True)
class EmbeddingView:
    """Norms per token: of its embedding, of its position, and of the input of the first block."""

    side: str
    token_norms: list[float]
    position_norms: list[float] | None
    output_norms: list[float]


@dataclass(frozen=True)
class AttentionLink:
    """One query token's attention to one key token."""

    query: int
    key: int
    weight: float


@dataclass(frozen=True)
class HeadView:
    """The strongest links of each query token, and the head's pattern, if it has one."""

    links: list[list[AttentionLink]]
    pattern: str | None
    share: float
    """The share of the head's attention that follows the pattern."""


@dataclass(frozen=True)
class BlockView:
    """The attention of one block, and the norms of its residual stream."""

    stack: str
    index: int
    attention: list[HeadView]
    cross: list[HeadView] | None
    norms: dict[str, list[float]]
    """Norm of each token's residual vector, after each part."""


@dataclass(frozen=True)
class TokenPrediction:
    token: str
    id: int
    probability: float


@dataclass(frozen=True)
class TraceView:
    """A whole forward pass, in the order of computation."""

    text: str
    family: str
    tokens: list[TokenView]
    embeddings: list[EmbeddingView]
    blocks: list[BlockView]
    next: list[list[TokenPrediction]] = field(default_factory=list)
    """The likeliest tokens at each position of the last text; empty for a model without a vocabulary head."""
    labels: dict[str, float] = field(default_factory=dict)


def capture(model: Model, text: str, target: str | None = None, *, to: str | None = None, top: int = 5) -> TraceView:
    """Run the model on a text and record every stage. `to` is the target language, for a model with several."""
    trace = model.trace(text, target, to) if isinstance(model, TranslationModel) else model.trace(text, target)
    sides = _sides(model, trace)
    return TraceView(
        text=text,
        family=model.family,
        tokens=[tokens for tokens, _, _ in sides],
        embeddings=[_embedding(trace.inside(embedding), tokens.side) for tokens, embedding, _ in sides],
        blocks=[block for _, _, stack in sides for block in _blocks(trace, stack)],
        next=_predictions(model, trace, top),
        labels=_labels(model, trace),
    )


def _sides(model: Model, trace: Trace) -> list[tuple[TokenView, str, str]]:
    """Each input text, with the names of its embedding and of its stack."""
    if isinstance(model, TranslationModel):
        source, target = trace["source_ids"][0].tolist(), trace["target_ids"][0].tolist()
        source_view = TokenView("source", model.tokenizer.pieces(source), source, _special(model, source))
        target_view = TokenView("target", model.tokenizer.pieces_target(target), target, _special(model, target))
        return [(source_view, "source", "encoder"), (target_view, "target", "decoder")]
    ids = trace["ids"][0].tolist()
    return [(TokenView("text", model.tokenizer.pieces(ids), ids, _special(model, ids)), "embedding", "stack")]


def _special(model: Model, ids: list[int]) -> list[bool]:
    known = {model.tokenizer.start, model.tokenizer.end, model.tokenizer.pad, model.generation.start}
    return [token in known for token in ids]


def _embedding(trace: Trace, side: str) -> EmbeddingView:
    return EmbeddingView(
        side,
        _norms(trace["tokens"]),
        _norms(trace["positions"]) if "positions" in trace else None,
        _norms(trace["output"]),
    )


def _blocks(trace: Trace, stack: str) -> list[BlockView]:
    views: list[BlockView] = []
    while f"{stack}.blocks.{len(views)}.attention.weights" in trace:
        block = trace.inside(f"{stack}.blocks.{len(views)}")
        parts = [part for part in ("after_attention", "after_cross", "after_feedforward") if part in block]
        views.append(
            BlockView(
                stack=stack,
                index=len(views),
                attention=_heads(block["attention.weights"][0], self_attention=True),
                cross=_heads(block["cross.weights"][0]) if "cross.weights" in block else None,
                norms={part: _norms(block[part]) for part in parts},
            )
        )
    return views


def _heads(weights_HQS: Tensor, *, self_attention: bool = False) -> list[HeadView]:
    return [_head(weights_QS, self_attention) for weights_QS in weights_HQS]


def _head(weights_QS: Tensor, self_attention: bool) -> HeadView:
    best = weights_QS.topk(min(LINKS_PER_TOKEN, weights_QS.shape[1]))
    links = [
        [AttentionLink(query, key, weight) for key, weight in zip(keys, values, strict=True)]
        for query, (keys, values) in enumerate(zip(best.indices.tolist(), best.values.tolist(), strict=True))
    ]
    pattern, share = _pattern(weights_QS) if self_attention else (None, 0.0)
    return HeadView(links, pattern, share)


def _pattern(weights_QS: Tensor) -> tuple[str | None, float]:
    """The known attention pattern that takes most of the weight, and its share."""
    queries = weights_QS.shape[0]
    shares = {
        "the first token": weights_QS[:, 0].sum() / queries,
        "the last token": weights_QS[:, -1].sum() / queries,
        "itself": weights_QS.diagonal().sum() / queries,
        "the previous token": weights_QS.diagonal(-1).sum() / max(queries - 1, 1),
        "the next token": weights_QS.diagonal(1).sum() / max(queries - 1, 1),
    }
    pattern, share = max(((name, float(share)) for name, share in shares.items()), key=lambda pair: pair[1])
    return (pattern, share) if share >= PATTERN_SHARE else (None, share)


def _predictions(model: Model, trace: Trace, top: int) -> list[list[TokenPrediction]]:
    """The likeliest tokens after each position (or at it, for a masked LM)."""
    if "logits" not in trace or trace["logits"].dim() != 3:
        return []
    best = trace["logits"][0].softmax(-1).topk(min(top, trace["logits"].shape[-1]))
    return [
        [
            TokenPrediction(piece, token, probability)
            for piece, token, probability in zip(
                model.tokenizer.pieces_target(_known(ids, model)), ids, probabilities, strict=True
            )
        ]
        for ids, probabilities in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def _known(ids: Sequence[int], model: Model) -> list[int]:
    """Ids beyond the tokenizer's vocabulary, which a padded model has, become the unknown token."""
    unknown = model.tokenizer.unknown or 0
    return [token if token < model.tokenizer.vocab_target else unknown for token in ids]


def _labels(model: Model, trace: Trace) -> dict[str, float]:
    labels = getattr(model.config, "labels", ())
    if not labels:
        return {}
    return dict(zip(labels, trace["logits"][0].softmax(-1).tolist(), strict=True))


def _norms(x_1LD: Tensor) -> list[float]:
    norms: list[float] = x_1LD[0].float().norm(dim=-1).tolist()
    return norms
