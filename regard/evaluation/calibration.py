"""Fits the confidence of a model (documents/confidence.py) on translations and their references.

A sentence counts as right if its chrF against the reference is at least 50, a word if the reference has it. Both are
too strict, since other translations are good as well: confidences are rather too low than too high.

N sentences or words  F features
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sacrebleu import sentence_chrf

from regard.documents.confidence import (
    Confidence,
    calibration_error,
    fit,
    probability,
    sentence_features,
    word_features,
)
from regard.tasks import TranslationModel
from regard.tasks.translation import Translation
from regard.text.word_ids import word_numbers

MIN_CHRF = 50.0
FOLDS = 5

Table = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Features (N, F), and the truth about each row (N)."""


class ParallelTexts(NamedTuple):
    """Source texts and their reference translations, all in one direction."""

    sources: Sequence[str]
    references: Sequence[str]
    to: str | None = None


def calibrate(model: TranslationModel, data: Sequence[ParallelTexts]) -> Confidence:
    """Fit on all of the data; the errors come from cross-validation."""
    sentences: list[Table] = []
    words: list[Table] = []
    for part in data:
        found = model.translations(part.sources, to=part.to)
        for (best, *_), reference in zip(found, part.references, strict=True):
            sentences.append(_sentence_table(best, reference))
            words.append(_word_table(model, best, reference))
    shuffled = np.random.default_rng(1).permutation(len(sentences))
    folds = np.array_split(shuffled, FOLDS)
    return Confidence(
        sentence=fit(*_concatenate(sentences, shuffled)),
        word=fit(*_concatenate(words, shuffled)),
        error={"sentence": _error(sentences, folds), "word": _error(words, folds)},
    )


def _sentence_table(found: Translation, reference: str) -> Table:
    # the source tokens include the language tag; Candidate.confidence (documents/retry.py) must count the same
    features = sentence_features(found.log_probs, len(found.source_ids))
    close = sentence_chrf(found.text, [reference]).score >= MIN_CHRF
    return np.array([features]), np.array([float(close)])


def _word_table(model: TranslationModel, found: Translation, reference: str) -> Table:
    log_probs, expected = found.log_probs, set(_words(reference))
    numbers = word_numbers(found.pieces, found.ids, ())
    rows, truth = [], []
    for word in range(max(numbers, default=-1) + 1):
        indices = [i for i, number in enumerate(numbers) if number == word]
        written = _words(model.tokenizer.decode([found.ids[i] for i in indices]))
        rows.append(word_features([log_probs[i] for i in indices], log_probs))
        truth.append(float(set(written) <= expected))
    return np.array(rows).reshape(len(rows), -1), np.array(truth)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _concatenate(tables: Sequence[Table], chosen: NDArray[np.int64]) -> Table:
    filled = [tables[i] for i in chosen if len(tables[i][1])]
    return np.concatenate([rows for rows, _ in filled]), np.concatenate([truth for _, truth in filled])


def _error(tables: Sequence[Table], folds: Sequence[NDArray[np.int64]]) -> float:
    """The calibration error of predictions for each fold by a fit on the other folds."""
    predicted, truths = [], []
    for fold in folds:
        others = np.concatenate([other for other in folds if other is not fold])
        weights = fit(*_concatenate(tables, others))
        rows, truth = _concatenate(tables, fold)
        predicted.append(np.array([probability(weights, row) for row in rows.tolist()]))
        truths.append(truth)
    return round(calibration_error(np.concatenate(predicted), np.concatenate(truths)), 4)
