"""One text's path through one model, as plain values: for the terminal, for JSON, for the page.

Everything here is read off a `Trace` of the very forward pass that the model makes for its answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from regard.blocks.trace import Trace
from regard.tasks import TranslationModel
from regard.tasks.base import Model

PARTNERS = 5
"""How many of the tokens that a token looks at are kept, for each head."""


@dataclass(frozen=True)
class Tokens:
    """A text as the model sees it."""

    side: str
    pieces: list[str]
    ids: list[int]
    special: list[bool]
    """Which of them stand for no part of the text: starts, ends, separators."""


@dataclass(frozen=True)
class Embedded:
    """How long each token's vector is: its own, its position's, and what enters the first block."""

    side: str
    token_norms: list[float]
    position_norms: list[float] | None
    output_norms: list[float]


@dataclass(frozen=True)
class Look:
    """One token's look at another."""

    query: int
    key: int
    weight: float


@dataclass(frozen=True)
class Head:
    """What one head does: for each token the partners that it takes most from, and the head's habit, if it has one."""

    looks: list[list[Look]]
    habit: str | None
    share: float
    """How much of all attention goes where the habit says."""


@dataclass(frozen=True)
class BlockView:
    stack: str
    index: int
    attention: list[Head]
    cross: list[Head] | None
    norms: dict[str, list[float]]
    """Length of the residual vector of each token, after each part."""


@dataclass(frozen=True)
class Guess:
    token: str
    id: int
    probability: float


@dataclass(frozen=True)
class Journey:
    """The whole path, in the order in which the data travelled."""

    text: str
    family: str
    tokens: list[Tokens]
    embeddings: list[Embedded]
    blocks: list[BlockView]
    next: list[list[Guess]] = field(default_factory=list)
    """The likeliest tokens at each place of the last text; none for a model without a vocabulary to choose from."""
    labels: dict[str, float] = field(default_factory=dict)


def capture(model: Model, text: str, target: str | None = None, *, to: str | None = None, top: int = 5) -> Journey:
    """Send the text through the model, and tell what happened. `to` is for a translator of several languages."""
    trace = model.trace(text, target, to) if isinstance(model, TranslationModel) else model.trace(text, target)
    sides = _sides(model, trace)
    return Journey(
        text=text,
        family=model.family,
        tokens=[tokens for tokens, _, _ in sides],
        embeddings=[_embedded(trace.inside(front), tokens.side) for tokens, front, _ in sides],
        blocks=[block for _, _, stack in sides for block in _blocks(trace, stack)],
        next=_guesses(model, trace, top),
        labels=_labels(model, trace),
    )


def _sides(model: Model, trace: Trace) -> list[tuple[Tokens, str, str]]:
    """Each text that goes in, with the names of its embedding and of its stack."""
    if isinstance(model, TranslationModel):
        source, target = trace["source_ids"][0].tolist(), trace["target_ids"][0].tolist()
        return [
            (Tokens("source", model.tokenizer.pieces(source), source, _special(model, source)), "source", "encoder"),
            (
                Tokens("target", model.tokenizer.pieces_target(target), target, _special(model, target)),
                "target",
                "decoder",
            ),
        ]
    ids = trace["ids"][0].tolist()
    return [(Tokens("text", model.tokenizer.pieces(ids), ids, _special(model, ids)), "embedding", "stack")]


def _special(model: Model, ids: list[int]) -> list[bool]:
    known = {model.tokenizer.start, model.tokenizer.end, model.tokenizer.pad, model.generation.start}
    return [number in known for number in ids]


def _embedded(trace: Trace, side: str) -> Embedded:
    return Embedded(
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
                attention=_heads(block["attention.weights"][0], among_themselves=True),
                cross=_heads(block["cross.weights"][0]) if "cross.weights" in block else None,
                norms={part: _norms(block[part]) for part in parts},
            )
        )
    return views


def _heads(weights_HQS: Tensor, *, among_themselves: bool = False) -> list[Head]:
    return [_head(weights_QS, among_themselves) for weights_QS in weights_HQS]


def _head(weights_QS: Tensor, among_themselves: bool) -> Head:
    best = weights_QS.topk(min(PARTNERS, weights_QS.shape[1]))
    looks = [
        [Look(query, key, weight) for key, weight in zip(keys, values, strict=True)]
        for query, (keys, values) in enumerate(zip(best.indices.tolist(), best.values.tolist(), strict=True))
    ]
    habit, share = _habit(weights_QS) if among_themselves else (None, 0.0)
    return Head(looks, habit, share)


def _habit(weights_QS: Tensor) -> tuple[str | None, float]:
    """What a head does most of the time, if that is one of the things that heads are known to do."""
    queries = weights_QS.shape[0]
    shares = {
        "the first token": weights_QS[:, 0].sum() / queries,
        "the last token": weights_QS[:, -1].sum() / queries,
        "itself": weights_QS.diagonal().sum() / queries,
        "the token before": weights_QS.diagonal(-1).sum() / max(queries - 1, 1),
        "the token after": weights_QS.diagonal(1).sum() / max(queries - 1, 1),
    }
    habit, share = max(((name, float(share)) for name, share in shares.items()), key=lambda pair: pair[1])
    return (habit, share) if share >= 0.5 else (None, share)


def _guesses(model: Model, trace: Trace, top: int) -> list[list[Guess]]:
    """The likeliest tokens after each place (or at it, for a masked LM)."""
    if "logits" not in trace or trace["logits"].dim() != 3:
        return []
    best = trace["logits"][0].softmax(-1).topk(min(top, trace["logits"].shape[-1]))
    return [
        [
            Guess(piece, number, chance)
            for piece, number, chance in zip(
                model.tokenizer.pieces_target(_known(ids, model)), ids, chances, strict=True
            )
        ]
        for ids, chances in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def _known(ids: Sequence[int], model: Model) -> list[int]:
    """A model may have more rows than its tokenizer has pieces: those are shown as the unknown token."""
    unknown = model.tokenizer.unknown or 0
    return [number if number < model.tokenizer.vocab_target else unknown for number in ids]


def _labels(model: Model, trace: Trace) -> dict[str, float]:
    labels = getattr(model.config, "labels", ())
    if not labels:
        return {}
    return dict(zip(labels, trace["logits"][0].softmax(-1).tolist(), strict=True))


def _norms(x_1LD: Tensor) -> list[float]:
    norms: list[float] = x_1LD[0].float().norm(dim=-1).tolist()
    return norms
