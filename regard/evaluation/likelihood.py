"""What a model thinks of translations that are given: the log-probability of each, and their perplexity.

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

WINDOW = 1024
"""Pairs that are read ahead and sorted by length."""
POSITIONS = 1024
"""Places of a batch, padding included: for each of them there are as many logits as the vocabulary has pieces."""


@dataclass(frozen=True)
class Likelihood:
    """What the model thinks of one translation."""

    pieces: list[str] = field(default_factory=list)
    """With the end token, which is said like any other."""
    log_probabilities: list[float] = field(default_factory=list)
    """Of each piece, natural logarithms."""
    words: int = 0
    """What white space separates."""
    fault: str = ""
    """Why there is none, where there is none."""

    @property
    def log_probability(self) -> float:
        """Of the whole text and its end."""
        return math.nan if self.fault else sum(self.log_probabilities)

    @property
    def mean(self) -> float:
        """For a token."""
        return self.log_probability / max(len(self.pieces), 1)


@dataclass
class Perplexity:
    """Between how many equally likely tokens (or words) the model wavers, on the mean: e to the mean surprise."""

    log_probability: float = 0.0
    tokens: int = 0
    words: int = 0
    pairs: int = 0
    left_out: int = 0
    """Pairs that have no likelihood."""

    def add(self, one: Likelihood) -> None:
        if one.fault:
            self.left_out += 1
            return
        self.pairs += 1
        self.log_probability += one.log_probability
        self.tokens += len(one.pieces)
        self.words += one.words

    @property
    def per_token(self) -> float:
        """The end of a text is a token. Comparable only between models with the same pieces."""
        return self._of(self.tokens)

    @property
    def per_word(self) -> float:
        """The same surprise, shared among the words: comparable between any models, on the same text."""
        return self._of(self.words)

    def _of(self, count: int) -> float:
        surprise = -self.log_probability / count if count else math.nan
        return math.inf if surprise > 700 else math.exp(surprise)  # a line without spaces is one word of many pieces


def perplexity(likelihoods: Iterable[Likelihood]) -> Perplexity:
    result = Perplexity()
    for one in likelihoods:
        result.add(one)
    return result


def likelihoods(
    model: TranslationModel, pairs: Iterable[tuple[str, str]], *, to: str | None = None
) -> Iterator[Likelihood]:
    """Of each target, given its source; in order, and never more than a window of them in memory."""
    waiting = iter(pairs)
    while window := list(islice(waiting, WINDOW)):
        yield from _of_window(model, window, to)


def target_tokens(model: TranslationModel, text: str) -> list[int]:
    """What a search would have said, had it found this text: its pieces and the end."""
    ends = model.generation.end
    tokens = model.tokenizer.encode_target(text)
    last = tokens[-1:] if tokens and tokens[-1] in ends else list(ends[:1])
    return [token for token in tokens if token not in ends] + last


def _of_window(model: TranslationModel, window: Sequence[tuple[str, str]], to: str | None) -> list[Likelihood]:
    context = model.network.config.context
    found: dict[int, Likelihood] = {}
    rows: dict[int, tuple[list[int], list[int]]] = {}
    for i, (source, target) in enumerate(window):
        if not source.strip():
            found[i] = Likelihood(fault="the source is empty")
            continue
        read, said = model.source_ids(source, to), target_tokens(model, target)
        if max(len(read), len(said)) > context:
            found[i] = Likelihood(fault=f"longer than the {context:,} tokens that this model reads")
        else:
            rows[i] = read, said
    for batch in _batches({i: max(map(len, row)) for i, row in rows.items()}):
        hypotheses = forced(model, [rows[i][0] for i in batch], [rows[i][1] for i in batch])
        for i, hypothesis in zip(batch, hypotheses, strict=True):
            pieces = model.tokenizer.pieces_target(rows[i][1])
            found[i] = Likelihood(pieces, hypothesis.token_log_probabilities, len(window[i][1].split()))
    return [found[i] for i in range(len(window))]


def _batches(lengths: dict[int, int]) -> Iterator[list[int]]:
    """Indices of rows of about the same length, as many as `POSITIONS` has room for, and at least one."""
    batch: list[int] = []
    for i in sorted(lengths, key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[i] > POSITIONS:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


@torch.inference_mode()
def forced(
    model: TranslationModel, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[Hypothesis]:
    """Each target as the hypothesis that a search would have reported, had it found it: tokens in, all at once."""
    start = model.generation.start
    if start is None:
        raise ModelError(f"{model.source}: does not say which token a translation starts with")
    read = [torch.tensor(source, device=model.device) for source in sources]
    before = [torch.tensor([start, *target[:-1]], device=model.device) for target in targets]
    source_BS, target_BL = (pad_sequence(side, batch_first=True) for side in (read, before))
    lengths_B1 = torch.tensor([[len(source)] for source in sources], device=model.device)
    present_BS = torch.arange(source_BS.shape[1], device=model.device) < lengths_B1
    logits_BLV = model.network(source_BS, target_BL, present_BS)  # what pads a target comes after all that counts
    return scored(logits_BLV, targets, SearchSettings(), end=model.generation.end)
