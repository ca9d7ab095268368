"""A translation model's passes, compiled: what Seq2Seq's modules say, in one call a pass, on a file's own weights.

Weights that nobody will change are put in the order in which the loops read them; those of a network that may still
learn are read where they are, if they are float32. The numbers are those of the modules to the last bits, and a
sentence's are the same in any company, bit for bit: no sum runs over another sentence or over padding. There is no
torch here; stepwise.py has more for who has torch.

V vocabulary  D width  L places  N outputs  C F related and frequent words
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from regard.blocks.sinusoids import sinusoids
from regard.inference.native import kernels
from regard.inference.native.encode import Embedding, NativeEncoder
from regard.inference.native.kernels import Array, Floats, NativeLinear
from regard.inference.native.search import DecoderIO
from regard.inference.native.stack import Attention, Block, Norm, Sizes, Stack
from regard.models.config import Seq2SeqConfig

WAVES = ("sinusoidal", "sinusoidal_halves")


def can_compile(config: Seq2SeqConfig) -> bool:
    """Kinds of parts that there are compiled loops for, on a machine that has them."""
    return (
        config.norm == "layer"
        and config.activation in kernels.ACTIVATIONS
        and config.positions in (*WAVES, "learned", "none")
        and _sizes(config).supported()
        and kernels.available()
    )


class NativeModel:
    """Reads sentences, and has what the compiled search writes with."""

    def __init__(self, config: Seq2SeqConfig, arrays: Mapping[str, Array], *, fixed: bool) -> None:
        """The arrays are a model directory's, by their names there; those that are fixed may be copied."""
        self.config, self._parts = config, WeightLoader(config, arrays, fixed)
        source, target = "source.tokens.weight", "target.tokens.weight"
        self._source = self._parts.matrix(source)
        self._target = self._source if config.tied == "all" else self._parts.matrix(target)
        output = {"all": source, "target": target, "none": "output.weight"}[config.tied]
        self.output = self._parts.weights(output, "output.bias")
        self.encoder = self._parts.stack("encoder", config.encoder_layers)
        self.decoder = self._parts.stack("decoder", config.decoder_layers)
        self._waves = np.zeros((0, config.width), np.float32)

    def reader(self, places: int) -> NativeEncoder:
        """For texts of up to so many tokens."""
        source = self._embedding("source", self._source, places)
        return NativeEncoder(encoder=self.encoder, decoder=self.decoder, source=source)

    def target(self, places: int) -> Embedding:
        """What goes into the decoder."""
        return self._embedding("target", self._target, places)

    def writer(
        self, places: int, related_VC: NDArray[np.int32] | None = None, frequent_F: NDArray[np.int32] | None = None
    ) -> DecoderIO:
        """What the compiled search needs of the model, for texts of up to so many tokens, and perhaps a shortlist."""
        return DecoderIO(target=self.target(places), output=self.output, related_VC=related_VC, frequent_F=frequent_F)

    def _embedding(self, side: str, matrix: "_Matrix", places: int) -> Embedding:
        numbers_VD, scales_V = matrix
        scale = math.sqrt(self.config.width) if self.config.scale_embeddings else 1.0
        positions_LD = self._places(side, places)
        return Embedding(weight_VD=numbers_VD, row_scales_V=scales_V, positions_LD=positions_LD, scale=scale)

    def _places(self, side: str, count: int) -> Floats | None:
        """What the first so many places add. -> (L, D)"""
        if self.config.positions in WAVES:
            table = self._waves  # taken once: another worker may put a shorter one in its place
            if len(table) < count:
                length = 1 << max(count - 1, 63).bit_length()
                table = sinusoids(length, self.config.width, interleaved=self.config.positions == "sinusoidal")
                self._waves = table
            return table[:count]
        if self.config.positions == "learned":
            return self._parts[f"{side}.positions.weight"]
        return None


# ---- names -> what the compiled pass wants -----------------------------------------------------------------------

_Matrix = tuple[Array, Floats | None]
"""Numbers; or whole ones, and what one is worth in each row."""


