"""How a model wants to be decoded: the settings that travel with its weights."""

from dataclasses import dataclass
from typing import Literal

from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    start: int | None = None
    """The token that a translation begins with, or that stands before a text that has no beginning of its own."""
    end: tuple[int, ...] = ()
    """Tokens that end the text."""
    pad: int | None = None
    never: tuple[int, ...] = ()
    """Tokens that are never written (OPUS-MT's padding, which its decoder starts with)."""
    max_new: int | None = None
    """Longest output, in tokens; as much as the context has room for, unless given."""
    beam: int = 1
    """Hypotheses that are followed at a time, unless the caller says otherwise."""
    length_penalty: float = 1.0
    """The exponent by which longer hypotheses are favoured, where there is a beam."""
    length_form: Literal["plain", "paper"] = "plain"
    """What a hypothesis of n tokens is divided by: n^α, or the paper's ((5 + n) / 6)^α."""

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ConfigError(f"beam must be at least 1, not {self.beam}")
        if self.max_new is not None and self.max_new < 1:
            raise ConfigError(f"max_new must be at least 1, not {self.max_new}")
