"""Language detection: which of a few known languages a text is in.

    "Wo ist der Hund?"  ->  wo ist der hund  ->  " w", "wo ", "der", " der ", "hu", …  ->  de 0.99, en 0.01, fr 0.00

Words are lowered and stripped of digits and addresses, with a space at both ends to tell "der" in "andere" from the
word. The features are their character n-grams of 1 to 4 and the words themselves. Learning counts features and keeps
the most telling ones, each with a score for every language: the log of how much likelier it is there than on average.
Detection adds the scores up. Unknown features count nothing: for a text in another script, or without letters, all
languages are equally likely. A text in an unknown language is taken for the most similar known one.
"""

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from regard.config import MAX_JSON_BYTES, read_file
from regard.errors import InputError, ModelError, one_line
from regard.text import tokenizer as files

FILE = "languages.json"
MAX_TEXT = 4000
"""Only this many characters of a text are read: a page, far more than needed."""
MAX_NGRAM = 4
"""Characters, including the spaces around a word."""
MAX_WORD = 12
"""Letters of a word that is a feature itself: longer words are rare, and known by their n-grams."""
MAX_FEATURES = 5000
"""Of all languages together."""
SMOOTHING = 0.5
"""Added to the count of every feature."""
SCORE_WEIGHT = 0.2
"""N-grams overlap and count the same evidence several times; with this weight, probabilities are about calibrated."""
HUNDREDTHS = 100
"""Scores are stored as whole hundredths: the file is small, and reading it is exact."""
CERTAINTY = 0.8
"""Probability from which a language is believed although somebody named another one."""
MAX_SCORE = 100 * HUNDREDTHS
"""A larger score would need samples of e^100 words."""
MAX_LANGUAGES = 1000
"""Detection takes time in proportion to their number: 1 s for a page and this many."""
FORMAT = "regard languages 1"
WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")

Scores = dict[str, tuple[int, ...]]
"""Feature -> a score for each language, in hundredths: the log of how much likelier it is there than on average."""


class Languages:
    """A detector for a few known languages."""

    def __init__(self, known: Sequence[str], scores: Scores) -> None:
        self.known = tuple(known)
        self._scores = scores

    @classmethod
    def learn(cls, texts: Mapping[str, Iterable[str]]) -> Self:
        """Learn from samples of each language. The same samples give the same detector."""
        if not texts:
            raise InputError("no languages to learn; give samples of at least one")
        counts = {language: _counts(samples) for language, samples in texts.items()}
        for language, sizes in counts.items():
            if not sizes:
                raise InputError(f"the samples of the language {language!r} have no words")
        return cls(list(counts), _most_informative(list(counts.values())))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        try:
            raw = json.loads(read_file(path, MAX_JSON_BYTES).decode("utf-8"))
        except OSError as error:
            raise ModelError(f"{path}: cannot be read ({error.strerror})") from None
        except (ValueError, RecursionError) as error:
            raise ModelError(f"{path}: is not valid JSON ({one_line(error)})") from None
        return cls(*_checked(raw, path))

    def save(self, path: Path) -> None:
        raw = {"format": FORMAT, "known": self.known, "scores": dict(sorted(self._scores.items()))}
        content = json.dumps(raw, ensure_ascii=False, separators=(",", ":")) + "\n"
        files.write_files(path.parent, {path.name: content.encode("utf-8")})

    def detect(self, text: str) -> list[tuple[str, float]]:
        """Each language and its probability, the likeliest first; equally likely ones in the order of `known`."""
        sums = [0] * len(self.known)
        for word in _words(text[:MAX_TEXT]):
            for feature in _features(word):
                if scores := self._scores.get(feature):
                    sums = [total + score for total, score in zip(sums, scores, strict=True)]
        best = max(sums)
        shares = [math.exp((total - best) * SCORE_WEIGHT / HUNDREDTHS) for total in sums]
        total_share = sum(shares)
        found = [(language, share / total_share) for language, share in zip(self.known, shares, strict=True)]
        return sorted(found, key=lambda pair: -pair[1])

    def is_other_than(self, language: str, text: str) -> bool:
        """Whether the text is in another language than this one, beyond doubt."""
        best, probability = self.detect(text)[0]
        return best != language and probability >= CERTAINTY


def _words(text: str) -> Iterator[str]:
    """The words in lower case, with composed accents and one kind of apostrophe, so that equal words are equal."""
    for chunk in unicodedata.normalize("NFC", text).lower().replace("’", "'").split():
        if "://" not in chunk and "@" not in chunk and not chunk.startswith("www."):
            yield from WORD.findall(chunk)


def _features(word: str) -> Iterator[str]:
    padded = f" {word} "
    for size in range(1, MAX_NGRAM + 1):
        for start in range(len(padded) - size + 1):
            yield padded[start : start + size]
    if MAX_NGRAM < len(padded) <= MAX_WORD + 2:
        yield padded


def _counts(samples: Iterable[str]) -> Counter[str]:
    words = Counter(word for sample in samples for word in _words(sample))
    counts: Counter[str] = Counter()
    for word, count in words.items():  # each distinct word is split once
        for feature in _features(word):
            if not feature.isspace():
                counts[feature] += count
    return counts


def _most_informative(counts: Sequence[Counter[str]]) -> Scores:
    """A feature is telling if it is common, and much likelier in some languages than in others."""
    totals = [_totals(count) for count in counts]
    information: dict[str, float] = {}
    scores: Scores = {}
    for feature in sorted(set().union(*counts)):
        size = min(len(feature), MAX_NGRAM + 1)
        shares = [
            (count[feature] + SMOOTHING) / (total[size] + SMOOTHING)
            for count, total in zip(counts, totals, strict=True)
        ]
        logs = [math.log(share) for share in shares]
        mean = sum(logs) / len(logs)
        information[feature] = sum(share * abs(log - mean) for share, log in zip(shares, logs, strict=True))
        scores[feature] = tuple(round((log - mean) * HUNDREDTHS) for log in logs)
    kept = sorted(information, key=lambda feature: -information[feature])[:MAX_FEATURES]
    return {feature: scores[feature] for feature in kept if any(scores[feature])}


def _totals(counts: Counter[str]) -> Counter[int]:
    """Length of a feature (5 for whole words) -> the number of such features."""
    totals: Counter[int] = Counter()
    for feature, count in counts.items():
        totals[min(len(feature), MAX_NGRAM + 1)] += count
    return totals


def _checked(raw: Any, path: Path) -> tuple[list[str], Scores]:
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise ModelError(f"{path}: is not a language file; expected a JSON object with format {FORMAT!r}")
    known, scores = raw.get("known"), raw.get("scores")
    if not isinstance(known, list) or not known or not all(isinstance(name, str) and name for name in known):
        raise ModelError(f"{path}: 'known' must be a list of language codes")
    if len(known) > MAX_LANGUAGES:
        raise ModelError(f"{path}: 'known' has {len(known):,} languages, more than {MAX_LANGUAGES:,}")
    if len(set(known)) != len(known):
        raise ModelError(f"{path}: 'known' names a language twice")
    if not isinstance(scores, dict):
        raise ModelError(f"{path}: 'scores' must be an object")
    for feature, row in scores.items():
        if not isinstance(row, list) or len(row) != len(known) or not all(map(_is_score, row)):
            raise ModelError(f"{path}: the scores of {feature!r} must be {len(known)} whole numbers, one per language")
    return known, {feature: tuple(row) for feature, row in scores.items()}


def _is_score(value: Any) -> bool:
    return type(value) is int and abs(value) <= MAX_SCORE  # JSON's true is an int for isinstance
