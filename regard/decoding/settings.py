"""How to search: one frozen set of settings, checked when it is made.

Everything else follows from these fields: the options of the command line (`help`), the typed keywords of the Python
API (`SearchOptions`), and what the native search supports (inference/native_backend.py).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from inspect import cleandoc
from typing import Any, Literal, TypedDict

from regard.config import check_range, from_table, one_of
from regard.errors import ConfigError, UsageError
from regard.models.config import GenerationConfig

LengthForm = Literal["plain", "paper"]

MAX_BEAM = 1024
"""Beams and samples of one text: each is a row of the kv cache."""
MAX_LENGTH = 1_000_000


def _setting(default: Any, help: str, *, option: bool = True) -> Any:
    """A field with a help text, and whether it is an option of the command line."""
    return field(default=default, metadata={"help": help, "option": option})


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """How to search: greedily by default, with a `beam` above 1, or by sampling with a `temperature` above 0.

    `translate`, `generate` and the command line take what they are not given from the model (beam, length penalty,
    max_tokens), make the beam wide enough for n_best, and use a patience of 1. Here None is exact.
    """

    beam: int = _setting(1, "Hypotheses kept at each step; 1 is greedy search.")
    n_best: int = _setting(1, "Hypotheses or samples to return; widens the beam if that is unset.")
    length_penalty: float = _setting(1.0, "Exponent α of the length penalty; more favors longer texts.")
    length_form: LengthForm = _setting(  # noqa: RUF009
        "plain", "Divide scores by n^α (plain) or by ((5 + n) / 6)^α (paper)."
    )
    patience: float | None = _setting(None, "Stop after X times beam finished hypotheses; 1 if unset, 1000 is exact.")
    """Kasai et al. 2022."""
    temperature: float = _setting(0.0, "Sample; below 1 sharpens, above 1 flattens. 0 does not sample.")
    top_k: int = _setting(0, "Sample among the k likeliest tokens; 0 is all.")
    top_p: float = _setting(1.0, "Sample among the fewest tokens with this total probability.")
    min_p: float = _setting(0.0, "Sample among tokens of at least this share of the likeliest one's probability.")
    repetition_penalty: float = _setting(1.0, "Above 1 discourages tokens that occurred before.")
    """CTRL's: divides the logit of a token that was seen, multiplies it if negative."""
    frequency_penalty: float = _setting(0.0, "Subtract this from a token's logit for each time it was generated.")
    presence_penalty: float = _setting(0.0, "Subtract this from a token's logit once it was generated.")
    no_repeat_ngram: int = _setting(0, "No n-gram of this size occurs twice; 0 allows all.")
    min_tokens: int = _setting(0, "Shortest output, in tokens.")
    max_tokens: int | None = _setting(None, "Longest output, in tokens, the end token included.")
    boost: tuple[tuple[int, ...], ...] = _setting(
        (), "Runs of tokens that should occur: each is made likelier until it does.", option=False
    )
    """More so once it has begun."""
    seed: int | None = _setting(None, "Random seed for sampling; a new one each time if unset.")
    """The same seed and text give the same sample, alone and in any batch."""

    def __post_init__(self) -> None:
        one_of(self.length_form, ("plain", "paper"), "length_form")
        for name, low, high in LIMITS:
            value = getattr(self, name)
            if value is None and name in OPTIONAL:
                continue
            whole = isinstance(low, int)
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
                raise ConfigError(f"{name} must be a {'whole ' if whole else ''}number, not {value!r}")
            if not low <= value <= high:  # tested here too: this runs for every text
                check_range(name, value, least=low, most=high)
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ConfigError(f"min_tokens {self.min_tokens} is more than max_tokens {self.max_tokens}")
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
            raise ConfigError("top_p must be above 0: it would leave no token to sample")

    def _check_beam(self) -> None:
        for name, off in (("top_k", 0), ("top_p", 1.0), ("min_p", 0.0)):
            if getattr(self, name) != off:
                raise ConfigError(f"{name} is for sampling; give a temperature above 0 as well")
        if self.n_best > self.beam:
            raise ConfigError(f"n_best {self.n_best} of a beam of {self.beam}; widen the beam, or sample")
        rewards = self.repetition_penalty < 1.0 or self.frequency_penalty < 0.0 or self.presence_penalty < 0.0
        if self.beam > 1 and rewards:
            raise ConfigError("beam search cannot reward repetition: it would never stop")

    @property
    def rows(self) -> int:
        """Rows of the kv cache that one text takes."""
        return max(self.beam, self.n_best)

    @property
    def enough(self) -> float:
        """Finished hypotheses after which a text stops; infinity waits until none can improve."""
        # a beam of one has no second choice to continue when the first has ended: greedy search
        patience = 1.0 if self.beam == 1 else self.patience
        return math.inf if patience is None else max(patience * self.beam, self.n_best)

    def score(self, total: float, length: int) -> float:
        """A hypothesis' score: its sum over the length penalty, the end token included."""
        return total / self.penalty(length) if length else total

    def penalty(self, length: int) -> float:
        base = length if self.length_form == "plain" else (5 + length) / 6
        return float(base**self.length_penalty)


