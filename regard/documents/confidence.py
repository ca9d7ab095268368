"""Calibrated confidence: log-probabilities -> a probability that the translation is right.

A model's own probability is not that: models are overconfident, and a long sentence has a small probability, however
good it is. Two logistic regressions are fitted on translations with known references (evaluation/calibration.py):

    a word       the probability that it is in the reference
    a sentence   the probability that it is close to the reference (chrF of at least 50)

Without fitted weights, the confidence is the geometric mean of the model's probabilities, which is not calibrated.

N examples  F features
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.config import from_table, load_json
from regard.errors import ConfigError

FILE = "confidence.json"
MIN_LOG_PROB = -12.0
"""Smaller log-probabilities count as this: one impossible token must not outweigh a hundred doubtful ones."""
DOUBTFUL_LOG_PROB = math.log(0.3)
WEIGHTS = 6
"""Of each regression: a constant and five features."""
NEWTON_STEPS = 50
RIDGE = 1e-3


@dataclass(frozen=True, kw_only=True)
class Confidence:
    """Weights of the two regressions, the constant first; empty if not fitted."""

    sentence: tuple[float, ...] = ()
    word: tuple[float, ...] = ()
    error: dict[str, float] | None = None
    """The calibration error on held-out pairs, by name."""

    def __post_init__(self) -> None:
        for name in ("sentence", "word"):
            if len(getattr(self, name)) not in (0, WEIGHTS):
                raise ConfigError(f"'{name}' must have {WEIGHTS} weights, not {len(getattr(self, name)):,}")

    @classmethod
    def load(cls, directory: Path) -> "Confidence":
        """The confidence of a model directory; not fitted if the directory has none."""
        path = directory / FILE
        return from_table(cls, load_json(path), str(path)) if path.is_file() else cls()

    def of_sentence(self, log_probs: Sequence[float], source_tokens: int) -> float:
        """The confidence in a translation with these token log-probabilities.

        `source_tokens` counts everything the encoder reads, the language tag and the end token included.
        """
        if not self.sentence:
            return math.exp(_mean(log_probs))
        return probability(self.sentence, sentence_features(log_probs, source_tokens))

    def of_word(self, log_probs: Sequence[float], sentence_log_probs: Sequence[float]) -> float:
        """The confidence in a word with these token log-probabilities, in a translation with those."""
        if not self.word:
            return math.exp(min(log_probs, default=0.0))
        return probability(self.word, word_features(log_probs, sentence_log_probs))


def sentence_features(log_probs: Sequence[float], source_tokens: int) -> list[float]:
    """Mean, minimum, share of doubtful tokens, length, and length relative to the source."""
    values = [max(one, MIN_LOG_PROB) for one in log_probs]
    doubtful = sum(one < DOUBTFUL_LOG_PROB for one in values)
    return [
        _mean(values),
        min(values, default=0.0),
        doubtful / max(len(values), 1),
        math.log1p(len(values)),
        math.log((len(values) + 1) / (source_tokens + 1)),
    ]


def word_features(log_probs: Sequence[float], sentence_log_probs: Sequence[float]) -> list[float]:
    """Sum and minimum of the word, mean and minimum of the sentence, and its length."""
    word, sentence = ([max(one, MIN_LOG_PROB) for one in part] for part in (log_probs, sentence_log_probs))
    return [sum(word), min(word, default=0.0), _mean(sentence), min(sentence, default=0.0), math.log1p(len(sentence))]


def probability(weights: Sequence[float], features: Sequence[float]) -> float:
    total = weights[0] + sum(weight * feature for weight, feature in zip(weights[1:], features, strict=True))
    return 1 / (1 + math.exp(-max(-50.0, min(50.0, total))))


def fit(features_NF: NDArray[np.float64], truth_N: NDArray[np.float64]) -> tuple[float, ...]:
    """Weights of a logistic regression, the constant first, by Newton's method. A little ridge keeps it solvable."""
    count = len(features_NF)
    x = np.concatenate((np.ones((count, 1)), features_NF), axis=1)
    weights = np.zeros(x.shape[1])
    ridge = RIDGE * np.eye(len(weights))
    for _ in range(NEWTON_STEPS):
        predicted = 1 / (1 + np.exp(-np.clip(x @ weights, -50, 50)))
        gradient = x.T @ (predicted - truth_N) / count + ridge @ weights
        hessian = (x * (predicted * (1 - predicted))[:, None]).T @ x / count + ridge
        step = np.linalg.solve(hessian, gradient)
        weights = weights - step
        if np.abs(step).max() < 1e-9:
            break
    return tuple(round(float(one), 6) for one in weights)


def calibration_error(predicted_N: NDArray[np.float64], truth_N: NDArray[np.float64], bins: int = 10) -> float:
    """Expected calibration error with bins of equal size: the mean distance of prediction and truth."""
    order = np.argsort(predicted_N, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    distance = sum(len(part) * abs(float(predicted_N[part].mean() - truth_N[part].mean())) for part in parts)
    return distance / max(len(order), 1)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
