"""The native model one step at a time, for searches with rules: tensors in, logits out.

S texts  R rows of all groups  V vocabulary
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from regard.blocks.beam_cache import BeamCache
from regard.inference.backend import State
from regard.inference.native import layers, torch_kernels
from regard.inference.native_backend import NativeModel


class NativeBeamCache(BeamCache):
    """A beam cache in the native layout: the memory's keys are transposed, as (K, M)."""

    def struct(self) -> layers.NativeBeamCache:
        """What the C code reads; valid until the next `reorder` or `extend`."""
        rows = self._map
        self._slots_R = rows.slots_R.int()  # the struct has only addresses
        return layers.NativeBeamCache(
            self_kv=self._self.data_ptr(),
            memory_kv=self._memory.data_ptr(),
            seq_ids=self._slots_R.data_ptr(),
            key_indices=self._positions_RT.data_ptr(),
            memory_lengths=self._lengths_S.data_ptr(),
            rows=self.rows,
            length=self.length,
            sequences=rows.slots,
            self_capacity=self._self.shape[4],
            memory_sequences=rows.slots,
            memory_capacity=self._memory.shape[4],
        )


def encode(model: NativeModel, sources: Sequence[Sequence[int]]) -> NativeBeamCache:
    """Encode texts to be decoded together: the keys and values that cross-attention reads, computed once."""
    encoder = model.native_encoder(max(map(len, sources)))
    memory = torch.from_numpy(encoder.encode(sources)).float()
    lengths_S = torch.tensor([len(source) for source in sources])
    return NativeBeamCache(memory, torch.arange(memory.shape[4]) < lengths_S[:, None])


def step(model: NativeModel, states: Sequence[State], new: Sequence[Tensor]) -> Sequence[Tensor]:
    """One decoding step of all rows: newest tokens (R, 1) of each state -> its logits (R, V)."""
    groups = cast(Sequence[NativeBeamCache], states)
    ids_R = torch.cat(list(new))[:, 0]
    length_R = torch.cat([ids_R.new_full((group.rows,), group.length) for group in groups])
    for group in groups:
        group.extend()
    x_RD = model.target(int(length_R.max()) + 1).rows(ids_R.numpy(), length_R.numpy())
    states_RD = model.decoder.decoder_step(x_RD, [group.struct() for group in groups])
    logits_RV = torch_kernels.linear(torch.from_numpy(states_RD), model.output)
    return torch.split(logits_RV, [len(new_R1) for new_R1 in new])
