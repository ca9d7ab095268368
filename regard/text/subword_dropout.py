"""Random segmentations of words for training, so that a model learns their parts (subword regularization).

BPE-dropout skips each possible merge with some probability. For unigram, each piece of more than one character is
skipped with that probability, and the most likely segmentation of the rest is used. With a dropout of 0 both give the
tokenizer's own segmentation.

The libraries draw from generators that cannot be seeded. Here every random number is a hash of what it is for, so a
word has the same segmentations on every machine and among any other words, and a resumed run sees the same data.

R rows (a word, one of its segmentations)  N length of the word  P longest piece
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tokenizers import Tokenizer

from regard.errors import ConfigError

VARIANTS = 16
"""Random segmentations per word."""
MAX_WORD_LENGTH = 64
"""Characters. Longer ones are not words (links, tables) and always keep the tokenizer's own segmentation."""
ROWS_PER_PASS = 1 << 15
NO_MERGE = np.iinfo(np.int64).max

Ids = NDArray[np.int64]
Bits = NDArray[np.uint64]


def random_bits(*parts: ArrayLike) -> Bits:
    """64 random bits: a hash of the parts; arrays are broadcast."""
    bits = np.zeros(1, np.uint64)
    for part in parts:
        bits = _mix(bits ^ np.asarray(part).astype(np.uint64))
    return bits