# what help(SearchSettings) shows: the fields alone would be a signature
SearchSettings.__doc__ = "\n".join(
    [
        cleandoc(SearchSettings.__doc__ or ""),
        "",
        *(f"{one.name:20}{one.metadata['help']}" for one in fields(SearchSettings)),
    ]
)


class TextSearchOptions(TypedDict, total=False):
    """How to search for one text, as keywords; None and missing ones are the model's own settings."""

    beam: int | None
    length_penalty: float | None
    length_form: LengthForm | None
    patience: float | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    frequency_penalty: float | None
    presence_penalty: float | None
    no_repeat_ngram: int | None
    min_tokens: int | None
    max_tokens: int | None
    seed: int | None


class SearchOptions(TextSearchOptions, total=False):
    """All settings that a caller may give as keywords."""

    n_best: int | None
    boost: tuple[tuple[int, ...], ...] | None


def search_settings(defaults: GenerationConfig, options: Mapping[str, Any]) -> SearchSettings:
    """The caller's settings, and the model's own where the caller gives none."""
    given = {key: value for key, value in options.items() if value is not None}
    if isinstance(given.get("max_tokens"), int) and given["max_tokens"] < 1:
        raise UsageError(f"max_tokens must be at least 1, not {given['max_tokens']}")
    own: dict[str, Any] = {
        "beam": 1 if given.get("temperature") else defaults.beam,
        "length_penalty": defaults.length_penalty,
        "length_form": defaults.length_form,
        "max_tokens": defaults.max_tokens,
        # To wait until no better hypothesis is possible takes nearly twice as long where a score is a mean over the
        # tokens: a row could gain by continuing to the limit. Measured on Multi30k, the BLEU is the same.
        "patience": 1.0,
    }
    n_best = given.get("n_best")
    if isinstance(n_best, int) and not given.get("temperature"):
        own["beam"] = max(defaults.beam, n_best)  # the beam must hold them
    return from_table(SearchSettings, own | given, "search")


NEUTRAL_DEFAULTS = GenerationConfig()
"""For checking options before a model is loaded."""
OPTIONAL = ("patience", "max_tokens", "seed")
LIMITS: tuple[tuple[str, float, float], ...] = (
    ("beam", 1, MAX_BEAM),
    ("n_best", 1, MAX_BEAM),
    ("length_penalty", -10.0, 10.0),
    ("patience", 0.0, 1000.0),
    ("temperature", 0.0, 100.0),
    ("top_k", 0, MAX_LENGTH),
    ("top_p", 0.0, 1.0),
    ("min_p", 0.0, 1.0),
    ("repetition_penalty", 0.01, 100.0),
    ("frequency_penalty", -2.0, 2.0),
    ("presence_penalty", -2.0, 2.0),
    ("no_repeat_ngram", 0, MAX_LENGTH),
    ("min_tokens", 0, MAX_LENGTH),
    ("max_tokens", 0, MAX_LENGTH),
    ("seed", 0, 2**63 - 1),
)
"""Name, least, most: finite, so that a request cannot ask for more than a machine has."""
