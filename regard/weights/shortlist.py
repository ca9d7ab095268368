"""Which words may translate which, learnt from a corpus: a search then weighs some hundreds of words, not all of them.

IBM's model 1: every target word is explained by the source words of its sentence, each in proportion to how well it
explains that word elsewhere. A few rounds of that, and each source word keeps the words that it explains best.

V source vocabulary  C related words of each  F frequent words  E entries: (source word, target word) of a sentence
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from regard.errors import InputError, WeightsError
from regard.weights.tensors import read_file, write_tensors

FILE = "shortlist.safetensors"
RELATED, FREQUENT, ROUNDS = 64, 400, 4
LARGEST = 30_000_000
"""Entries that are learnt from at most, of a corpus that has more: the first ones. 24 bytes each."""


@dataclass(frozen=True, eq=False)
class Shortlist:
    related_VC: Tensor
    """int32: for each source token the target tokens that may translate it, -1 for none."""
    frequent_F: Tensor
    """int32: the target tokens that may always be said."""


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
    keys, entry_E = torch.unique(sources_E * vocab + targets_E, return_inverse=True)
    of_source = keys // vocab
    chance = torch.ones(len(keys))
    for _ in range(ROUNDS):
        share_E = chance[entry_E]
        total_G = torch.zeros(int(groups_E[-1]) + 1).index_add_(0, groups_E, share_E)
        counts = torch.zeros(len(keys)).index_add_(0, entry_E, share_E / total_G[groups_E])
        chance = counts / torch.zeros(source_vocab).index_add_(0, of_source, counts)[of_source]
    order = chance.argsort(descending=True, stable=True)
    order = order[of_source[order].argsort(stable=True)]  # by source word, the likeliest first
    first = torch.searchsorted(of_source, torch.arange(source_vocab))
    rank = torch.arange(len(keys)) - first[of_source]
    kept = rank < related
    related_VC = torch.full((source_vocab, related), -1, dtype=torch.int32)
    related_VC[of_source[kept], rank[kept]] = (keys[order][kept] % vocab).int()
    most = counts_V.argsort(descending=True, stable=True)[:frequent]
    return Shortlist(related_VC, most[counts_V[most] > 0].sort().values.int())


def _entries(pairs: Iterable[tuple[Sequence[int], Sequence[int]]], vocab: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Source and target of each entry, which target word of the corpus it explains, and how often each is there."""
    sources, targets, groups = [], [], []
    counts_V = torch.zeros(vocab, dtype=torch.long)
    entries = group = 0
    for source, target in pairs:
        one, other = torch.tensor(sorted(set(source))), torch.tensor(sorted(set(target)))
        sources.append(one.repeat(len(other)))
        targets.append(other.repeat_interleave(len(one)))
        groups.append(torch.arange(group, group + len(other)).repeat_interleave(len(one)))
        counts_V[other] += 1
        group += len(other)
        entries += len(one) * len(other)
        if entries > LARGEST:
            break
    whole = [torch.cat(each) if each else torch.zeros(0, dtype=torch.long) for each in (sources, targets, groups)]
    return whole[0], whole[1], whole[2], counts_V


def write_shortlist(directory: Path, shortlist: Shortlist) -> None:
    write_tensors(directory / FILE, {"related": shortlist.related_VC, "frequent": shortlist.frequent_F})


def read_shortlist(directory: Path, source_vocab: int, vocab: int) -> Shortlist | None:
    """The shortlist of a model directory, if it has one that fits its vocabulary."""
    path = directory / FILE
    if not path.is_file():
        return None
    tensors = read_file(path)
    related, frequent = tensors.get("related"), tensors.get("frequent")
    if related is None or frequent is None or related.dim() != 2 or frequent.dim() != 1:
        raise WeightsError(f"{path}: must hold a table 'related' and a row 'frequent'")
    for tensor in (related, frequent):
        if tensor.dtype != torch.int32 or (tensor.numel() and not -1 <= int(tensor.min()) <= int(tensor.max()) < vocab):
            raise WeightsError(f"{path}: does not hold tokens of a vocabulary of {vocab:,}")
    if len(related) != source_vocab or (frequent < 0).any():
        raise WeightsError(f"{path}: is not for a source vocabulary of {source_vocab:,}")
    return Shortlist(related.contiguous(), frequent.contiguous())
