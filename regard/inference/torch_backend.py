"""Any model on any device, through its torch modules: the reference backend.

B texts  R rows  L new tokens  V vocabulary
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from regard.blocks.beam_cache import TorchBeamCache
from regard.decoding.search_protocol import TopK
from regard.decoding.settings import SearchSettings
from regard.inference.backend import PARALLEL_WIDTH, Backend, Encoded, SpecialTokens, State, WholeSearch
from regard.inference.native import kernels, torch_kernels
from regard.inference.native_backend import NativeBackend, NativeModel
from regard.models.decoder import Decoder
from regard.models.seq2seq import Seq2Seq
from regard.weights.shortlist import Shortlist


def backend_for(network: nn.Module, shortlist: Shortlist | None = None) -> Backend:
    """The fastest backend for a network as it is now: its device, its dtype, its parts."""
    if isinstance(network, Seq2Seq):
        native = NativeModel.of_network(network)
        return Seq2SeqBackend(network) if native is None else NativeBackend(native, shortlist)
    assert isinstance(network, Decoder), "only decoders generate"
    return DecoderBackend(network)


def addresses(network: nn.Module) -> list[int]:
    """Where the weights are. By hand: `parameters()` takes five times as long, a third of a short text's time."""
    found: list[int] = []
    parts = [network]
    while parts:
        part = parts.pop()
        found += [tensor.data_ptr() for tensor in part._parameters.values() if tensor is not None]
        found += [tensor.data_ptr() for tensor in part._buffers.values() if tensor is not None]
        parts += [inner for inner in part._modules.values() if inner is not None]
    return found


class TorchBackend:
    """What every network has; a whole search is not among it."""

    def __init__(self, network: nn.Module) -> None:
        self.device = next(network.parameters(), torch.empty(0)).device

    @property
    def topk(self) -> TopK | None:
        return torch_kernels.topk if self.device.type == "cpu" and kernels.available() else None

    def supports(self, settings: SearchSettings) -> bool:
        return False

    def search(
        self, settings: SearchSettings, tokens: SpecialTokens, *, source: int, max_tokens: int
    ) -> WholeSearch | None:
        return None


class Seq2SeqBackend(TorchBackend):
    """An encoder reads the sources; the decoder steps with their memory in a beam cache."""

    def __init__(self, network: Seq2Seq) -> None:
        super().__init__(network)
        self.network = network

    @property
    def parallel_steps(self) -> bool:
        return self.network.config.width >= PARALLEL_WIDTH and self.device.type == "cpu"

    def encode(self, sequences: Sequence[Sequence[int]], tokens: SpecialTokens) -> Encoded:
        memory = self.network.encode(*padded(sequences, tokens.pad, self.device))
        return Encoded(self.network.beam_cache(memory), start_tokens(len(sequences), tokens, self.device))

    def step(self, states: Sequence[State], new: Sequence[Tensor]) -> Sequence[Tensor]:
        logits_RV = self.network.step(torch.cat(list(new))[:, 0], cast(Sequence[TorchBeamCache], states))
        return torch.split(logits_RV, [len(new_R1) for new_R1 in new])


def padded(
    rows: Sequence[Sequence[int]], pad: int, device: torch.device, *, left: bool = False
) -> tuple[Tensor, Tensor]:
    """Rows of different lengths -> one tensor (B, L), and where it holds real tokens (B, L)."""
    length = max(map(len, rows))
    ids_BL = torch.full((len(rows), length), pad, dtype=torch.long)
    present_BL = torch.zeros(len(rows), length, dtype=torch.bool)
    for i, row in enumerate(rows):
        columns = slice(length - len(row), None) if left else slice(0, len(row))
        ids_BL[i, columns], present_BL[i, columns] = torch.tensor(row), True
    return ids_BL.to(device), present_BL.to(device)


def start_tokens(count: int, tokens: SpecialTokens, device: torch.device) -> Tensor:
    assert tokens.start is not None, "a translation begins with a start token"
    return torch.full((count, 1), tokens.start, device=device)


class DecoderBackend(TorchBackend):
    """A decoder reads its prompts with the first step, and one token per row with each other."""

    parallel_steps = False

    def __init__(self, network: Decoder) -> None:
        super().__init__(network)
        self.network = network

    def encode(self, sequences: Sequence[Sequence[int]], tokens: SpecialTokens) -> Encoded:
        # padded on the left: every row continues at its right end
        ids_BL, present_BL = padded(sequences, tokens.pad, self.device, left=True)
        return Encoded(DecoderState(self.network, present_BL), ids_BL, present_BL)

    def step(self, states: Sequence[State], new: Sequence[Tensor]) -> Sequence[Tensor]:
        return [state(ids_RL) for state, ids_RL in zip(cast(Sequence[DecoderState], states), new, strict=True)]


class DecoderState:
    """A decoder's kv cache for some texts."""

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
