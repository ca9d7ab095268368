"""Model sizes by name: the published models, and small ones for a laptop."""

from dataclasses import replace
from typing import TypeVar

from regard.config import did_you_mean
from regard.errors import ConfigError
from regard.models.config import BlockConfig, DecoderConfig, EncoderConfig, RotaryScaling, Seq2SeqConfig, VisionConfig

# Vaswani et al. 2017: post-norm, sinusoids, embeddings tied three ways, about 37,000 tokens for English-German
_BASE = Seq2SeqConfig(vocab=37_000, width=512, heads=8, inner=2048, dropout=0.1, context=1024)

# Devlin et al. 2018
_BERT = EncoderConfig(
    vocab=30_522,
    width=768,
    layers=12,
    heads=12,
    inner=3072,
    context=512,
    segments=2,
    activation="gelu",
    norm_eps=1e-12,
    embedding_norm=True,
    pooler="tanh",
    dropout=0.1,
)

# Radford et al. 2019
_GPT2 = DecoderConfig(
    vocab=50_257,
    width=768,
    layers=12,
    heads=12,
    inner=3072,
    context=1024,
    activation="gelu_tanh",
    norm_first=True,
    dropout=0.1,
)

# Touvron et al. 2023
_LLAMA = DecoderConfig(
    vocab=32_000,
    width=4096,
    layers=32,
    heads=32,
    inner=11_008,
    context=4096,
    positions="rotary",
    activation="swiglu",
    norm="rms",
    norm_first=True,
    attention_bias=False,
    attention_output_bias=False,
    feedforward_bias=False,
    tied=False,
)
_LLAMA31 = replace(
    _LLAMA,
    vocab=128_256,
    kv_heads=8,
    inner=14_336,
    context=131_072,
    rotary_base=500_000.0,
    rotary_scaling=RotaryScaling(kind="llama3", factor=8.0),
)

# Dosovitskiy et al. 2020, with ImageNet's 1,000 classes
_VIT = VisionConfig(
    width=768,
    layers=12,
    heads=12,
    inner=3072,
    activation="gelu",
    norm_eps=1e-12,
    norm_first=True,
    labels=tuple(f"label {i}" for i in range(1000)),
)

Config = TypeVar("Config", bound=BlockConfig)

PRESETS: dict[str, BlockConfig] = {
    "transformer-base": _BASE,
    "transformer-big": replace(_BASE, width=1024, heads=16, inner=4096, dropout=0.3),
    "transformer-small": replace(_BASE, vocab=10_000, width=256, heads=4, inner=1024, context=512),
    "transformer-tiny": replace(
        _BASE,
        vocab=10_000,
        width=128,
        heads=4,
        inner=256,
        encoder_layers=4,
        decoder_layers=4,
        dropout=0.3,
        context=512,
    ),
    "bert-base": _BERT,
    "bert-large": replace(_BERT, width=1024, layers=24, heads=16, inner=4096),
    "bert-small": replace(_BERT, width=256, layers=4, heads=4, inner=1024),
    "gpt2": _GPT2,
    "gpt2-medium": replace(_GPT2, width=1024, layers=24, heads=16, inner=4096),
    "gpt2-large": replace(_GPT2, width=1280, layers=36, heads=20, inner=5120),
    "gpt2-xl": replace(_GPT2, width=1600, layers=48, heads=25, inner=6400),
    "gpt-small": replace(_GPT2, vocab=8_000, width=256, layers=6, heads=8, inner=1024, context=256),
    "llama-2-7b": replace(_LLAMA, norm_eps=1e-5),
    "llama-3.1-8b": _LLAMA31,
    "llama-3.2-1b": replace(
        _LLAMA31,
        width=2048,
        layers=16,
        heads=32,
        inner=8192,
        tied=True,
        rotary_scaling=RotaryScaling(kind="llama3", factor=32.0),
    ),
    "llama-small": replace(_LLAMA, vocab=8_000, width=256, layers=6, heads=8, kv_heads=4, inner=688, context=256),
    "vit-b16": _VIT,
    "vit-small": replace(
        _VIT,
        image=28,
        patch=4,
        channels=1,
        width=96,
        layers=6,
        heads=4,
        inner=192,
        labels=tuple(str(i) for i in range(10)),
    ),
}


def preset(name: str, family: type[Config] = BlockConfig) -> Config:  # type: ignore[assignment]
    """The preset of this name, if it is of this family."""
    choices = {key: config for key, config in PRESETS.items() if isinstance(config, family)}
    if name not in choices:
        problem = f"preset '{name}' is of another family" if name in PRESETS else f"unknown preset '{name}'"
        hint = did_you_mean(name, choices) or f"; choose one of {', '.join(choices)}"
        raise ConfigError(f"{problem}{hint}")
    return choices[name]
