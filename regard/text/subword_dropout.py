"""Words cut differently from time to time, so that a model learns what is inside of them (subword regularisation).

BPE-dropout passes over each merge with some chance whenever it could be made; for unigram, each piece of more than
one character is passed over with that chance and the likeliest cut is made of the rest. Without dropout both give
what the tokenizer gives.

The libraries draw from generators that cannot be seeded. Here every draw is a hash of what it is for, so the same
word has the same cuts on every machine and in whatever company, and a run that goes on sees what it would have seen.

R rows (a word, one of its cuts)  N length of the word  P longest piece
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
"""Cuts of a word to choose from."""
LONGEST_WORD = 64
"""Longer ones are no words (links, tables), and are always cut the plain way."""
AT_ONCE = 1 << 15
"""Rows that are cut together."""
NEVER = np.iinfo(np.int64).max

Ids = NDArray[np.int64]
Bits = NDArray[np.uint64]


def draw(*parts: ArrayLike) -> Bits:
    """64 random bits that depend on all the parts and on nothing else; arrays are broadcast."""
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


class Cuts(NamedTuple):
    """The cuts of some words, laid end to end."""

    ids: Ids
    lengths: Ids
    """(words, cuts): how many ids each takes."""


class _Model(Protocol):
    def cut(self, words: Sequence[str], keys_R: Bits, chance: int) -> tuple[Ids, Ids]:
        """Words of one length, each as often as it has keys -> ids (R, N), of which each row uses some: (R)."""

    def knows(self, word: str) -> bool: ...


class Sampler:
    """Texts -> words -> cuts, for a tokenizer that regard learnt."""

    def __init__(self, content: bytes, dropout: float, variants: int = VARIANTS) -> None:
        """`content`: a tokenizer.json."""
        self._tokenizer = Tokenizer.from_str(content.decode("utf-8"))
        raw = json.loads(content)
        if raw["normalizer"] != {"type": "Prepend", "prepend": " "} or raw["model"]["type"] not in MODELS:
            raise ConfigError("dropout needs a tokenizer that regard has learnt; this one came from elsewhere")
        self._model: _Model = MODELS[raw["model"]["type"]](raw["model"])
        self._chance = int(dropout * 2.0**64)
        self.variants = variants

    def words(self, text: str) -> list[str]:
        """As the tokenizer splits them, before it cuts them."""
        normal = self._tokenizer.normalizer.normalize_str(text)
        return [word for word, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(normal)]

    def plain(self, word: str) -> list[int]:
        return [token.id for token in self._tokenizer.model.tokenize(word)]

    def varies(self, word: str) -> bool:
        return 1 < len(word) <= LONGEST_WORD and self._model.knows(word)

    def cuts(self, words: Sequence[str]) -> Cuts:
        """Of each word the plain cut, then as many others as there are variants (some may be alike)."""
        found: list[list[Ids]] = [[] for _ in words]
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for number, word in enumerate(words):
            plain = np.asarray(self.plain(word), np.int64)
            found[number] = [plain] * (self.variants + 1)
            if self.varies(word):
                groups[len(word)].append(number)
        step = max(1, AT_ONCE // self.variants)
        for _, group in sorted(groups.items()):
            for start in range(0, len(group), step):
                self._vary([(number, words[number]) for number in group[start : start + step]], found)
        lengths = np.array([[len(cut) for cut in cuts] for cuts in found], np.int64).reshape(-1, self.variants + 1)
        return Cuts(np.concatenate([cut for cuts in found for cut in cuts] or [np.zeros(0, np.int64)]), lengths)

    def _vary(self, group: Sequence[tuple[int, str]], found: list[list[Ids]]) -> None:
        words = [word for _, word in group]
        own = [int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little") for word in words]
        keys = draw(np.array(own, np.uint64)[:, None], np.arange(self.variants)).reshape(-1)
        ids_RN, used_R = self._model.cut(words, keys, self._chance)
        rows = iter(zip(ids_RN, used_R.tolist(), strict=True))
        for number, _ in group:
            found[number][1:] = [ids[:used] for ids, used in (next(rows) for _ in range(self.variants))]


class _Bpe:
    """Pieces are merged two by two, the pair that was learnt first before the others."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self._ids: dict[str, int] = raw["vocab"]
        pairs = np.array([(self._ids[a], self._ids[b]) for a, b in raw["merges"]], np.int64).reshape(-1, 2)
        self._result = np.array([self._ids[a + b] for a, b in raw["merges"]], np.int64)
        keys = pairs[:, 0] << 32 | pairs[:, 1]
        self._ranks = np.argsort(keys)
        self._keys = keys[self._ranks]

    def knows(self, word: str) -> bool:
        return len(self._keys) > 0

    def cut(self, words: Sequence[str], keys_R: Bits, chance: int) -> tuple[Ids, Ids]:
        letters = np.array([[self._ids[letter] for letter in word] for word in words], np.int64)
        ids = np.repeat(letters, len(keys_R) // len(words), axis=0)
        done, used = ids.copy(), np.zeros(len(ids), np.int64)
        live, ranks = np.arange(len(ids)), self._rank(ids[:, :-1], ids[:, 1:])
        for step in range(letters.shape[1]):  # every row that lives makes one merge a step, so all have one length
            width = ids.shape[1]
            if width > 1:
                passed = draw(keys_R[live, None], step, np.arange(width - 1)) < np.uint64(chance)
                best = np.where(passed, NEVER, ranks).argmin(axis=1)
                rank = np.where(passed, NEVER, ranks)[np.arange(len(live)), best]
                merges = rank < NEVER
            else:
                merges = np.zeros(len(live), bool)
            ended = live[~merges]
            done[ended, :width], used[ended] = ids[~merges], width
            live, ids, ranks = live[merges], ids[merges], ranks[merges]
            if len(live) == 0:
                break
            ids, ranks = self._merge(ids, ranks, best[merges], rank[merges])
        return done, used

    def _merge(self, ids: Ids, ranks: Ids, place: Ids, rank: Ids) -> tuple[Ids, Ids]:
        """The pair at `place` becomes one piece, and the two pairs that it is now part of are ranked anew."""
        rows, width = np.arange(len(ids)), ids.shape[1] - 1
        keep = np.arange(width)
        ids = np.take_along_axis(ids, keep + (keep > place[:, None]), axis=1)
        ids[rows, place] = self._result[rank]
        keep = np.arange(width - 1)
        ranks = np.take_along_axis(ranks, keep + (keep >= place[:, None]), axis=1)
        for left in (place - 1, place):
            there = (left >= 0) & (left < width - 1)
            at, left = rows[there], left[there]
            ranks[at, left] = self._rank(ids[at, left], ids[at, left + 1])
        return ids, ranks

    def _rank(self, left: Ids, right: Ids) -> Ids:
        keys = left << 32 | right
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._ranks[place], NEVER)