def _mix(bits: Bits) -> Bits:
    """splitmix64 (Steele, Lea and Flood 2014)."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


class Segmentations(NamedTuple):
    """The segmentations of some words, end to end."""

    ids: Ids
    lengths: Ids
    """(words, segmentations): the number of ids of each."""


class _Model(Protocol):
    def segment(self, words: Sequence[str], keys_R: Bits, dropout: int) -> tuple[Ids, Ids]:
        """Words of one length, each repeated once per key -> ids (R, N), and how many of them each row uses (R).

        `dropout` is a probability times 2^64.
        """

    def can_vary(self, word: str) -> bool: ...


class SubwordDropout:
    """Texts -> words -> segmentations, for a tokenizer learned by regard."""

    def __init__(self, content: bytes, dropout: float, variants: int = VARIANTS) -> None:
        """`content`: a tokenizer.json."""
        self._tokenizer = Tokenizer.from_str(content.decode("utf-8"))
        raw = json.loads(content)
        try:
            if raw["normalizer"] != {"type": "Prepend", "prepend": " "}:
                raise ValueError
            self._model: _Model = MODELS[raw["model"]["type"]](raw["model"])
        except (KeyError, TypeError, ValueError):  # nothing else has exactly these keys
            raise ConfigError("dropout needs a tokenizer learned by regard; this one comes from elsewhere") from None
        self._dropout = int(dropout * 2.0**64)
        self.variants = variants

    def split_words(self, text: str) -> list[str]:
        """The words of a text, as the tokenizer splits them before it segments them."""
        normalized = self._tokenizer.normalizer.normalize_str(text)
        return [word for word, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(normalized)]

    def tokenize(self, word: str) -> list[int]:
        """The ids of a word in the tokenizer's own segmentation."""
        return [token.id for token in self._tokenizer.model.tokenize(word)]

    def varies(self, word: str) -> bool:
        return 1 < len(word) <= MAX_WORD_LENGTH and self._model.can_vary(word)

    def segmentations(self, words: Sequence[str]) -> Segmentations:
        """For each word, the tokenizer's own segmentation, then `variants` random ones (some may be equal)."""
        results: list[list[Ids]] = [[] for _ in words]
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for number, word in enumerate(words):
            default = np.asarray(self.tokenize(word), np.int64)
            results[number] = [default] * (self.variants + 1)
            if self.varies(word):
                groups[len(word)].append(number)
        step = max(1, ROWS_PER_PASS // self.variants)
        for _, group in sorted(groups.items()):
            for start in range(0, len(group), step):
                self._vary([(number, words[number]) for number in group[start : start + step]], results)
        lengths = np.array([[len(ids) for ids in rows] for rows in results], np.int64).reshape(-1, self.variants + 1)
        return Segmentations(
            np.concatenate([ids for rows in results for ids in rows] or [np.zeros(0, np.int64)]), lengths
        )

    def _vary(self, group: Sequence[tuple[int, str]], results: list[list[Ids]]) -> None:
        """Replace all but the first result of these words, all of one length."""
        words = [word for _, word in group]
        hashes = [int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little") for word in words]
        keys = random_bits(np.array(hashes, np.uint64)[:, None], np.arange(self.variants)).reshape(-1)
        ids_RN, used_R = self._model.segment(words, keys, self._dropout)
        rows = iter(zip(ids_RN, used_R.tolist(), strict=True))
        for number, _ in group:
            results[number][1:] = [ids[:used] for ids, used in (next(rows) for _ in range(self.variants))]


class _Bpe:
    """Merges pairs of pieces; the pair that was learned first comes first."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self._ids: dict[str, int] = raw["vocab"]
        pairs = np.array([(self._ids[a], self._ids[b]) for a, b in raw["merges"]], np.int64).reshape(-1, 2)
        self._result = np.array([self._ids[a + b] for a, b in raw["merges"]], np.int64)
        keys = pairs[:, 0] << 32 | pairs[:, 1]
        self._ranks = np.argsort(keys)
        self._keys = keys[self._ranks]

    def can_vary(self, word: str) -> bool:
        return len(self._keys) > 0

    def segment(self, words: Sequence[str], keys_R: Bits, dropout: int) -> tuple[Ids, Ids]:
        letters = np.array([[self._ids[letter] for letter in word] for word in words], np.int64)
        ids = np.repeat(letters, len(keys_R) // len(words), axis=0)
        done, used = ids.copy(), np.zeros(len(ids), np.int64)
        live, ranks = np.arange(len(ids)), self._rank(ids[:, :-1], ids[:, 1:])
        for step in range(letters.shape[1]):  # every live row makes one merge per step, so all have one length
            width = ids.shape[1]
            if width > 1:
                skipped = random_bits(keys_R[live, None], step, np.arange(width - 1)) < np.uint64(dropout)
                best = np.where(skipped, NO_MERGE, ranks).argmin(axis=1)
                rank = np.where(skipped, NO_MERGE, ranks)[np.arange(len(live)), best]
                merges = rank < NO_MERGE
            else:
                merges = np.zeros(len(live), bool)
            finished = live[~merges]
            done[finished, :width], used[finished] = ids[~merges], width
            live, ids, ranks = live[merges], ids[merges], ranks[merges]
            if len(live) == 0:
                break
            ids, ranks = self._merge(ids, ranks, best[merges], rank[merges])
        return done, used

    def _merge(self, ids: Ids, ranks: Ids, position: Ids, rank: Ids) -> tuple[Ids, Ids]:
        """Merge the pair at `position` into one piece, and rank the two pairs that it is now part of."""
        rows, width = np.arange(len(ids)), ids.shape[1] - 1
        keep = np.arange(width)
        ids = np.take_along_axis(ids, keep + (keep > position[:, None]), axis=1)
        ids[rows, position] = self._result[rank]
        keep = np.arange(width - 1)
        ranks = np.take_along_axis(ranks, keep + (keep >= position[:, None]), axis=1)
        for left in (position - 1, position):
            exists = (left >= 0) & (left < width - 1)
            row, left = rows[exists], left[exists]
            ranks[row, left] = self._rank(ids[row, left], ids[row, left + 1])
        return ids, ranks

    def _rank(self, left: Ids, right: Ids) -> Ids:
        keys = left << 32 | right
        index = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[index] == keys, self._ranks[index], NO_MERGE)


class _Unigram:
    """Finds the most likely pieces (Viterbi)."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self._pieces = {piece: (number, score) for number, (piece, score) in enumerate(raw["vocab"])}
        self._longest = max(map(len, self._pieces))

    def can_vary(self, word: str) -> bool:
        """False with a character that is encoded as bytes: it has no other segmentation."""
        return all(character in self._pieces for character in word)

    def segment(self, words: Sequence[str], keys_R: Bits, dropout: int) -> tuple[Ids, Ids]:
        length, times = len(words[0]), len(keys_R) // len(words)
        longest = min(self._longest, length)
        piece_WPN, score_WPN = self._lattice(words, longest)
        word_R = np.repeat(np.arange(len(words)), times)
        best = np.full((len(keys_R), length + 1), -np.inf)  # score of the best segmentation of the first n characters
        best[:, 0] = 0.0
        last = np.zeros((len(keys_R), length + 1), np.int64)  # length of its last piece
        for end in range(1, length + 1):
            sizes = np.arange(min(longest, end), 0, -1)  # equally likely: the longer piece, as in the library
            score = best[:, end - sizes] + score_WPN[:, sizes - 1, end - sizes][word_R]
            skipped = random_bits(keys_R[:, None], end, sizes) < np.uint64(dropout)
            choice = np.where(skipped & (sizes > 1), -np.inf, score).argmax(axis=1)
            best[:, end], last[:, end] = score[np.arange(len(score)), choice], sizes[choice]
        return self._backtrack(last, piece_WPN, word_R)

    def _lattice(self, words: Sequence[str], longest: int) -> tuple[Ids, NDArray[np.float64]]:
        """For each word, size and start: the piece and its score."""
        shape = (len(words), longest, len(words[0]))
        pieces, scores = np.zeros(shape, np.int64), np.full(shape, -np.inf)
        for number, word in enumerate(words):
            for start in range(len(word)):
                for size in range(1, min(longest, len(word) - start) + 1):
                    if entry := self._pieces.get(word[start : start + size]):
                        pieces[number, size - 1, start], scores[number, size - 1, start] = entry
        return pieces, scores

    def _backtrack(self, last: Ids, piece_WPN: Ids, word_R: Ids) -> tuple[Ids, Ids]:
        """Backtrack from the end of each word to its start."""
        rows, length = len(last), last.shape[1] - 1
        done, used = np.zeros((rows, length), np.int64), np.zeros(rows, np.int64)
        position = np.full(rows, length)
        for column in range(length - 1, -1, -1):
            live = np.flatnonzero(position)
            size = last[live, position[live]]
            position[live] -= size
            done[live, column] = piece_WPN[word_R[live], size - 1, position[live]]
            used[live] += 1
        start = length - used
        columns = np.minimum(np.arange(length) + start[:, None], length - 1)
        return np.take_along_axis(done, columns, axis=1), used


MODELS: dict[str, type[_Bpe] | type[_Unigram]] = {"BPE": _Bpe, "Unigram": _Unigram}
