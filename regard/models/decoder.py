"""Decoder: every token attends to itself and earlier ones. GPT-2, Llama.

    ids -> embeddings + positions -> [ the block ] x N -> logits of the next token

B batch  L new tokens  S all tokens so far  D width  V vocabulary  N labels
"""

from torch import Tensor, nn

from regard.blocks.attention import all_present, decoder_mask
from regard.blocks.kv_cache import DecoderKVCache
from regard.blocks.trace import Trace
from regard.models.config import DecoderConfig
from regard.models.heads import last_token
from regard.models.parts import make_embedding, make_text_stack


class Decoder(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = make_embedding(config)
        self.stack = make_text_stack(config)
        outputs = config.vocab if config.head == "lm" else len(config.labels)
        self.output = nn.Linear(config.width, outputs, bias=False)
        self.tie()

    def tie(self) -> None:
        """Make the output projection the embedding matrix, if configured."""
        if self.config.tied and self.config.head == "lm":
            self.output.weight = self.embedding.tokens.weight

    def new_cache(self) -> DecoderKVCache:
        return DecoderKVCache(self.config.layers)

    def states(
        self,
        ids_BL: Tensor,
        present_BL: Tensor | None = None,
        cache: DecoderKVCache | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """The final state of each new token. `present` is False for padding. -> (B, L, D)"""
        present_BL = all_present(ids_BL) if present_BL is None else present_BL
        may_attend, positions_BS = decoder_mask(cache, present_BL)
        positions_BL = positions_BS[:, -ids_BL.shape[1] :]
        x_BLD = self.embedding(ids_BL, positions_BL, trace=trace and trace.inside("embedding"))
        states_BLD: Tensor = self.stack(
            x_BLD, may_attend, positions_BS=positions_BS, cache=cache, trace=trace and trace.inside("stack")
        )
        return states_BLD

    def forward(
        self,
        ids_BL: Tensor,
        present_BL: Tensor | None = None,
        cache: DecoderKVCache | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """Logits of the next token at each position (B, L, V); for a classifier, logits of the labels (B, N)."""
        states = self.states(ids_BL, present_BL, cache, trace)
        if self.config.head == "classifier":
            states = states[:, -1] if present_BL is None else last_token(states, present_BL)
        logits: Tensor = self.output(states)
        if trace:
            trace.note("logits", logits)
        return logits
