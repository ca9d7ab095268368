"""The engine's worker for every kind of search of a translation, on any device."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.blocks.beam_cache import BeamCache
from regard.decoding.request import Prompts
from regard.decoding.sample import seed_for
from regard.decoding.settings import SearchSettings
from regard.inference.native_model import NativeModel
from regard.inference.native_step import NativeStep
from regard.inference.search_worker import Asked
from regard.models.seq2seq import Seq2Seq
from regard.tasks.base import padded


@dataclass(frozen=True)
class Texts:
    """What is to be translated, and what the model has to say about that."""

    sources: Sequence[Sequence[int]]
    limits: Sequence[int]
    start: int
    ends: Sequence[int]
    never: Sequence[int]
    pad: int


def asked(network: Seq2Seq, compiled: NativeModel | None, texts: Texts, settings: SearchSettings) -> Asked[BeamCache]:
    device = next(network.parameters()).device
    stepwise = None if compiled is None else NativeStep(compiled)

    def begin(numbers: Sequence[int]) -> tuple[BeamCache, Prompts]:
        rows = [texts.sources[number] for number in numbers]
        # tokens -> states -> keys and values
        group = stepwise.read(rows) if stepwise else network.group(network.encode(*padded(rows, texts.pad, device)))
        opening = Prompts(
            first_BL=torch.full((len(rows), 1), texts.start, device=device),
            room=[texts.limits[number] for number in numbers],
            end=texts.ends,
            never=texts.never,
            seeds=[seed_for(settings.seed, row) for row in rows],  # each text has its own luck, in any company
        )
        return group, opening

    def answer(groups: Sequence[BeamCache], new: Sequence[Tensor]) -> Sequence[Tensor]:
        ids_R = torch.cat(list(new))[:, 0]
        logits_RV = (stepwise or network).next_logits(ids_R, groups)  # tokens -> states -> logits
        return torch.split(logits_RV, [len(new_R1) for new_R1 in new])

    return Asked(begin, answer, settings)  # logits -> tokens
