"""Likely translations of each source token, learnt from a corpus: a search then scores hundreds of tokens, not all.

IBM model 1: every target token of a sentence is explained by its source tokens, each in proportion to how well it
explains that token elsewhere. After a few iterations, each source token keeps the target tokens it explains best.

V source vocabulary  C related tokens of each  F frequent tokens  E entries: (source token, target token) of a sentence
G target tokens of the corpus
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import save_file

from regard.errors import InputError, OutputError, WeightsError
from regard.io import atomic_file
from regard.weights.model_directory import SHORTLIST, Array, read_arrays

Int64Array = NDArray[np.int64]

RELATED, FREQUENT, ITERATIONS = 64, 400, 4
MAX_ENTRIES = 30_000_000
"""A larger corpus is read up to this many entries, 24 bytes each."""


@dataclass(frozen=True, eq=False)
class Shortlist:
    related_VC: NDArray[np.int32]
    """For each source token its likely target tokens, filled up with -1."""
    frequent_F: NDArray[np.int32]
    """Target tokens allowed for every source."""


def learn(
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    source_vocab: int,
    vocab: int,
    *,
    related: int = RELATED,
    frequent: int = FREQUENT,
) -> Shortlist:
    """Learn from pairs of (source tokens, target tokens), tokenized as for the model."""
    sources_E, targets_E, groups_E, counts_V = _entries(pairs, vocab)
    if not len(sources_E):
        raise InputError("a shortlist needs at least one sentence pair")
    keys, entry_E = np.unique(sources_E * vocab + targets_E, return_inverse=True)
    of_source = keys // vocab
    probability = np.ones(len(keys))
    for _ in range(ITERATIONS):
        share_E = probability[entry_E]
        total_G = np.bincount(groups_E, share_E)
        counts = np.bincount(entry_E, share_E / total_G[groups_E], len(keys))
        probability = counts / np.bincount(of_source, counts, source_vocab)[of_source]
    order = np.argsort(-probability, kind="stable")
    order = order[np.argsort(of_source[order], kind="stable")]  # by source token, the most probable first
    first = np.searchsorted(of_source, np.arange(source_vocab))
    rank = np.arange(len(keys)) - first[of_source]
    kept = rank < related
    related_VC = np.full((source_vocab, related), -1, np.int32)
    related_VC[of_source[kept], rank[kept]] = keys[order][kept] % vocab
    most = np.argsort(-counts_V, kind="stable")[:frequent]
    return Shortlist(related_VC, np.sort(most[counts_V[most] > 0]).astype(np.int32))


def _entries(
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]], vocab: int
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Source, target and group (the target token of the corpus it explains) of each entry; counts of target tokens."""
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
        if entries > MAX_ENTRIES:
            break
    sources_E, targets_E, groups_E = (
        np.concatenate([np.zeros(0, np.int64), *each]) for each in (sources, targets, groups)
    )
    return sources_E, targets_E, groups_E, counts_V


def write_shortlist(directory: Path, shortlist: Shortlist) -> None:
    try:
        with atomic_file(directory / SHORTLIST) as draft:
            save_file({"related": shortlist.related_VC, "frequent": shortlist.frequent_F}, draft)
    except SafetensorError as error:
        raise OutputError(f"{directory / SHORTLIST}: cannot be written ({error})") from None


def read_shortlist(directory: Path, source_vocab: int, vocab: int) -> Shortlist | None:
    """The shortlist of a model directory, or None. One that does not match the vocabulary is an error."""
    path = directory / SHORTLIST
    if not path.is_file():
        return None
    stored = read_arrays(path)
    if stored is None:
        raise WeightsError(f"{path}: must contain int32 numbers only")
    # in memory of our own before they are checked: the C code uses these numbers as indices
    arrays: dict[str, Array] = {name: np.asarray(array) for name, array in stored.items()}
    related, frequent = arrays.get("related"), arrays.get("frequent")
    if related is None or frequent is None or related.ndim != 2 or frequent.ndim != 1:
        raise WeightsError(f"{path}: must contain a matrix 'related' and a vector 'frequent'")
    for array in (related, frequent):
        if array.dtype != np.int32 or (array.size and not -1 <= int(array.min()) <= int(array.max()) < vocab):
            raise WeightsError(f"{path}: contains tokens outside the vocabulary of {vocab:,}, or not int32")
    if len(related) != source_vocab or (frequent < 0).any():
        raise WeightsError(f"{path}: does not match the source vocabulary of {source_vocab:,}")
    return Shortlist(related, frequent)
