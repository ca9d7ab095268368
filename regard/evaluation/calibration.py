"""Translations beside their references -> how sure a model may be (translate/confidence.py).

A sentence counts as right when its chrF against the reference is at least one half, a word when the reference has it.
Both are too strict, since there are other good translations; so a confidence is rather too low than too high.

N sentences or words  F features
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sacrebleu import sentence_chrf

from regard.tasks import TranslationModel
from regard.tasks.base import Translation
from regard.text.words import word_numbers
from regard.translate.confidence import Confidence, calibration_error, chance, fit, sentence_features, word_features

CLOSE = 50.0
FOLDS = 5

Table = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Features (N, F), and the truth about each row (N)."""


class Known(NamedTuple):
    """Texts and their translations, all in one direction."""

    sources: Sequence[str]
    references: Sequence[str]
    to: str | None = None


def calibrate(translator: TranslationModel, known: Sequence[Known]) -> Confidence:
    """Fit on all of it; the errors are those of folds that were not fitted on."""
    sentences: list[Table] = []
    words: list[Table] = []
    for part in known:
        found = translator.translations(part.sources, to=part.to)
        for (best, *_), reference in zip(found, part.references, strict=True):
            sentences.append(_of_sentence(best, reference))
            words.append(_of_words(translator, best, reference))
    luck = np.random.default_rng(1).permutation(len(sentences))
    folds = np.array_split(luck, FOLDS)
    return Confidence(
        sentence=fit(*_table(sentences, luck)),
        word=fit(*_table(words, luck)),
        error={"sentence": _error(sentences, folds), "word": _error(words, folds)},
    )


def _of_sentence(found: Translation, reference: str) -> Table:
    features = sentence_features(found.piece_log_probabilities, len(found.source_ids))
    close = sentence_chrf(found.text, [reference]).score >= CLOSE
    return np.array([features]), np.array([float(close)])


def _of_words(translator: TranslationModel, found: Translation, reference: str) -> Table:
    logs, there = found.piece_log_probabilities, set(_letters(reference).split())
    numbers = word_numbers(found.pieces, found.ids, ())
    rows, truth = [], []
    for word in range(max(numbers, default=-1) + 1):
        places = [i for i, number in enumerate(numbers) if number == word]
        text = _letters(translator.tokenizer.decode([found.ids[i] for i in places]))
        rows.append(word_features([logs[i] for i in places], logs))
        truth.append(float(set(text.split()) <= there))
    return np.array(rows).reshape(len(rows), -1), np.array(truth)


def _letters(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _table(parts: Sequence[Table], chosen: NDArray[np.int64]) -> Table:
    full = [parts[i] for i in chosen if len(parts[i][1])]
    return np.concatenate([rows for rows, _ in full]), np.concatenate([truth for _, truth in full])


def _error(parts: Sequence[Table], folds: Sequence[NDArray[np.int64]]) -> float:
    """The calibration error of each sentence's or word's chance, told by a fit on the other folds."""
    chances, truths = [], []
    for fold in folds:
        others = np.concatenate([other for other in folds if other is not fold])
        weights = fit(*_table(parts, others))
        rows, truth = _table(parts, fold)
        chances.append(np.array([chance(weights, row) for row in rows.tolist()]))
        truths.append(truth)
    return round(calibration_error(np.concatenate(chances), np.concatenate(truths)), 4)
