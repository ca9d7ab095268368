"""Encoder and decoder: one reads, the other writes while looking at what was read. Translation.

    source ids -> embeddings + positions -> [ the block ] x N = memory
    target ids -> embeddings + positions -> [ the block, looking at memory ] x N -> logits of the next token

B batch  S source length  L new target tokens  D width  V vocabulary
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from regard.blocks.attention import Attention, all_present, decoder_mask, padding_mask, token_positions
from regard.blocks.beam_cache import BatchedBeamCache, TorchBeamCache
from regard.blocks.block import Block
from regard.blocks.embeddings import TextEmbedding
from regard.blocks.trace import Trace
from regard.models.config import Seq2SeqConfig
from regard.models.parts import make_added_positions, make_stack, make_tokens


class Memory(NamedTuple):
    """The encoder's output, and which positions are not padding."""

    states_BSD: Tensor
    present_BS: Tensor


class Seq2Seq(nn.Module):
    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        source_vocab = config.vocab if config.source_vocab is None else config.source_vocab
        self.source = self._embedding(source_vocab)
        self.encoder = make_stack(config, config.encoder_layers, config.positions)
        self.target = self._embedding(config.vocab)
        self.decoder = make_stack(config, config.decoder_layers, config.positions, cross=True)
        self.output = nn.Linear(config.width, config.vocab, bias=config.output_bias)
        self.tie()

    def _embedding(self, vocab: int) -> TextEmbedding:
        config = self.config
        return TextEmbedding(
            make_tokens(config, vocab, scaled=config.scale_embeddings),
            make_added_positions(config, config.positions, config.context),
            dropout=config.dropout,
        )

    def tie(self) -> None:
        """Share the embedding matrices that the settings tie; the first one in the file is kept."""
        if self.config.tied == "all":
            self.target.tokens.weight = self.source.tokens.weight
        if self.config.tied != "none":
            self.output.weight = self.target.tokens.weight

    def encode(self, ids_BS: Tensor, present_BS: Tensor | None = None, trace: Trace | None = None) -> Memory:
        """Read the source. `present` is False at padding."""
        present_BS = all_present(ids_BS) if present_BS is None else present_BS
        positions_BS = token_positions(present_BS)
        may_attend = padding_mask(present_BS)
        x_BSD = self.source(ids_BS, positions_BS, trace=trace and trace.inside("source"))
        states_BSD = self.encoder(x_BSD, may_attend, positions_BS=positions_BS, trace=trace and trace.inside("encoder"))
        return Memory(states_BSD, present_BS)

    def states(
        self,
        ids_BL: Tensor,
        memory: Memory,
        present_BL: Tensor | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """Each new target token's vector, having seen those before it and the source. -> (B, L, D)

        A source may have several targets, as many as every other: they stand one after the other.
        """
        present_BL = all_present(ids_BL) if present_BL is None else present_BL
        may_attend, positions_BS = decoder_mask(None, present_BL)
        x_BLD = self.target(ids_BL, positions_BS[:, -ids_BL.shape[1] :], trace=trace and trace.inside("target"))
        states_BLD: Tensor = self.decoder(
            x_BLD,
            may_attend,
            positions_BS=positions_BS,
            memory_BSD=memory.states_BSD,
            may_attend_memory=padding_mask(memory.present_BS),
            trace=trace and trace.inside("decoder"),
        )
        return states_BLD

    def beam_cache(self, memory: Memory) -> TorchBeamCache:
        """A cache for texts decoded side by side: the memory's keys and values, computed once."""
        blocks = cast(Iterable[Block], self.decoder.blocks)
        layers = [torch.stack(cast(Attention, block.cross).keys_values(memory.states_BSD)) for block in blocks]
        return TorchBeamCache(torch.stack(layers), memory.present_BS)

    def step(self, ids_R: Tensor, groups: Sequence[TorchBeamCache]) -> Tensor:
        """One decoding step of all rows of some groups: newest tokens -> logits of the next. -> (R, V)"""
        length_R1 = torch.cat([ids_R.new_full((group.rows, 1), group.length) for group in groups])
        back_T = torch.arange(1 - max(group.length + 1 for group in groups), 1, device=ids_R.device)
        positions_RT = (length_R1 + back_T).clamp(min=0)  # of all tokens of a row, the newest last
        x_R1D = self.target(ids_R[:, None], length_R1)
        states_R1D = self.decoder(x_R1D, positions_BS=positions_RT, cache=BatchedBeamCache(groups))
        logits_RV: Tensor = self.output(states_R1D[:, 0])
        return logits_RV

    def decode(
        self,
        ids_BL: Tensor,
        memory: Memory,
        present_BL: Tensor | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """Logits of the next target token at each place. -> (B, L, V)"""
        logits_BLV: Tensor = self.output(self.states(ids_BL, memory, present_BL, trace))
        if trace:
            trace.note("logits", logits_BLV)
        return logits_BLV

    def forward(
        self,
        source_BS: Tensor,
        target_BL: Tensor,
        source_present_BS: Tensor | None = None,
        target_present_BL: Tensor | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """Teacher forcing: the whole target at once, each place predicting the next token. -> (B, L, V)"""
        memory = self.encode(source_BS, source_present_BS, trace)
        return self.decode(target_BL, memory, target_present_BL, trace=trace)
