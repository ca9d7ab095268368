"""What a search returns: a text in tokens, and its score; and what can be wrong with it.

    loop      the same tokens over and over        … the man the man the man the man …
    length    far too long or too short for the source, or cut off by the limit
    copy      the source again instead of a translation

The checks report clear failures only: a repetitive source may have a repetitive translation, and a name may be copied.
`attempts` lists other searches to try, each more restrictive than the one before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from regard.decoding.settings import SearchSettings

BROKEN_LOGITS = "the model's logits are not finite: its weights are broken, or too large for its dtype"

Fault = Literal["loop", "length", "copy"]

LONGEST_CYCLE = 16
LOOP_REPEATS = 4
"""The same cycle this many times in a row is a loop, unless the source has one too. Three are rhetoric."""
MAX_LENGTH_RATIO, MAX_EXTRA_TOKENS = 2.5, 12
"""Longest translation: ratio x source tokens + extra. A translation rarely has twice the tokens of its source."""
MIN_LENGTH_RATIO, MIN_SOURCE_TOKENS = 0.25, 12
"""Shortest translation, for sources of at least this many tokens: below this ratio, something is missing."""
MIN_COPY_WORDS, MIN_COPIED_SHARE = 4, 0.8
"""A source of at least this many words is copied if this share of them occurs in the translation, in order."""


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """One text that a search found."""

    tokens: list[int]
    """Without the end token."""
    score: float
    """What the search ranks by: the sum of log-probabilities after the rules, over the length penalty."""
    log_probs: list[float]
    """Of each token by the model alone, before any rule; the end token's is the last where the text ended."""
    end: int | None
    """The end token; None where the limit, or rules that allow no token, cut the text off."""

    @classmethod
    def of(
        cls,
        generated: Sequence[int],
        log_probs: Sequence[float],
        total: float,
        settings: SearchSettings,
        end: Sequence[int],
    ) -> "Hypothesis":
        """From all generated tokens (the end token included), their log-probabilities, and the search's sum."""
        ended_by = generated[-1] if generated and generated[-1] in end else None
        return cls(
            tokens=list(generated if ended_by is None else generated[:-1]),
            score=settings.score(total, len(generated)),
            log_probs=list(log_probs),
            end=ended_by,
        )

    @property
    def log_prob(self) -> float:
        """Of the whole text and its end token, by the model alone."""
        return sum(self.log_probs)

    @property
    def generated(self) -> list[int]:
        """All tokens, the end token included."""
        return self.tokens if self.end is None else [*self.tokens, self.end]

    @property
    def ended(self) -> bool:
        return self.end is not None


# ---- faults ----


def faults(source: Sequence[int], written: Sequence[int], ended: bool) -> set[Fault]:
    """The faults of a translation, given as tokens without end tokens. `ended` is False where the limit cut it off."""
    found: set[Fault] = set()
    if repeats(written) >= max(LOOP_REPEATS, repeats(source) + 2):
        found.add("loop")
    too_short = len(source) >= MIN_SOURCE_TOKENS and len(written) < MIN_LENGTH_RATIO * len(source)
    if not ended or too_short or len(written) > MAX_LENGTH_RATIO * len(source) + MAX_EXTRA_TOKENS:
        found.add("length")
    return found


def repeats(tokens: Sequence[int]) -> int:
    """How many times in a row a cycle of tokens occurs, at most; 1 without an immediate repetition."""
    most = 1
    for cycle in range(1, min(LONGEST_CYCLE, len(tokens) // 2) + 1):
        run = 0  # consecutive tokens equal to the token one cycle before
        for here, before in zip(tokens[cycle:], tokens, strict=False):
            run = run + 1 if here == before else 0
            most = max(most, 1 + run // cycle)
    return most


def is_copy(source: Sequence[str], written: Sequence[str]) -> bool:
    """Whether most words of a source occur in its translation, in the same order."""
    if len(source) < MIN_COPY_WORDS:
        return False
    copied, position = 0, 0
    for word in source:
        try:
            position = written.index(word, position) + 1
        except ValueError:
            continue
        copied += 1
    return copied >= MIN_COPIED_SHARE * max(len(source), len(written))


def attempts(settings: SearchSettings) -> list[SearchSettings]:
    """Other searches to try after a failure; each forbids more repetition than the one before."""
    greedy = replace(settings, beam=1, n_best=1)
    return [
        replace(settings, no_repeat_ngram=4),
        replace(greedy, no_repeat_ngram=3, repetition_penalty=1.1),
        replace(greedy, no_repeat_ngram=2, repetition_penalty=1.3),
    ]
