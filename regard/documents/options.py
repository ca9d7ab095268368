"""What a caller may choose about a translation: the languages, the terms, the search."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.config import did_you_mean
from regard.decoding.settings import TextSearchOptions
from regard.documents.glossary import Glossary
from regard.errors import UsageError

MAX_ALTERNATIVES = 7
"""One less than the beam in which a sentence is searched for again (retry.py)."""


@dataclass(frozen=True, kw_only=True)
class TranslationOptions:
    """How to translate a text."""

    to: str | None = None
    """Target language; a model with only one needs none."""
    source: str | None = None
    """Source language; detected if omitted, where the model has a detector."""
    glossary: Glossary | None = None
    min_confidence: float = 0.0
    """Keep the source text of sentences whose confidence is below this."""
    alternatives: int = 0
    """How many other translations to return for each sentence, at most."""
    align: bool = False
    """Return which word became which. Passages with markup are aligned in any case."""
    words: bool = True
    """Return the words of the translation, each with its confidence."""
    search: Mapping[str, Any] = field(default_factory=dict)
    """Search settings that differ from the model's own; the keys are those of `SearchOptions`."""

    def __post_init__(self) -> None:
        for name in ("to", "source"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise UsageError(f"{name} must be a language such as 'de', not {value!r}")
        if self.glossary is not None and not isinstance(self.glossary, Glossary):
            raise UsageError(
                f"glossary must be a Glossary, not {self.glossary!r}; read a file with Glossary.read(path)"
            )
        _check_range("min_confidence", self.min_confidence, 0.0, 1.0)
        _check_range("alternatives", self.alternatives, 0, MAX_ALTERNATIVES)
        for name in self.search:
            if name not in TextSearchOptions.__annotations__:
                known = TextSearchOptions.__annotations__
                hint = did_you_mean(name, known) or f"; choose from {', '.join(known)}"
                raise UsageError(f"unknown search setting '{name}'{hint}")


def _check_range(name: str, value: float, low: float, high: float) -> None:
    whole = isinstance(low, int)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise UsageError(f"{name} must be a {'whole ' if whole else ''}number, not {value!r}")
    if not low <= value <= high:  # NaN is in no range
        raise UsageError(f"{name} must be at least {low:g} and at most {high:g}, not {value}")
