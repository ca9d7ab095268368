"""A translation model's passes, compiled: what Seq2Seq's modules say, in one call a pass, on the modules' own weights.

Nothing is changed and little is copied: float32 weights are read where they are. The numbers are those of the modules
to the last bits, and a sentence's are the same in any company, bit for bit: no sum runs over another sentence or over
padding.

T tokens of all sentences, one after the other  S sentences  M longest of them  R rows  D width  V vocabulary
N blocks  H key/value heads  K head width  L places
"""

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from regard.blocks import block as blocks
from regard.blocks.attention import Attention
from regard.blocks.feedforward import FeedForward
from regard.blocks.int8 import Int8Linear, Int8Matrix
from regard.blocks.lanes import Group
from regard.models.seq2seq import Seq2Seq
from regard.models.stack import Stack
from regard.native import kernels, stack
from regard.native.kernels import Weights
from regard.native.search import Writer


def can_compile(network: Seq2Seq) -> bool:
    """The kinds of parts that there are compiled loops for, on a machine that has them, as people use models."""
    config = network.config
    sizes = _sizes(network)
    return (
        next(network.parameters()).device.type == "cpu"
        and all(parameter.dtype == torch.float32 for parameter in network.parameters())
        and config.norm == "layer"
        and config.activation in kernels.ACTIVATIONS
        and config.positions in ("sinusoidal", "sinusoidal_halves", "learned", "none")
        and sizes.fit()
        and kernels.available()
    )


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


class Compiled:
    """Reads sentences and says what comes next, as Seq2Seq's `encode`, `group` and `next_logits` do."""

    def __init__(self, network: Seq2Seq) -> None:
        self.network = network
        sizes = _sizes(network)
        self._encoder = _stack(network.encoder, sizes, network.config.activation)
        self._decoder = _stack(network.decoder, sizes, network.config.activation)
        self._output = _weights(network.output)

    def read(self, sources: Sequence[Sequence[int]]) -> Group:
        """Sentences that will be translated side by side: read, and what the decoder looks at computed once."""
        memory = self.remember(sources)
        lengths_S = torch.tensor([len(source) for source in sources])
        return Group(memory, torch.arange(memory.shape[4]) < lengths_S[:, None])

    def remember(self, sources: Sequence[Sequence[int]]) -> Tensor:
        """Read sentences: the keys and values that the decoder's blocks will look at. -> (N, 2, S, H, M, K)"""
        lengths_S = torch.tensor([len(source) for source in sources])
        starts = torch.cat((lengths_S.new_zeros(1), lengths_S.cumsum(0)))
        ids_T = torch.tensor([token for source in sources for token in source])
        positions_T = torch.arange(len(ids_T)) - starts[:-1].repeat_interleave(lengths_S)
        x_TD = self.network.source(ids_T[None], positions_T[None])[0]
        return self._decoder.remember(self._encoder.encode(x_TD, starts), starts)

    def writer(self, places: int, related_VC: Tensor | None = None, frequent_F: Tensor | None = None) -> Writer:
        """What the compiled search needs of the model, for texts of up to so many tokens, and perhaps a shortlist."""
        target = self.network.target
        positions_LD = None
        if target.positions is not None:
            positions_LD = target.positions(torch.arange(places)[None])[0].contiguous()
        weight: object = target.tokens.weight
        if isinstance(weight, Int8Matrix):
            embeddings_VD, row_scales_V = weight.whole, weight.scale
        else:
            embeddings_VD, row_scales_V = cast(Tensor, weight).detach(), None
        return Writer(
            decoder=self._decoder,
            output=self._output,
            embeddings_VD=embeddings_VD,
            row_scales_V=row_scales_V,
            scale=target.tokens.scale,
            positions_LD=positions_LD,
            related_VC=related_VC,
            frequent_F=frequent_F,
        )

    def next_logits(self, ids_R: Tensor, groups: Sequence[Group]) -> Tensor:
        """Logits of the token after each row's newest, of all rows of some groups. -> (R, V)"""
        said_R = torch.cat([ids_R.new_full((group.rows,), group.said) for group in groups])
        for group in groups:
            group.say()
        x_1RD = self.network.target(ids_R[None], said_R[None])
        states_RD = self._decoder.decode(x_1RD[0], [group.seated() for group in groups])
        return kernels.linear(states_RD, self._output)


# ---- modules -> what the compiled pass wants ---------------------------------------------------------------------


def _sizes(network: Seq2Seq) -> stack.Sizes:
    config = network.config
    return stack.Sizes(config.width, config.inner, config.heads, config.kv_heads or config.heads, config.one_head)


def _stack(part: Stack, sizes: stack.Sizes, activation: str) -> stack.Stack:
    made = [_block(each) for each in cast(Iterable[blocks.Block], part.blocks)]
    return stack.Stack(made, sizes, last=None if part.norm is None else _norm(part.norm), activation=activation)


def _block(part: blocks.Block) -> stack.Block:
    feedforward = cast(FeedForward, part.feedforward)
    cross = None
    if part.cross is not None and part.cross_residual is not None:
        cross = _attention(cast(Attention, part.cross), part.cross_residual)
    return stack.Block(
        _attention(cast(Attention, part.attention), part.attention_residual),
        cross,
        _weights(feedforward.up),
        _weights(feedforward.down),
        _norm(part.feedforward_residual.norm),
    )


def _attention(part: Attention, residual: blocks.AddAndNorm) -> stack.Attention:
    query, key, value, output = map(_weights, (part.query, part.key, part.value, part.output))
    return stack.Attention(query, key, value, output, _norm(residual.norm))


def _norm(part: nn.Module) -> stack.Norm:
    assert isinstance(part, nn.LayerNorm)
    return stack.Norm(part.weight.detach(), part.bias.detach(), part.eps)


def _weights(part: nn.Module) -> Weights:
    if isinstance(part, Int8Linear):
        return part.ready()
    assert isinstance(part, nn.Linear)
    return Weights.of_floats(part.weight.detach(), None if part.bias is None else part.bias.detach())
