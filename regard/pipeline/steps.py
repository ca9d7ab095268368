"""One step of a search, family by family: new tokens in, logits of the next one out, the past in a cache.

R rows  L new tokens  V vocabulary
"""

import torch
from torch import Tensor

from regard.models.decoder import Decoder
from regard.models.seq2seq import Memory, Seq2Seq


class TranslationStep:
    """A decoder that looks at what was read. Rows begin as one a sentence."""

    def __init__(self, network: Seq2Seq, memory: Memory) -> None:
        self._network, self._memory, self._cache = network, memory, network.new_cache()
        self._sentence_R = torch.arange(len(memory.states_BSD), device=memory.states_BSD.device)

    def __call__(self, ids_RL: Tensor) -> Tensor:
        states_RLD = self._network.states(ids_RL, self._memory, cache=self._cache)
        logits_RV: Tensor = self._network.output(states_RLD[:, -1])
        return logits_RV

    def reorder(self, rows_R: Tensor) -> None:
        sentence_R = self._sentence_R[rows_R]
        # beams change places within their sentence, mostly; then what they look at is where it was
        moved = not torch.equal(sentence_R, self._sentence_R)
        self._cache.reorder(rows_R, memory=moved)
        if moved:
            # only the padding is still needed: the keys and values of the states are in the cache
            self._memory = Memory(self._memory.states_BSD, self._memory.present_BS[rows_R])
            self._sentence_R = sentence_R


class WritingStep:
    """A decoder that goes on after its prompt, which is padded on the left."""

    def __init__(self, network: Decoder, present_BL: Tensor) -> None:
        self._network, self._present_BL, self._cache = network, present_BL, network.new_cache()

    def __call__(self, ids_RL: Tensor) -> Tensor:
        first = self._cache.length == 0
        present_RL = self._present_BL if first else torch.ones_like(ids_RL, dtype=torch.bool)
        states_RLD = self._network.states(ids_RL, present_RL, self._cache)
        logits_RV: Tensor = self._network.output(states_RLD[:, -1])
        return logits_RV

    def reorder(self, rows_R: Tensor) -> None:
        self._cache.reorder(rows_R)
