"""Which language a text is in, out of a few that samples were seen of.

    "Wo ist der Hund?"  ->  wo ist der hund  ->  " w", "wo ", "der", " der ", "hu", …  ->  de 0.99, en 0.01, fr 0.00

Words are taken in lower case, without digits and addresses, with a space at both ends to tell "der" in "andere" from
the word. Their parts of 1 to 4 characters and the words themselves are the features. Learning counts them and keeps
those that tell most; of each, how much likelier it is in every language than on average (as a logarithm). To detect is
to add those up. What was never seen says nothing: for a text in another script, or without letters, all are as likely.
A text in a language that is not known comes out as the known one that is most like it.
"""

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from regard.errors import InputError, ModelError
from regard.text import files

FILE = "languages.json"
LONGEST_TEXT = 4000
"""Characters that are looked at: a page of text, far more than it takes."""
LONGEST_PART = 4
"""Characters, with the spaces around a word."""
LONGEST_WORD = 12
"""Letters: longer words are rare, and told by their parts."""
KEPT = 5000
"""Features of all languages together."""
SMALLEST = 0.5
"""Times that a feature counts as seen where it was not."""
TRUST = 0.2
"""Parts overlap and say the same thing several times; this makes probabilities come true about as often as they say."""
HUNDREDTHS = 100
"""Scores are kept as whole hundredths, which makes the file small and reading it exact."""
CERTAINTY = 0.8
"""Probability from which a language is believed although somebody named another one."""
LARGEST = 100 * HUNDREDTHS
"""Of a score: more would mean samples of e^100 words."""
FORMAT = "regard languages 1"
WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")

Scores = dict[str, tuple[int, ...]]
"""Feature -> for each language, hundredths of how much likelier it is there than on average."""


class Languages:
    """Known languages, and what tells them apart."""

    def __init__(self, known: Sequence[str], scores: Scores) -> None:
        self.known = tuple(known)
        self._scores = scores

    @classmethod
    def learn(cls, texts: Mapping[str, Iterable[str]]) -> Self:
        """`texts`: language code -> samples; the same samples give the same result."""
        if not texts:
            raise InputError("there is no language to learn")
        counts = {language: _counts(samples) for language, samples in texts.items()}
        for language, sizes in counts.items():
            if not sizes:
                raise InputError(f"there are no words to learn the language {language!r} from")
        return cls(list(counts), _most_telling(list(counts.values())))

    @classmethod
    def load(cls, path: Path) -> Self:
        """What `save` wrote."""
        try:
            raw = json.loads(path.read_bytes().decode("utf-8"))
        except OSError as error:
            raise ModelError(f"{path}: cannot be read ({error.strerror})") from None
        except (ValueError, RecursionError) as error:
            raise ModelError(f"{path}: is not valid JSON ({files.one_line(error)})") from None
        return cls(*_checked(raw, path))

    def save(self, path: Path) -> None:
        raw = {"format": FORMAT, "known": self.known, "scores": dict(sorted(self._scores.items()))}
        content = json.dumps(raw, ensure_ascii=False, separators=(",", ":")) + "\n"
        files.write_files(path.parent, {path.name: content.encode("utf-8")})

    def detect(self, text: str) -> list[tuple[str, float]]:
        """Each language and its probability, the best first; those that are as likely in the order of `known`."""
        sums = [0] * len(self.known)
        for word in _words(text[:LONGEST_TEXT]):
            for feature in _features(word):
                if scores := self._scores.get(feature):
                    sums = [total + score for total, score in zip(sums, scores, strict=True)]
        best = max(sums)
        shares = [math.exp((total - best) * TRUST / HUNDREDTHS) for total in sums]
        found = [(language, share / sum(shares)) for language, share in zip(self.known, shares, strict=True)]
        return sorted(found, key=lambda pair: -pair[1])

    def is_other_than(self, language: str, text: str) -> bool:
        """Whether the text is in another language than this one, beyond doubt."""
        best, probability = self.detect(text)[0]
        return best != language and probability >= CERTAINTY


def _words(text: str) -> Iterator[str]:
    """In lower case. Accents are composed, or é and its two halves would be strangers; so are apostrophes made one."""
    for chunk in unicodedata.normalize("NFC", text).lower().replace("’", "'").split():
        if "://" not in chunk and "@" not in chunk and not chunk.startswith("www."):
            yield from WORD.findall(chunk)


def _features(word: str) -> Iterator[str]:
    padded = f" {word} "
    for size in range(1, LONGEST_PART + 1):
        for start in range(len(padded) - size + 1):
            yield padded[start : start + size]
    if LONGEST_PART < len(padded) <= LONGEST_WORD + 2:
        yield padded


def _counts(samples: Iterable[str]) -> Counter[str]:
    words = Counter(word for sample in samples for word in _words(sample))
    counts: Counter[str] = Counter()
    for word, count in words.items():  # each word is taken apart once, however often it was there
        for feature in _features(word):
            if not feature.isspace():
                counts[feature] += count
    return counts


def _most_telling(counts: Sequence[Counter[str]]) -> Scores:
    """A feature tells much if it is common and far from equally likely everywhere."""
    totals = [_totals(count) for count in counts]
    telling: dict[str, float] = {}
    scores: Scores = {}
    for feature in sorted(set().union(*counts)):
        size = min(len(feature), LONGEST_PART + 1)
        shares = [
            (count[feature] + SMALLEST) / (total[size] + SMALLEST) for count, total in zip(counts, totals, strict=True)
        ]
        logs = [math.log(share) for share in shares]
        mean = sum(logs) / len(logs)
        telling[feature] = sum(share * abs(log - mean) for share, log in zip(shares, logs, strict=True))
        scores[feature] = tuple(round((log - mean) * HUNDREDTHS) for log in logs)
    kept = sorted(telling, key=lambda feature: -telling[feature])[:KEPT]
    return {feature: scores[feature] for feature in kept if any(scores[feature])}


def _totals(counts: Counter[str]) -> Counter[int]:
    """Length of a feature (5 for whole words) -> how many of them there are."""
    totals: Counter[int] = Counter()
    for feature, count in counts.items():
        totals[min(len(feature), LONGEST_PART + 1)] += count
    return totals


def _checked(raw: Any, path: Path) -> tuple[list[str], Scores]:
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise ModelError(f"{path}: is no file of languages (it must be an object of format {FORMAT!r})")
    known, scores = raw.get("known"), raw.get("scores")
    if not isinstance(known, list) or not known or not all(isinstance(name, str) and name for name in known):
        raise ModelError(f"{path}: 'known' must be a list of language codes")
    if len(set(known)) != len(known):
        raise ModelError(f"{path}: 'known' names a language twice")
    if not isinstance(scores, dict):
        raise ModelError(f"{path}: 'scores' must be an object")
    for feature, row in scores.items():
        if not isinstance(row, list) or len(row) != len(known) or not all(map(_is_score, row)):
            raise ModelError(f"{path}: the scores of {feature!r} must be {len(known)} whole numbers, one per language")
    return known, {feature: tuple(row) for feature, row in scores.items()}


def _is_score(value: Any) -> bool:
    return type(value) is int and abs(value) <= LARGEST  # JSON's true is an int for isinstance
