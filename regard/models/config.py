"""The settings of each model family: frozen dataclasses, validated on creation.

BlockConfig ── settings of the block
├── Seq2SeqConfig   an encoder and a decoder (the paper's, Marian's)
├── TextConfig ──── one stack over text
│   ├── EncoderConfig   BERT, RoFormer, sentence embeddings
│   └── DecoderConfig   GPT-2, Llama
└── VisionConfig    ViT
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from regard.config import check_range, one_of
from regard.errors import ConfigError

MAX_CONTEXT = 1 << 24
"""Tokens. The longest published contexts have 10 million."""
MAX_LABELS = 1 << 18
MAX_END_TOKENS = 100
MAX_SUPPRESSED = 1 << 16

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"]
Norm = Literal["layer", "rms"]
Positions = Literal["sinusoidal", "sinusoidal_halves", "learned", "rotary", "alibi", "none"]


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """Settings of one Transformer block."""

    width: int
    """Width of the residual stream."""
    heads: int
    """Query heads."""
    kv_heads: int | None = None
    """Key/value heads; default: the number of query heads. 1 is multi-query, in between is grouped-query."""
    head_width: int | None = None
    """Width of one head; default: width / heads."""
    inner: int
    """Inner width of the feed-forward layer."""
    activation: Activation = "relu"
    """Activation of the feed-forward layer; swiglu is gated."""
    norm: Norm = "layer"
    norm_eps: float = 1e-5
    norm_first: bool = False
    """Pre-norm (with a final norm after the last block) instead of post-norm."""
    attention_bias: bool = True
    """Biases on the query, key and value projections."""
    attention_output_bias: bool = True
    feedforward_bias: bool = True
    dropout: float = 0.0
    """Dropout on the output of every part and on the embeddings, during training."""

    def __post_init__(self) -> None:
        check_choices(self)
        for name in ("width", "heads", "kv_heads", "head_width", "inner"):
            check_range(name, getattr(self, name), least=1)
        if self.head_width is None and self.width % self.heads:
            raise ConfigError(f"width {self.width} is not a multiple of heads {self.heads}; set head_width too")
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise ConfigError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        check_range("dropout", self.dropout, least=0, below=1)

    @property
    def per_head_width(self) -> int:
        """The head width, with its default filled in."""
        return self.width // self.heads if self.head_width is None else self.head_width


@dataclass(frozen=True, kw_only=True)
class RotaryScaling:
    """Scaling of rotary positions beyond the context of pre-training."""

    kind: Literal["linear", "llama3"]
    factor: float
    low: float = 1.0
    """llama3: pairs with fewer turns than this in the original context are slowed down by the full factor."""
    high: float = 4.0
    """llama3: pairs with more turns than this are unchanged."""
    original_context: int = 8192
    """llama3: the context before scaling."""

    def __post_init__(self) -> None:
        check_choices(self)
        check_range("original_context", self.original_context, least=1, most=MAX_CONTEXT)
        check_range("factor", self.factor, above=0)
        if not self.low < self.high:
            raise ConfigError(f"low {self.low} is not below high {self.high}")


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(BlockConfig):
    """An encoder, and a decoder that attends to its output."""

    vocab: int
    """Size of the target vocabulary; of both sides if the embeddings are shared."""
    source_vocab: int | None = None
    """Size of the source vocabulary, if it is a separate one."""
    encoder_layers: int = 6
    decoder_layers: int = 6
    context: int = 512
    """Maximum length of the source and of the target."""
    positions: Positions = "sinusoidal"
    tied: Literal["none", "target", "all"] = "all"
    """Embeddings that share one matrix: target input and output (two-way), or the source too (three-way)."""
    scale_embeddings: bool = True
    """Multiply embeddings by sqrt(width), as the paper does."""
    output_bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text(self.vocab, self.context, self.positions, self.per_head_width)
        check_range("source_vocab", self.source_vocab, least=1)
        check_range("encoder_layers", self.encoder_layers, least=1)
        check_range("decoder_layers", self.decoder_layers, least=1)
        if self.tied == "all" and self.source_vocab not in (None, self.vocab):
            raise ConfigError(
                "tied = 'all' needs one vocabulary for both sides; remove source_vocab or use tied = 'target'"
            )


@dataclass(frozen=True, kw_only=True)
class TextConfig(BlockConfig):
    """One stack of blocks over one text."""

    vocab: int
    layers: int
    context: int
    positions: Positions = "learned"
    rotary_base: float = 10000.0
    rotary_scaling: RotaryScaling | None = None
    scale_embeddings: bool = False
    embedding_norm: bool = False
    """A norm on the sum of the embeddings, before the first block (BERT)."""
    labels: tuple[str, ...] = ()
    """Names of the classes, if the head is a classifier."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text(self.vocab, self.context, self.positions, self.per_head_width)
        check_range("layers", self.layers, least=1)
        if self.rotary_scaling is not None and self.positions != "rotary":
            raise ConfigError(f"rotary_scaling needs positions = 'rotary', not '{self.positions}'")


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(TextConfig):
    """Every token attends to every other: BERT and similar models."""

    segments: int = 0
    """Number of segment types (BERT's sentence A and sentence B); 0 for none."""
    head: Literal["none", "masked_lm", "classifier"] = "none"
    pooler: Literal["none", "tanh", "relu", "gelu", "gelu_tanh", "silu"] = "none"
    """Activation of a layer on the first token's state, before the classifier (BERT: tanh)."""
    pooling: Literal["mean", "first", "pooler"] = "mean"
    """How `embed` turns the states into one vector."""
    normalize: bool = False
    """Whether to scale that vector to length 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("segments", self.segments, least=0)
        if (self.head == "classifier") != bool(self.labels):
            raise ConfigError("head = 'classifier' needs labels, and labels need head = 'classifier'")
        if self.pooling == "pooler" and self.pooler == "none":
            raise ConfigError("pooling = 'pooler' needs a pooler")


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(TextConfig):
    """Every token attends to itself and earlier ones: GPT-2, Llama and similar models."""

    head: Literal["lm", "classifier"] = "lm"
    tied: bool = True
    """The output projection is the embedding matrix."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.head == "classifier") != bool(self.labels):
            raise ConfigError("head = 'classifier' needs labels, and labels need head = 'classifier'")


