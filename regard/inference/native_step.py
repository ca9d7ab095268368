"""Compiled passes for who has torch: of a network's own weights, and one step at a time, for searches with rules."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from regard.blocks.beam_cache import BeamCache
from regard.inference import native_model
from regard.inference.native import tensors
from regard.inference.native_model import NativeModel
from regard.models.seq2seq import Seq2Seq


def can_compile(network: Seq2Seq) -> bool:
    """As inference/native_model.py has it, for a network that is on a CPU, in float32."""
    weights = [*network.parameters()]
    return all(
        weight.device.type == "cpu" and weight.dtype == torch.float32 for weight in weights
    ) and native_model.can_compile(network.config)


def compile_network(network: Seq2Seq) -> NativeModel:
    """The passes, on the network's own weights: what changes in them changes there, as long as they stay in place."""
    named = [*network.named_parameters(), *network.named_buffers()]
    # not tensor.numpy(): after it torch lets nobody give the memory back, as FSDP does with weights that were gathered
    arrays = {name: np.from_dlpack(tensor.detach()) for name, tensor in named}
    return NativeModel(network.config, arrays, fixed=False)


def addresses(network: nn.Module) -> list[int]:
    """Where its weights lie. By hand: `parameters()` takes five times as long, a third of a short sentence's time."""
    found: list[int] = []
    parts = [network]
    while parts:
        part = parts.pop()
        found += [tensor.data_ptr() for tensor in part._parameters.values() if tensor is not None]
        found += [tensor.data_ptr() for tensor in part._buffers.values() if tensor is not None]
        parts += [inner for inner in part._modules.values() if inner is not None]
    return found


class NativeStep:
    """Reads sentences and says what comes next, as Seq2Seq's `encode`, `group` and `next_logits` do.

    S sentences  M longest of them  R rows of all groups  V vocabulary
    """

    def __init__(self, passes: NativeModel) -> None:
        self._passes = passes

    def read(self, sources: Sequence[Sequence[int]]) -> BeamCache:
        """Sentences that will be translated side by side: read, and what the decoder looks at computed once."""
        reader = self._passes.reader(max(map(len, sources)))
        memory = torch.from_numpy(reader.encode(sources)).float()
        lengths_S = torch.tensor([len(source) for source in sources])
        return BeamCache(memory, torch.arange(memory.shape[4]) < lengths_S[:, None])

    def next_logits(self, ids_R: Tensor, groups: Sequence[BeamCache]) -> Tensor:
        """Logits of the token after each row's newest, of all rows of some groups. -> (R, V)"""
        said_R = torch.cat([ids_R.new_full((group.rows,), group.said) for group in groups])
        for group in groups:
            group.say()
        x_RD = self._passes.target(int(said_R.max()) + 1).rows(ids_R.numpy(), said_R.numpy())
        states_RD = self._passes.decoder.decoder_step(x_RD, [group.seated() for group in groups])
        return tensors.linear(torch.from_numpy(states_RD), self._passes.output)
