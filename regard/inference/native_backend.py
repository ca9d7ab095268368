"""Translation models on a CPU, in C: a whole search in one call, or one step at a time for searches with rules.

The weights are laid out as the C code reads them. Those that nobody will change are packed in the order in which the
loops read them; those of a network that may still be trained are read in place, if they are float32. The numbers are
those of the modules to the last bits, and a text's are the same in any batch, bit for bit: no sum runs over another
text or over padding. No torch is imported for a whole search.

V vocabulary  D width  L positions  N outputs
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from regard.blocks.sinusoids import sinusoids
from regard.decoding.settings import SearchSettings
from regard.inference.backend import PARALLEL_WIDTH, Encoded, SpecialTokens, State
from regard.inference.native import kernels
from regard.inference.native.kernels import Array, Floats, NativeLinear
from regard.inference.native.layers import Attention, Block, Embedding, NativeEncoder, Norm, Sizes, Stack
from regard.inference.native.search import DecoderIO, NativeSearch
from regard.models.config import Seq2SeqConfig
from regard.weights.model_directory import LazyModel, StoredArray
from regard.weights.shortlist import Shortlist

if TYPE_CHECKING:
    from torch import Tensor

    from regard.decoding.search_protocol import TopK
    from regard.models.seq2seq import Seq2Seq

MAX_NATIVE_BEAM = 64
"""The native top-k keeps its results sorted as it goes, which pays for small beams."""
NATIVE_SETTINGS = {"beam", "n_best", "length_penalty", "length_form", "patience", "min_tokens", "max_tokens"}
"""What the native search does. Any other setting must have its default, so that a new rule is never ignored."""
WITHOUT_EFFECT = {"seed"}
"""Settings that change nothing where nothing is sampled."""
MIN_CAPACITY = 64
"""Tokens that a search has capacity for at least; then in powers of two."""
SINUSOIDAL = ("sinusoidal", "sinusoidal_halves")
MIN_POSITIONS = 64
"""Positions of the first table of sinusoids; it grows by powers of two."""


def is_native(settings: SearchSettings) -> bool:
    """Whether the native search does everything that these settings ask for."""
    others = (field for field in fields(settings) if field.name not in NATIVE_SETTINGS | WITHOUT_EFFECT)
    plain = all(getattr(settings, field.name) == field.default for field in others)
    return plain and settings.beam <= MAX_NATIVE_BEAM


class NativeBackend:
    def __init__(self, model: NativeModel, shortlist: Shortlist | None = None) -> None:
        self.model, self.shortlist = model, shortlist

    @classmethod
    def of_file(cls, model: LazyModel, shortlist: Shortlist | None = None) -> NativeBackend | None:
        """On the weights of a file; None where they cannot run natively."""
        native = NativeModel.of_file(model.config, model.arrays, int8=model.int8)
        return None if native is None else cls(native, shortlist)

    @property
    def parallel_steps(self) -> bool:
        return self.model.config.width >= PARALLEL_WIDTH

    @property
    def topk(self) -> TopK | None:
        from regard.inference.native import torch_kernels

        return torch_kernels.topk

    def supports(self, settings: SearchSettings) -> bool:
        return is_native(settings)

    def search(
        self, settings: SearchSettings, tokens: SpecialTokens, *, source: int, max_tokens: int
    ) -> NativeSearch | None:
        if not is_native(settings):
            return None
        source, max_tokens = _capacity(source), _capacity(max_tokens)
        encoder, decoder_io = self.model.native_encoder(source), self.model.decoder_io(max_tokens, self.shortlist)
        return NativeSearch(encoder, decoder_io, settings, tokens, source=source, max_tokens=max_tokens)

    def encode(self, sequences: Sequence[Sequence[int]], tokens: SpecialTokens) -> Encoded:
        import torch

        from regard.inference.native_step import encode
        from regard.inference.torch_backend import start_tokens

        return Encoded(encode(self.model, sequences), start_tokens(len(sequences), tokens, torch.device("cpu")))

    def step(self, states: Sequence[State], new: Sequence[Tensor]) -> Sequence[Tensor]:
        from regard.inference.native_step import step

        return step(self.model, states, new)


def _capacity(length: int) -> int:
    return 1 << (max(length, MIN_CAPACITY) - 1).bit_length()


class NativeModel:
    """Encodes texts, and holds what the native search decodes with."""

    def __init__(self, config: Seq2SeqConfig, weights: WeightLoader) -> None:
        self.config, self._weights = config, weights
        source_vocab = config.source_vocab or config.vocab
        source, target = "source.tokens.weight", "target.tokens.weight"
        self._source = weights.matrix(source, source_vocab, config.width)
        self._target = self._source if config.tied == "all" else weights.matrix(target, config.vocab, config.width)
        tied = {"all": self._source, "target": self._target, "none": None}[config.tied]
        output = weights.matrix("output.weight", config.vocab, config.width) if tied is None else tied
        self.output = weights.linear(output, "output.bias", bias=config.output_bias)
        self.encoder = weights.stack("encoder", config.encoder_layers, cross=False)
        self.decoder = weights.stack("decoder", config.decoder_layers, cross=True)
        self._positions = {side: weights.positions(side) for side in ("source", "target")}
        self._sinusoids = self._new_sinusoids(MIN_POSITIONS)

    @classmethod
    def of_file(
        cls, config: Seq2SeqConfig, arrays: Mapping[str, Array | StoredArray], *, int8: bool
    ) -> NativeModel | None:
        """A model directory's arrays, by their names there; None where they cannot run natively, or do not fit."""
        layers = config.encoder_layers + config.decoder_layers
        if not supported(config) or layers > len(arrays):  # a made-up number of layers costs no time
            return None
        weights = WeightLoader(config, arrays, packed=True, int8=int8)
        try:
            model = cls(config, weights)
        except WrongWeights:  # whoever opens it with torch says what is wrong
            return None
        return None if weights.unused() else model

    @classmethod
    def of_network(cls, network: Seq2Seq) -> NativeModel | None:
        """On the network's own weights: what changes in them changes here, as long as they stay in place."""
        import torch

        parameters = [*network.parameters()]
        in_place = all(one.device.type == "cpu" and one.dtype == torch.float32 for one in parameters)
        if not in_place or not supported(network.config):
            return None
        named = [*network.named_parameters(), *network.named_buffers()]
        # not tensor.numpy(): after it torch lets nobody free the memory, as FSDP does with gathered weights
        arrays = {name: np.from_dlpack(tensor.detach()) for name, tensor in named}
        int8 = "encoder.blocks.0.attention.query.weight" not in arrays
        return cls(network.config, WeightLoader(network.config, arrays, packed=False, int8=int8))

    def native_encoder(self, length: int) -> NativeEncoder:
        """For texts of up to this many tokens."""
        source = self._embedding("source", self._source, length)
        return NativeEncoder(encoder=self.encoder, decoder=self.decoder, source=source)

    def target(self, length: int) -> Embedding:
        """The decoder's input."""
        return self._embedding("target", self._target, length)

    def decoder_io(self, length: int, shortlist: Shortlist | None) -> DecoderIO:
        """What the native search decodes with, for outputs of up to this many tokens."""
        return DecoderIO(target=self.target(length), output=self.output, shortlist=shortlist)

    def _embedding(self, side: str, matrix: Matrix, length: int) -> Embedding:
        numbers_VD, scales_V = matrix
        scale = math.sqrt(self.config.width) if self.config.scale_embeddings else 1.0
        positions_LD = self._position_table(side, length)
        return Embedding(weight_VD=numbers_VD, row_scales_V=scales_V, positions_LD=positions_LD, scale=scale)

    def _position_table(self, side: str, length: int) -> Floats | None:
        """What the first positions add. -> (L, D)"""
        if self.config.positions not in SINUSOIDAL:
            return self._positions[side]
        table = self._sinusoids  # read once: another worker may replace it with a shorter one
        if len(table) < length:
            table = self._sinusoids = self._new_sinusoids(1 << (length - 1).bit_length())
        return table[:length]

    def _new_sinusoids(self, rows: int) -> Floats:
        """The first rows of the table; none for a model with other positions."""
        rows = rows if self.config.positions in SINUSOIDAL else 0
        return sinusoids(rows, self.config.width, interleaved=self.config.positions == "sinusoidal")


