"""Encoder: every token attends to every other. BERT, RoFormer, sentence embeddings.

    ids -> embeddings + positions -> [ the block ] x N -> head

B batch  L length  D width  V vocabulary  N labels
"""

import torch.nn.functional as F
from torch import Tensor, nn

from regard.blocks.attention import all_present, padding_mask, token_positions
from regard.blocks.dropout import Dropout
from regard.blocks.trace import Trace
from regard.models.config import EncoderConfig
from regard.models.heads import MaskedLanguageHead, Pooler, first_token, mean_pool
from regard.models.parts import make_embedding, make_text_stack


class Encoder(nn.Module):
    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = make_embedding(config, segments=config.segments)
        self.stack = make_text_stack(config)
        self.pooler = Pooler(config.width, config.pooler) if config.pooler != "none" else None
        self.masked_lm = MaskedLanguageHead(config) if config.head == "masked_lm" else None
        self.classifier = nn.Linear(config.width, len(config.labels)) if config.head == "classifier" else None
        self.dropout = Dropout(config.dropout)
        self.tie()

    def tie(self) -> None:
        """Make the output projection of the masked-LM head the embedding matrix."""
        if self.masked_lm is not None:
            self.masked_lm.output.weight = self.embedding.tokens.weight

    def states(
        self,
        ids_BL: Tensor,
        present_BL: Tensor | None = None,
        segments_BL: Tensor | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """The final state of each token. `present` is False for padding. -> (B, L, D)"""
        present_BL = all_present(ids_BL) if present_BL is None else present_BL
        positions_BL = token_positions(present_BL)
        may_attend = padding_mask(present_BL)
        x_BLD = self.embedding(ids_BL, positions_BL, segments_BL, trace=trace and trace.inside("embedding"))
        states_BLD: Tensor = self.stack(
            x_BLD, may_attend, positions_BS=positions_BL, trace=trace and trace.inside("stack")
        )
        return states_BLD

    def forward(
        self,
        ids_BL: Tensor,
        present_BL: Tensor | None = None,
        segments_BL: Tensor | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """Logits of the head: (B, L, V) for a masked LM, (B, N) for a classifier. Without a head, the states."""
        out = self.states(ids_BL, present_BL, segments_BL, trace)
        if self.masked_lm is not None:
            out = self.masked_lm(out)
        if self.classifier is not None:
            summary_BD = out[:, 0] if present_BL is None else first_token(out, present_BL)
            summary_BD = summary_BD if self.pooler is None else self.pooler(summary_BD)
            out = self.classifier(self.dropout(summary_BD))
        if trace:
            trace.note("logits" if self.config.head != "none" else "states", out)
        return out

    def embed(
        self,
        ids_BL: Tensor,
        present_BL: Tensor,
        segments_BL: Tensor | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """One vector per text. -> (B, D)"""
        states_BLD = self.states(ids_BL, present_BL, segments_BL, trace)
        match self.config.pooling:
            case "mean":
                vector_BD = mean_pool(states_BLD, present_BL)
            case "first":
                vector_BD = first_token(states_BLD, present_BL)
            case "pooler":
                assert self.pooler is not None
                vector_BD = self.pooler(first_token(states_BLD, present_BL))
        return F.normalize(vector_BD, dim=-1) if self.config.normalize else vector_BD