class _Unigram:
    """The pieces whose probabilities have the largest product."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self._pieces = {piece: (number, score) for number, (piece, score) in enumerate(raw["vocab"])}
        self._longest = max(map(len, self._pieces))

    def knows(self, word: str) -> bool:
        """A character that is written as bytes has no other cut."""
        return all(character in self._pieces for character in word)

    def cut(self, words: Sequence[str], keys_R: Bits, chance: int) -> tuple[Ids, Ids]:
        length, times = len(words[0]), len(keys_R) // len(words)
        longest = min(self._longest, length)
        piece_WPN, score_WPN = self._lattice(words, longest)
        word_R = np.repeat(np.arange(len(words)), times)
        best = np.full((len(keys_R), length + 1), -np.inf)  # of the first so many characters
        best[:, 0] = 0.0
        last = np.zeros((len(keys_R), length + 1), np.int64)  # how long the last piece of that is
        for end in range(1, length + 1):
            sizes = np.arange(min(longest, end), 0, -1)  # of two that are as likely, the longer piece: as the library
            score = best[:, end - sizes] + score_WPN[:, sizes - 1, end - sizes][word_R]
            passed = draw(keys_R[:, None], end, sizes) < np.uint64(chance)
            choice = np.where(passed & (sizes > 1), -np.inf, score).argmax(axis=1)
            best[:, end], last[:, end] = score[np.arange(len(score)), choice], sizes[choice]
        return self._follow(last, piece_WPN, word_R)

    def _lattice(self, words: Sequence[str], longest: int) -> tuple[Ids, NDArray[np.float64]]:
        """Of each word, for each size and place, the piece and its score."""
        shape = (len(words), longest, len(words[0]))
        pieces, scores = np.zeros(shape, np.int64), np.full(shape, -np.inf)
        for number, word in enumerate(words):
            for start in range(len(word)):
                for size in range(1, min(longest, len(word) - start) + 1):
                    if found := self._pieces.get(word[start : start + size]):
                        pieces[number, size - 1, start], scores[number, size - 1, start] = found
        return pieces, scores

    def _follow(self, last: Ids, piece_WPN: Ids, word_R: Ids) -> tuple[Ids, Ids]:
        """From the end of each word back to its start."""
        rows, length = len(last), last.shape[1] - 1
        done, used = np.zeros((rows, length), np.int64), np.zeros(rows, np.int64)
        place = np.full(rows, length)
        for column in range(length - 1, -1, -1):
            going = np.flatnonzero(place)
            size = last[going, place[going]]
            place[going] -= size
            done[going, column] = piece_WPN[word_R[going], size - 1, place[going]]
            used[going] += 1
        start = length - used
        columns = np.minimum(np.arange(length) + start[:, None], length - 1)
        return np.take_along_axis(done, columns, axis=1), used


MODELS: dict[str, type[_Bpe] | type[_Unigram]] = {"BPE": _Bpe, "Unigram": _Unigram}
