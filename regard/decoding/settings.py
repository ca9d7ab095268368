"""How to search: one frozen set of settings, checked when it is made."""

import math
from dataclasses import dataclass
from typing import Literal

from regard.config import one_of
from regard.errors import ConfigError

LengthForm = Literal["plain", "paper"]

WIDEST = 1024
"""Beams and samples of one sentence: each is a row of keys and values in memory."""
LONGEST = 1_000_000


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """As they are, the likeliest token each time. A `beam` above 1 is beam search, a `temperature` above 0 sampling."""

    beam: int = 1
    """Hypotheses that are followed at a time; 1 is greedy search."""
    n_best: int = 1
    """Hypotheses that are given back: the best of the beam, at most `beam`; or as many samples."""
    length_penalty: float = 1.0
    """The exponent α: 0 compares sums of log-probabilities, more favours longer texts, less than 0 shorter ones."""
    length_form: LengthForm = "plain"
    """What the sum is divided by, for n tokens with the end: `plain` is n^α, `paper` is ((5 + n) / 6)^α."""
    patience: float | None = None
    """Stop when patience × beam hypotheses have ended (Kasai et al. 2022); unless given, when none can win any more."""
    temperature: float = 0.0
    """Sample from the probabilities, sharper below 1, flatter above; 0 does not sample."""
    top_k: int = 0
    """Sample among this many likeliest tokens; 0 is among all."""
    top_p: float = 1.0
    """Sample among the fewest tokens that have this much of the probability together."""
    min_p: float = 0.0
    """Sample among the tokens that have at least this share of the likeliest one's probability."""
    repetition_penalty: float = 1.0
    """Divide logits of tokens that were read or said, multiply negative ones (CTRL); above 1 discourages."""
    frequency_penalty: float = 0.0
    """Taken from a token's logit for each time that it was said (OpenAI)."""
    presence_penalty: float = 0.0
    """Taken from a token's logit once it was said (OpenAI)."""
    no_repeat_ngram: int = 0
    """No run of this many tokens comes twice; 0 lets all come."""
    min_new: int = 0
    """The text does not end before it has this many tokens."""
    max_new: int | None = None
    """The text has at most this many tokens, the end token included; as many as there is room for, unless given."""
    favour: tuple[tuple[int, ...], ...] = ()
    """Runs of tokens that the text should have: each is made likelier until it is there, more so once it is begun."""
    seed: int | None = None
    """Of sampling: the same seed and text give the same sample, alone and in any batch; a new one, unless given."""

    def __post_init__(self) -> None:
        one_of(self.length_form, ("plain", "paper"), "length_form")
        for name, low, high in LIMITS:
            value = getattr(self, name)
            if value is None and name in OPTIONAL:
                continue
            whole = isinstance(low, int)
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
                raise ConfigError(f"{name} must be a {'whole ' if whole else ''}number, not {value!r}")
            if not low <= value <= high:  # NaN is in no range
                raise ConfigError(f"{name} must be in {low:,} … {high:,}, not {value}")
        if self.max_new is not None and self.min_new > self.max_new:
            raise ConfigError(f"min_new {self.min_new} is more than max_new {self.max_new}")
        if self.temperature:
            self._check_sampling()
        else:
            self._check_beam()

    def _check_sampling(self) -> None:
        if self.temperature < 0.001:
            raise ConfigError(f"temperature must be 0 (do not sample) or at least 0.001, not {self.temperature}")
        if self.beam > 1:
            raise ConfigError(f"beam {self.beam} and temperature {self.temperature}: search or sample, not both")
        if self.top_p == 0.0:
            raise ConfigError("top_p must be above 0: of no probability there is nothing to sample")

    def _check_beam(self) -> None:
        for name, off in (("top_k", 0), ("top_p", 1.0), ("min_p", 0.0)):
            if getattr(self, name) != off:
                raise ConfigError(f"{name} is for sampling; give a temperature above 0 as well")
        if self.n_best > self.beam:
            raise ConfigError(f"n_best {self.n_best} of a beam of {self.beam}; widen the beam, or sample")
        rewards = self.repetition_penalty < 1.0 or self.frequency_penalty < 0.0 or self.presence_penalty < 0.0
        if self.beam > 1 and rewards:
            raise ConfigError("beam search cannot reward repetition: it would never know when to stop")

    @property
    def enough(self) -> float:
        """So many hypotheses of a text that ended are enough; infinity waits until none can win any more."""
        # a beam of one has no second choice to go on with when the first has ended: greedy search
        patience = 1.0 if self.beam == 1 else self.patience
        return math.inf if patience is None else max(patience * self.beam, self.n_best)

    def score(self, total: float, length: int) -> float:
        """A hypothesis' score: its sum over the penalty for its length, the end token included."""
        return total / self.penalty(length) if length else total

    def penalty(self, length: int) -> float:
        base = length if self.length_form == "plain" else (5 + length) / 6
        return float(base**self.length_penalty)


OPTIONAL = ("patience", "max_new", "seed")
LIMITS: tuple[tuple[str, float, float], ...] = (
    ("beam", 1, WIDEST),
    ("n_best", 1, WIDEST),
    ("length_penalty", -10.0, 10.0),
    ("patience", 0.0, 1000.0),
    ("temperature", 0.0, 100.0),
    ("top_k", 0, LONGEST),
    ("top_p", 0.0, 1.0),
    ("min_p", 0.0, 1.0),
    ("repetition_penalty", 0.01, 100.0),
    ("frequency_penalty", -2.0, 2.0),
    ("presence_penalty", -2.0, 2.0),
    ("no_repeat_ngram", 0, LONGEST),
    ("min_new", 0, LONGEST),
    ("max_new", 0, LONGEST),
    ("seed", 0, 2**63 - 1),
)
"""Name, least, most: finite, so that a request cannot ask for more than a machine has."""
