"""What a search gives: a text in tokens, and what it is worth."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.decoding.settings import SearchSettings

BROKEN = "the model's logits are no finite numbers; its weights are broken, or too large for its dtype"
"""What there is to say where a search can give nothing."""


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """One text that was found."""

    tokens: list[int]
    """Without the end token."""
    score: float
    """What the search ranked it by: the sum over its tokens, as the rules left them, over the length penalty."""
    token_log_probabilities: list[float]
    """The model's own, before any rule; where the text ended, the end token's is the last."""
    end: int | None
    """The end token that was said; None where the limit, or rules that left nothing to say, cut the text."""

    @classmethod
    def of(
        cls, said: Sequence[int], own: Sequence[float], total: float, settings: SearchSettings, end: Sequence[int]
    ) -> "Hypothesis":
        """From all that was said, the end token included, what each was worth to the model, and the search's sum."""
        ended_by = said[-1] if said and said[-1] in end else None
        return cls(
            tokens=list(said if ended_by is None else said[:-1]),
            score=settings.score(total, len(said)),
            token_log_probabilities=list(own),
            end=ended_by,
        )

    @property
    def log_probability(self) -> float:
        """The model's own, of the whole text and its end token."""
        return sum(self.token_log_probabilities)

    @property
    def said(self) -> list[int]:
        """All tokens, the end token included."""
        return self.tokens if self.end is None else [*self.tokens, self.end]

    @property
    def ended(self) -> bool:
        return self.end is not None