class WeightLoader:
    """A model's arrays, and what is made of them."""

    def __init__(self, config: Seq2SeqConfig, arrays: Mapping[str, Array], fixed: bool) -> None:
        self._config, self._arrays, self._fixed = config, arrays, fixed

    def __getitem__(self, name: str) -> Floats:
        return self._arrays[name]

    def matrix(self, name: str) -> _Matrix:
        if name in self._arrays:
            return self._arrays[name], None
        return self._arrays[f"{name}.whole"], self._arrays[f"{name}.scale"]

    def weights(self, name: str, bias: str) -> NativeLinear:
        numbers, scales = self.matrix(name)
        bias_N = self._arrays.get(bias)
        if scales is not None:
            return NativeLinear.from_int8(kernels.pack_int8(numbers, scales), bias_N)
        return (NativeLinear.from_frozen_floats if self._fixed else NativeLinear.from_floats)(numbers, bias_N)

    def stack(self, name: str, layers: int) -> Stack:
        config = self._config
        made = [self._block(f"{name}.blocks.{i}", cross=name == "decoder") for i in range(layers)]
        last = self._norm(f"{name}.norm") if config.norm_first else None
        half = f"{name}.blocks.0.attention.query.weight" not in self._arrays  # int8 is no more exact than that
        return Stack(made, _sizes(config), final_norm=last, activation=config.activation, fp16_kv=half)

    def _block(self, name: str, *, cross: bool) -> Block:
        return Block(
            self._attention(f"{name}.attention"),
            self._attention(f"{name}.cross") if cross else None,
            self._linear(f"{name}.feedforward.up"),
            self._linear(f"{name}.feedforward.down"),
            self._norm(f"{name}.feedforward_residual.norm"),
        )

    def _attention(self, name: str) -> Attention:
        query, key, value, output = (self._linear(f"{name}.{part}") for part in ("query", "key", "value", "output"))
        return Attention(query, key, value, output, self._norm(f"{name}_residual.norm"))

    def _linear(self, name: str) -> NativeLinear:
        return self.weights(f"{name}.weight", f"{name}.bias")

    def _norm(self, name: str) -> Norm:
        return Norm(self[f"{name}.weight"], self[f"{name}.bias"], self._config.norm_eps)


def _sizes(config: Seq2SeqConfig) -> Sizes:
    return Sizes(config.width, config.inner, config.heads, config.kv_heads or config.heads, config.per_head_width)


def shapes(config: Seq2SeqConfig) -> dict[str, tuple[int, ...]]:
    """What a file of such a model holds, in float32: every name and its shape."""
    width, inner, queries = config.width, config.inner, config.heads * config.per_head_width
    keys = (config.kv_heads or config.heads) * config.per_head_width
    found: dict[str, tuple[int, ...]] = {}

    def linear(name: str, outs: int, ins: int, bias: bool) -> None:
        found[f"{name}.weight"] = (outs, ins)
        if bias:
            found[f"{name}.bias"] = (outs,)

    def norm(name: str) -> None:
        found[f"{name}.weight"] = found[f"{name}.bias"] = (width,)

    def attention(name: str) -> None:
        linear(f"{name}.query", queries, width, config.attention_bias)
        linear(f"{name}.key", keys, width, config.attention_bias)
        linear(f"{name}.value", keys, width, config.attention_bias)
        linear(f"{name}.output", width, queries, config.attention_output_bias)
        norm(f"{name}_residual.norm")

    for side, vocab, tied in (
        ("source", config.source_vocab or config.vocab, False),
        ("target", config.vocab, config.tied == "all"),
    ):
        if not tied:
            found[f"{side}.tokens.weight"] = (vocab, width)
        if config.positions == "learned":
            found[f"{side}.positions.weight"] = (config.context, width)
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for i in range(layers):
            attention(f"{side}.blocks.{i}.attention")
            if side == "decoder":
                attention(f"{side}.blocks.{i}.cross")
            linear(f"{side}.blocks.{i}.feedforward.up", inner, width, config.feedforward_bias)
            linear(f"{side}.blocks.{i}.feedforward.down", width, inner, config.feedforward_bias)
            norm(f"{side}.blocks.{i}.feedforward_residual.norm")
        if config.norm_first:
            norm(f"{side}.norm")
    if config.tied == "none":
        found["output.weight"] = (config.vocab, width)
    if config.output_bias:
        found["output.bias"] = (config.vocab,)
    return found
