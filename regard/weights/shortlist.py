"""Which words may translate which, learnt from a corpus: a search then weighs some hundreds of words, not all of them.

IBM's model 1: every target word is explained by the source words of its sentence, each in proportion to how well it
explains that word elsewhere. A few rounds of that, and each source word keeps the words that it explains best.

V source vocabulary  C related words of each  F frequent words  E entries: (source word, target word) of a sentence
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import save_file

from regard.errors import InputError, OutputError, WeightsError
from regard.inference.native.kernels import Array
from regard.io import atomic_file
from regard.weights.arrays import read_arrays

Whole = NDArray[np.int64]

FILE = "shortlist.safetensors"
RELATED, FREQUENT, ROUNDS = 64, 400, 4
LARGEST = 30_000_000
"""Entries that are learnt from at most, of a corpus that has more: the first ones. 24 bytes each."""


@dataclass(frozen=True, eq=False)
class Shortlist:
    related_VC: NDArray[np.int32]
    """For each source token the target tokens that may translate it, -1 for none."""
    frequent_F: NDArray[np.int32]
    """The target tokens that may always be said."""


def learn(
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    source_vocab: int,
    vocab: int,
    *,
    related: int = RELATED,
    frequent: int = FREQUENT,
) -> Shortlist:
    """From pairs of token rows, as the model would read and write them."""
    sources_E, targets_E, groups_E, counts_V = _entries(pairs, vocab)
    if not len(sources_E):
        raise InputError("there are no pairs to learn a shortlist from")
    keys, entry_E = np.unique(sources_E * vocab + targets_E, return_inverse=True)
    of_source = keys // vocab
    chance = np.ones(len(keys))
    for _ in range(ROUNDS):
        share_E = chance[entry_E]
        total_G = np.bincount(groups_E, share_E)
        counts = np.bincount(entry_E, share_E / total_G[groups_E], len(keys))
        chance = counts / np.bincount(of_source, counts, source_vocab)[of_source]
    order = np.argsort(-chance, kind="stable")
    order = order[np.argsort(of_source[order], kind="stable")]  # by source word, the likeliest first
    first = np.searchsorted(of_source, np.arange(source_vocab))
    rank = np.arange(len(keys)) - first[of_source]
    kept = rank < related
    related_VC = np.full((source_vocab, related), -1, np.int32)
    related_VC[of_source[kept], rank[kept]] = keys[order][kept] % vocab
    most = np.argsort(-counts_V, kind="stable")[:frequent]
    return Shortlist(related_VC, np.sort(most[counts_V[most] > 0]).astype(np.int32))


def _entries(pairs: Iterable[tuple[Sequence[int], Sequence[int]]], vocab: int) -> tuple[Whole, Whole, Whole, Whole]:
    """Source and target of each entry, which target word of the corpus it explains, and how often each is there."""
    sources, targets, groups = [], [], []
    counts_V = np.zeros(vocab, np.int64)
    entries = group = 0
    for source, target in pairs:
        one, other = np.unique(np.array(source, np.int64)), np.unique(np.array(target, np.int64))
        sources.append(np.tile(one, len(other)))
        targets.append(np.repeat(other, len(one)))
        groups.append(np.repeat(np.arange(group, group + len(other)), len(one)))
        counts_V[other] += 1
        group += len(other)
        entries += len(one) * len(other)
        if entries > LARGEST:
            break
    whole = [np.concatenate([np.zeros(0, np.int64), *each]) for each in (sources, targets, groups)]
    return whole[0], whole[1], whole[2], counts_V


def write_shortlist(directory: Path, shortlist: Shortlist) -> None:
    try:
        with atomic_file(directory / FILE) as draft:
            save_file({"related": shortlist.related_VC, "frequent": shortlist.frequent_F}, draft)
    except SafetensorError as error:
        raise OutputError(f"{directory / FILE}: cannot be written ({error})") from None


def read_shortlist(directory: Path, source_vocab: int, vocab: int) -> Shortlist | None:
    """The shortlist of a model directory, if it has one that fits its vocabulary."""
    path = directory / FILE
    if not path.is_file():
        return None
    arrays: Mapping[str, Array] | None = read_arrays(path)
    if arrays is None:
        raise WeightsError(f"{path}: holds other numbers than int32")
    related, frequent = arrays.get("related"), arrays.get("frequent")
    if related is None or frequent is None or related.ndim != 2 or frequent.ndim != 1:
        raise WeightsError(f"{path}: must hold a table 'related' and a row 'frequent'")
    for array in (related, frequent):
        if array.dtype != np.int32 or (array.size and not -1 <= int(array.min()) <= int(array.max()) < vocab):
            raise WeightsError(f"{path}: does not hold tokens of a vocabulary of {vocab:,}")
    if len(related) != source_vocab or (frequent < 0).any():
        raise WeightsError(f"{path}: is not for a source vocabulary of {source_vocab:,}")
    return Shortlist(related, frequent)
