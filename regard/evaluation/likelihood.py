"""Log-probabilities and perplexity of given translations (forced decoding).

B sentences  S source length  L target length, with the end token  V vocabulary
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import torch
from torch.nn.utils.rnn import pad_sequence

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.score import scored
from regard.decoding.settings import SearchSettings
from regard.errors import ModelError
from regard.tasks import TranslationModel

PAIRS_PER_WINDOW = 1024
"""Pairs read ahead and sorted by length."""
POSITIONS_PER_BATCH = 1024
"""Padding included. Each position has one logit per piece of the vocabulary."""


@dataclass(frozen=True)
class Likelihood:
    """The log-probabilities of one translation."""

    pieces: list[str] = field(default_factory=list)
    """The end token included."""
    log_probs: list[float] = field(default_factory=list)
    """One per piece, natural logarithms."""
    words: int = 0
    """Separated by white space."""
    fault: str = ""
    """Why the pair has no score; empty if it has one."""

    @property
    def log_prob(self) -> float:
        """Of the whole text, the end token included."""
        return math.nan if self.fault else sum(self.log_probs)

    @property
    def mean(self) -> float:
        """Per token."""
        return self.log_prob / max(len(self.pieces), 1)


@dataclass
class Perplexity:
    """exp of the mean negative log-probability, per token and per word."""

    log_prob: float = 0.0
    tokens: int = 0
    words: int = 0
    pairs: int = 0
    left_out: int = 0
    """Pairs without a score."""

    def add(self, pair: Likelihood) -> None:
        if pair.fault:
            self.left_out += 1
            return
        self.pairs += 1
        self.log_prob += pair.log_prob
        self.tokens += len(pair.pieces)
        self.words += pair.words

    @property
    def per_token(self) -> float:
        """Counts end tokens. Comparable only between models with the same vocabulary."""
        return self._per(self.tokens)

    @property
    def per_word(self) -> float:
        """The same total over the number of words: comparable between any models, on the same text."""
        return self._per(self.words)

    def _per(self, count: int) -> float:
        cross_entropy = -self.log_prob / count if count else math.nan
        return math.inf if cross_entropy > 700 else math.exp(cross_entropy)  # a line without spaces is one long word


def perplexity(likelihoods: Iterable[Likelihood]) -> Perplexity:
    result = Perplexity()
    for one in likelihoods:
        result.add(one)
    return result


def likelihoods(
    model: TranslationModel, pairs: Iterable[tuple[str, str]], *, to: str | None = None
) -> Iterator[Likelihood]:
    """Score each target given its source, in order, with one window in memory at a time."""
    remaining = iter(pairs)
    while window := list(islice(remaining, PAIRS_PER_WINDOW)):
        yield from _score_window(model, window, to)


def target_tokens(model: TranslationModel, text: str) -> list[int]:
    """The tokens that a search would generate for this text: its pieces and one end token."""
    ends = model.generation.end
    tokens = model.tokenizer.encode_target(text)
    last = tokens[-1:] if tokens and tokens[-1] in ends else list(ends[:1])
    return [token for token in tokens if token not in ends] + last


def _score_window(model: TranslationModel, window: Sequence[tuple[str, str]], to: str | None) -> list[Likelihood]:
    context = model.network.config.context
    results: dict[int, Likelihood] = {}
    rows: dict[int, tuple[list[int], list[int]]] = {}
    for i, (source, target) in enumerate(window):
        if not source.strip():
            results[i] = Likelihood(fault="the source is empty")
            continue
        source_ids, target_ids = model.source_ids(source, to), target_tokens(model, target)
        if max(len(source_ids), len(target_ids)) > context:
            results[i] = Likelihood(fault=f"longer than the model's context of {context:,} tokens")
        else:
            rows[i] = source_ids, target_ids
    for batch in _batches({i: max(map(len, row)) for i, row in rows.items()}):
        hypotheses = score_tokens(model, [rows[i][0] for i in batch], [rows[i][1] for i in batch])
        for i, hypothesis in zip(batch, hypotheses, strict=True):
            pieces = model.tokenizer.pieces_target(rows[i][1])
            results[i] = Likelihood(pieces, hypothesis.log_probs, len(window[i][1].split()))
    return [results[i] for i in range(len(window))]


def _batches(lengths: dict[int, int]) -> Iterator[list[int]]:
    """Indices of rows of similar length: at most `POSITIONS_PER_BATCH` positions, and at least one row."""
    batch: list[int] = []
    for i in sorted(lengths, key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[i] > POSITIONS_PER_BATCH:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


@torch.inference_mode()
def score_tokens(
    model: TranslationModel, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[Hypothesis]:
    """Score given targets in one pass. The result is what a search reports when it finds the same tokens."""
    start = model.generation.start
    if start is None:
        raise ModelError(f"{model.source}: generation_config.json names no start token")
    encoder_input = [torch.tensor(source, device=model.device) for source in sources]
    decoder_input = [torch.tensor([start, *target[:-1]], device=model.device) for target in targets]
    source_BS, target_BL = (pad_sequence(side, batch_first=True) for side in (encoder_input, decoder_input))
    lengths_B1 = torch.tensor([[len(source)] for source in sources], device=model.device)
    present_BS = torch.arange(source_BS.shape[1], device=model.device) < lengths_B1
    logits_BLV = model.network(source_BS, target_BL, present_BS)  # causal: target padding affects no token before it
    return scored(logits_BLV, targets, SearchSettings(), end=model.generation.end)