@dataclass(frozen=True, kw_only=True)
class VisionConfig(BlockConfig):
    """An encoder over the patches of an image and a class token before them: ViT."""

    layers: int
    image: int = 224
    """Height and width of the image, in pixels."""
    patch: int = 16
    channels: int = 3
    labels: tuple[str, ...] = ()
    """Names of the classes; without them the model returns states."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("layers", "image", "patch", "channels"):
            check_range(name, getattr(self, name), least=1)
        if self.image % self.patch:
            raise ConfigError(f"patches of {self.patch} do not tile an image of {self.image}")


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """The search settings that travel with a model's weights."""

    start: int | None = None
    """First token of the decoder of a translation model; prepended to an empty prompt of a language model."""
    end: tuple[int, ...] = ()
    """Tokens that end the text."""
    pad: int | None = None
    suppressed: tuple[int, ...] = ()
    """Tokens never generated (OPUS-MT: the padding token, which its decoder starts with)."""
    max_tokens: int | None = None
    """Maximum length of the output, in tokens; limited only by the context if None."""
    beam: int = 1
    """Default beam size; 1 is greedy search."""
    length_penalty: float = 1.0
    """Exponent α of the length penalty in beam search; larger values favor longer hypotheses."""
    length_form: Literal["plain", "paper"] = "plain"
    """Divisor of the score of n tokens: n^α (plain), or the paper's ((5 + n) / 6)^α."""

    def __post_init__(self) -> None:
        check_range("beam", self.beam, least=1)
        check_range("max_tokens", self.max_tokens, least=1)
        at_most("the number of end tokens", len(self.end), MAX_END_TOKENS)
        at_most("the number of suppressed tokens", len(self.suppressed), MAX_SUPPRESSED)


def at_most(name: str, value: int, most: int) -> None:
    check_range(name, value, most=most)


def check_choices(settings: Any) -> None:
    """Check values set in code (`read` checks files): a misspelled name must not build another model."""
    for name, hint in get_type_hints(type(settings)).items():
        if get_origin(hint) is Literal:
            one_of(getattr(settings, name), get_args(hint), name)


def check_text(vocab: int, context: int, positions: Positions, head_width: int) -> None:
    check_range("vocab", vocab, least=1)
    # the table of learned positions has as many rows
    check_range("context", context, least=1, most=None if positions == "learned" else MAX_CONTEXT)
    if positions == "rotary" and head_width % 2:
        raise ConfigError(f"rotary positions need an even head width, not {head_width}")