def supported(config: Seq2SeqConfig) -> bool:
    """Whether the C code has every part of such a model, and runs on this machine."""
    return (
        config.norm == "layer"
        and config.activation in kernels.ACTIVATIONS
        and config.positions in (*SINUSOIDAL, "learned", "none")
        and _sizes(config).supported()
        and kernels.available()
    )


# ---- names -> what the C code reads ------------------------------------------------------------------------------

Matrix = tuple[Array, Floats | None]
"""Floats; or int8 numbers, and the scale of each row."""


class WrongWeights(Exception):
    """A weight is missing, or has another shape or number format."""


class WeightLoader:
    """Takes a model's arrays by name, checks each, and remembers which were taken."""

    def __init__(
        self, config: Seq2SeqConfig, arrays: Mapping[str, Array | StoredArray], *, packed: bool, int8: bool
    ) -> None:
        self._config, self._arrays, self._packed, self._int8 = config, arrays, packed, int8
        self._taken: set[str] = set()

    def unused(self) -> set[str]:
        return self._arrays.keys() - self._taken

    def array(self, name: str, *shape: int, dtype: str = "float32") -> Array:
        found = self._arrays.get(name)
        if found is None or found.shape != shape or found.dtype.name != dtype:
            raise WrongWeights(name)
        self._taken.add(name)
        return np.asarray(found)

    def matrix(self, name: str, rows: int, width: int) -> Matrix:
        if not self._int8:
            return self.array(name, rows, width), None
        return self.array(f"{name}.whole", rows, width, dtype="int8"), self.array(f"{name}.scale", rows)

    def linear(self, matrix: Matrix, bias_name: str, *, bias: bool) -> NativeLinear:
        numbers, scales = matrix
        bias_N = self.array(bias_name, len(numbers)) if bias else None
        if scales is not None:
            return NativeLinear.from_int8(kernels.pack_int8(numbers, scales), bias_N)
        return (NativeLinear.from_frozen_floats if self._packed else NativeLinear.from_floats)(numbers, bias_N)

    def positions(self, side: str) -> Floats | None:
        """Learned positions, where the model has them."""
        config = self._config
        if config.positions != "learned":
            return None
        return self.array(f"{side}.positions.weight", config.context, config.width)

    def stack(self, name: str, layers: int, *, cross: bool) -> Stack:
        config = self._config
        blocks = [self._block(f"{name}.blocks.{i}", cross=cross) for i in range(layers)]
        last = self._norm(f"{name}.norm") if config.norm_first else None
        # keys and values as halves: int8 is not more exact than that
        return Stack(blocks, _sizes(config), final_norm=last, activation=config.activation, fp16_kv=self._int8)

    def _block(self, name: str, *, cross: bool) -> Block:
        config = self._config
        return Block(
            self._attention(f"{name}.attention"),
            self._attention(f"{name}.cross") if cross else None,
            self._part(f"{name}.feedforward.up", config.inner, config.width, config.feedforward_bias),
            self._part(f"{name}.feedforward.down", config.width, config.inner, config.feedforward_bias),
            self._norm(f"{name}.feedforward_residual.norm"),
        )

    def _attention(self, name: str) -> Attention:
        config = self._config
        queries = config.heads * config.per_head_width
        keys = (config.kv_heads or config.heads) * config.per_head_width
        bias = config.attention_bias
        return Attention(
            query=self._part(f"{name}.query", queries, config.width, bias),
            key=self._part(f"{name}.key", keys, config.width, bias),
            value=self._part(f"{name}.value", keys, config.width, bias),
            output=self._part(f"{name}.output", config.width, queries, config.attention_output_bias),
            norm=self._norm(f"{name}_residual.norm"),
        )

    def _part(self, name: str, outs: int, width: int, bias: bool) -> NativeLinear:
        return self.linear(self.matrix(f"{name}.weight", outs, width), f"{name}.bias", bias=bias)

    def _norm(self, name: str) -> Norm:
        width = self._config.width
        return Norm(self.array(f"{name}.weight", width), self.array(f"{name}.bias", width), self._config.norm_eps)


def _sizes(config: Seq2SeqConfig) -> Sizes:
    return Sizes(config.width, config.inner, config.heads, config.kv_heads or config.heads, config.per_head_width)
