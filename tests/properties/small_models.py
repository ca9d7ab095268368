"""Small random models and batches, for tests that hold for every one of them.

B batch  L length
"""

from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from regard.models import Decoder, DecoderConfig, Encoder, EncoderConfig, Seq2Seq, Seq2SeqConfig, build
from regard.models.config import BlockConfig, RotaryScaling

VOCAB, CONTEXT = 13, 24
POSITIONS = ("learned", "rotary", "alibi", "sinusoidal", "sinusoidal_halves", "none")
ORDERED = tuple(kind for kind in POSITIONS if kind != "none")

seeds = st.integers(0, 2**32 - 1)


def close(ours: Tensor, expected: Tensor) -> None:
    # float32 sums in another order differ by 1e-6, and a norm of a vector that is nearly flat magnifies that
    assert_close(ours, expected, atol=5e-5, rtol=1e-5)


@st.composite
def blocks(draw: st.DrawFn, positions: str) -> dict[str, Any]:
    """Settings of a block: multi-head, grouped and multi-query; either norm on either side; plain and gated."""
    heads = draw(st.sampled_from([1, 2, 3, 4]))
    head_width = draw(st.sampled_from([2, 4, 6] if positions == "rotary" else [2, 3, 4]))
    return {
        "heads": heads,
        "head_width": head_width,
        "kv_heads": draw(st.sampled_from([n for n in range(1, heads + 1) if heads % n == 0])),
        "width": draw(st.sampled_from([8, 11])),
        "inner": 12,
        "activation": draw(st.sampled_from(["gelu", "swiglu", "relu"])),
        "norm": draw(st.sampled_from(["layer", "rms"])),
        "norm_first": draw(st.booleans()),
        "attention_bias": draw(st.booleans()),
        "positions": positions,
        "vocab": VOCAB,
        "context": CONTEXT,
    }


def lively(model: nn.Module, seed: int) -> nn.Module:
    """Random weights of a size at which tokens really look at one another: first weights look everywhere alike."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=random)
            if "norm" in name and name.endswith("weight"):
                weight.copy_(1 + 0.2 * noise)
            elif weight.dim() < 2:
                weight.copy_(0.2 * noise)
            else:
                is_embedding = "tokens" in name or "positions" in name or "segments" in name
                weight.copy_(noise if is_embedding else 1.5 * noise / weight.shape[1] ** 0.5)
    return model.eval()


def built(config: BlockConfig, seed: int) -> Any:
    return lively(build(config), seed)


@st.composite
def decoders(draw: st.DrawFn, positions: tuple[str, ...] = POSITIONS, **fixed: Any) -> Decoder:
    kind = draw(st.sampled_from(positions))
    scaling = RotaryScaling(kind="llama3", factor=4.0, original_context=8)
    config = DecoderConfig(
        **draw(blocks(kind)) | fixed,
        layers=draw(st.integers(1, 2)),
        embedding_norm=draw(st.booleans()),
        rotary_scaling=draw(st.sampled_from([None, scaling])) if kind == "rotary" else None,
    )
    model: Decoder = built(config, draw(seeds))
    return model


@st.composite
def encoders(draw: st.DrawFn, positions: tuple[str, ...] = POSITIONS, **fixed: Any) -> Encoder:
    config = EncoderConfig(**draw(blocks(draw(st.sampled_from(positions)))) | fixed, layers=draw(st.integers(1, 2)))
    model: Encoder = built(config, draw(seeds))
    return model


@st.composite
def translators(draw: st.DrawFn, **fixed: Any) -> Seq2Seq:
    config = Seq2SeqConfig(
        **draw(blocks(draw(st.sampled_from(POSITIONS)))) | fixed,
        encoder_layers=1,
        decoder_layers=draw(st.integers(1, 2)),
        tied=draw(st.sampled_from(["none", "all"])),
        scale_embeddings=False,
    )
    model: Seq2Seq = built(config, draw(seeds))
    return model


@dataclass(frozen=True)
class Batch:
    """Rows of different lengths, padded to one on one side."""

    ids_BL: Tensor
    present_BL: Tensor

    @property
    def rows(self) -> list[Tensor]:
        """Each row alone and without padding, (1, its length)."""
        return [ids[present][None] for ids, present in zip(self.ids_BL, self.present_BL, strict=True)]


@st.composite
def batches(draw: st.DrawFn, longest: int = 8, shortest: int = 1, rows: int = 3, padded: bool = True) -> Batch:
    count, longest = draw(st.integers(1, rows)), draw(st.integers(shortest, longest))
    lengths = [draw(st.integers(shortest, longest)) if padded else longest for _ in range(count)]
    ids_BL = random_ids(count, max(lengths), draw(seeds))  # padding holds random ids: they must not matter
    before = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Batch(ids_BL, before if draw(st.booleans()) else before.flip(1))


def random_ids(rows: int, length: int, seed: int) -> Tensor:
    return torch.randint(VOCAB, (rows, length), generator=torch.Generator().manual_seed(seed))


@st.composite
def cuts(draw: st.DrawFn, length: int) -> list[slice]:
    """A length cut into pieces, in order."""
    places = sorted(draw(st.sets(st.integers(1, length - 1)))) if length > 1 else []
    return [slice(a, b) for a, b in zip([0, *places], [*places, length], strict=True)]
