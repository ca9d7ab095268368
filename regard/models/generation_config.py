"""The generation settings that travel with a model's weights."""

from dataclasses import dataclass
from typing import Literal

from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    start: int | None = None
    """First token of the decoder of a translation model; prepended to an empty prompt of a language model."""
    end: tuple[int, ...] = ()
    """Tokens that end the text."""
    pad: int | None = None
    suppressed: tuple[int, ...] = ()
    """Tokens never generated (OPUS-MT: the padding token, which its decoder starts with)."""
    max_tokens: int | None = None
    """Maximum length of the output, in tokens; limited only by the context if None."""
    beam: int = 1
    """Default beam size; 1 is greedy search."""
    length_penalty: float = 1.0
    """Exponent α of the length penalty in beam search; larger values favour longer hypotheses."""
    length_form: Literal["plain", "paper"] = "plain"
    """Divisor of the score of n tokens: n^α (plain), or the paper's ((5 + n) / 6)^α."""

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ConfigError(f"beam must be at least 1, not {self.beam}")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ConfigError(f"max_tokens must be at least 1, not {self.max_tokens}")
