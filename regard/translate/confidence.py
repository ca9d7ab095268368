"""How far a translation can be trusted: log-probabilities -> a number from 0 to 1 that means something.

A model's probabilities are no such number: it is surer than it should be, and a long sentence has a small one however
good it is. So two logistic regressions are fitted on translations of which the truth is known (evaluation/calibration):

    a word       the chance that it stands in the reference
    a sentence   the chance that it is close to the reference (chrF of at least 0.5)

A model without fitted weights gets the geometric mean of its probabilities, which is not calibrated.

N examples  F features
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.config import load_json, read

FILE = "confidence.json"
LOWEST = -12.0
"""Log-probabilities below count as this: one impossible token must not be worth a hundred doubtful ones."""
STEPS = 50
RIDGE = 1e-3


@dataclass(frozen=True, kw_only=True)
class Confidence:
    """Weights of the two regressions, the constant first; empty ones are not fitted."""

    sentence: tuple[float, ...] = ()
    word: tuple[float, ...] = ()
    error: dict[str, float] | None = None
    """The calibration error that was found on pairs that were not fitted on, by name."""

    @classmethod
    def load(cls, directory: Path) -> "Confidence":
        """A model directory's; one that is not fitted where it has none."""
        path = directory / FILE
        return read(cls, load_json(path), str(path)) if path.is_file() else cls()

    @property
    def fitted(self) -> bool:
        return bool(self.sentence and self.word)

    def of_sentence(self, log_probabilities: Sequence[float], read: int) -> float:
        """Of a translation with these tokens, of a source with `read` of them."""
        if not self.sentence:
            return math.exp(_mean(log_probabilities))
        return chance(self.sentence, sentence_features(log_probabilities, read))

    def of_word(self, log_probabilities: Sequence[float], whole: Sequence[float]) -> float:
        """Of a word with these tokens, in a translation with `whole`."""
        if not self.word:
            return math.exp(min(log_probabilities, default=0.0))
        return chance(self.word, word_features(log_probabilities, whole))


def sentence_features(log_probabilities: Sequence[float], read: int) -> list[float]:
    """What tells a good translation from a bad one: how sure it was on the whole, at its worst, and how long it is."""
    values = [max(one, LOWEST) for one in log_probabilities]
    doubtful = sum(one < math.log(0.3) for one in values)
    return [
        _mean(values),
        min(values, default=0.0),
        doubtful / max(len(values), 1),
        math.log1p(len(values)),
        math.log((len(values) + 1) / (read + 1)),
    ]


def word_features(log_probabilities: Sequence[float], whole: Sequence[float]) -> list[float]:
    values, around = ([max(one, LOWEST) for one in part] for part in (log_probabilities, whole))
    return [sum(values), min(values, default=0.0), _mean(around), min(around, default=0.0), math.log1p(len(around))]


def chance(weights: Sequence[float], features: Sequence[float]) -> float:
    total = weights[0] + sum(weight * feature for weight, feature in zip(weights[1:], features, strict=True))
    return 1 / (1 + math.exp(-max(-50.0, min(50.0, total))))


def fit(features_NF: NDArray[np.float64], truth_N: NDArray[np.float64]) -> tuple[float, ...]:
    """Logistic regression by Newton's method, the constant first; a little ridge, so that it always has an answer."""
    count = len(features_NF)
    x = np.concatenate((np.ones((count, 1)), features_NF), axis=1)
    weights = np.zeros(x.shape[1])
    keep = RIDGE * np.eye(len(weights))
    for _ in range(STEPS):
        chances = 1 / (1 + np.exp(-np.clip(x @ weights, -50, 50)))
        slope = x.T @ (chances - truth_N) / count + keep @ weights
        curve = (x * (chances * (1 - chances))[:, None]).T @ x / count + keep
        step = np.linalg.solve(curve, slope)
        weights = weights - step
        if np.abs(step).max() < 1e-9:
            break
    return tuple(round(float(one), 6) for one in weights)


def calibration_error(chances_N: NDArray[np.float64], truth_N: NDArray[np.float64], bins: int = 10) -> float:
    """How far what was said is from what was so: in bins of equally many, the mean distance of the two means."""
    order = np.argsort(chances_N, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    apart = sum(len(part) * abs(float(chances_N[part].mean() - truth_N[part].mean())) for part in parts)
    return apart / max(len(order), 1)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
