"""What a search returns: a text in tokens, and its score."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.decoding.settings import SearchSettings

BROKEN_LOGITS = "the model's logits are not finite: its weights are broken, or too large for its dtype"


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
