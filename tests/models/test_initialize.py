import math

import pytest
import torch
import torch.nn.functional as F
from small_configs import SMALL
from torch import nn

from regard.blocks.embeddings import Learned
from regard.models import Decoder, DecoderConfig, Encoder, EncoderConfig, Seq2Seq, Seq2SeqConfig, VisionConfig, build
from regard.models.initialize import initialize

BLOCK = {"width": 64, "heads": 4, "inner": 256}
TRANSLATOR = Seq2SeqConfig(**BLOCK, vocab=500, encoder_layers=2, decoder_layers=2)
GPT = DecoderConfig(**BLOCK, vocab=500, layers=3, context=32, norm_first=True, activation="gelu")
LLAMA = DecoderConfig(
    **BLOCK, vocab=500, layers=3, context=32, norm_first=True, activation="swiglu", norm="rms", positions="rotary"
)
BERT = EncoderConfig(**BLOCK, vocab=500, layers=2, context=32, head="masked_lm", embedding_norm=True)
VIT = VisionConfig(**BLOCK, layers=2, image=16, patch=4, norm_first=True, labels=tuple("abcdefghij"))


def initialized(config: object, seed: int | None = 0) -> nn.Module:
    model = build(config).eval().requires_grad_(False)
    initialize(model, seed=seed)
    return model


def std(part: nn.Module) -> float:
    return float(part.weight.std())


@pytest.mark.parametrize("name", SMALL)
def test_the_same_seed_gives_the_same_weights(name: str) -> None:
    one, same, other = (initialized(SMALL[name], seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", SMALL)
def test_without_a_seed_each_time_is_different(name: str) -> None:
    one, other = (initialized(SMALL[name], None).state_dict() for _ in range(2))
    assert not all(torch.equal(one[key], other[key]) for key in one)


def test_first_weights_leave_the_global_generator_alone() -> None:
    model = build(SMALL["decoder"])
    before = torch.get_rng_state()
    initialize(model, seed=1)
    initialize(model)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("config", [TRANSLATOR, GPT, LLAMA, BERT, VIT])
def test_biases_start_at_zero_and_norms_at_one(config: object) -> None:
    for part in initialized(config).modules():
        if isinstance(part, nn.Linear | nn.Conv2d) and part.bias is not None:
            assert (part.bias == 0).all()
        if type(part).__name__ in ("LayerNorm", "RMSNorm"):
            assert (part.weight == 1).all()


def test_a_translator_starts_as_the_paper_has_it() -> None:
    model = initialized(TRANSLATOR)
    assert isinstance(model, Seq2Seq)
    assert std(model.source.tokens) == pytest.approx(64**-0.5, rel=0.05)
    assert std(model.encoder.blocks[0].attention.query) == pytest.approx((2 / (64 + 64)) ** 0.5, rel=0.05)
    assert std(model.decoder.blocks[1].feedforward.up) == pytest.approx((2 / (64 + 256)) ** 0.5, rel=0.05)


def test_learned_positions_of_a_translator_start_small() -> None:
    model = initialized(Seq2SeqConfig(**BLOCK, vocab=500, positions="learned"))
    assert isinstance(model, Seq2Seq)
    assert isinstance(model.source.positions, Learned)
    assert std(model.source.positions) == pytest.approx(0.02, rel=0.05)


CUT = 0.8796  # of a normal distribution that is cut off at two standard deviations


@pytest.mark.parametrize("config", [GPT, LLAMA])
def test_a_pre_norm_decoder_starts_as_gpt_2(config: DecoderConfig) -> None:
    model = initialized(config)
    assert isinstance(model, Decoder)
    assert std(model.embedding.tokens) == pytest.approx(0.02, rel=0.05)
    block = model.stack.blocks[1]
    assert std(block.attention.query) == pytest.approx(0.02 * CUT, rel=0.05)
    assert std(block.feedforward.up) == pytest.approx(0.02 * CUT, rel=0.05)
    for part in (block.attention.output, block.feedforward.down):  # six of them add to one residual stream
        assert std(part) == pytest.approx(0.02 * CUT / 6**0.5, rel=0.05)


def test_a_post_norm_encoder_starts_as_bert() -> None:
    model = initialized(BERT)
    assert isinstance(model, Encoder)
    assert std(model.embedding.tokens) == pytest.approx(0.02, rel=0.05)
    assert std(model.stack.blocks[0].attention.output) == pytest.approx(0.02 * CUT, rel=0.05)


@pytest.mark.parametrize("config", [GPT, LLAMA, BERT])
def test_the_first_loss_is_that_of_guessing(config: object) -> None:
    model, random = initialized(config), torch.Generator().manual_seed(0)
    ids, next_ids = torch.randint(500, (2, 8, 32), generator=random).unbind()
    loss = F.cross_entropy(model(ids).flatten(0, 1), next_ids.flatten())
    assert float(loss) == pytest.approx(math.log(500), abs=0.1)


def test_the_first_loss_of_a_translator_is_half_a_nat_above_guessing() -> None:
    # normed states times embeddings of size 1 / sqrt(width) are logits of variance 1, and E[exp] = exp(1 / 2)
    model, random = initialized(TRANSLATOR), torch.Generator().manual_seed(0)
    source, target, next_ids = torch.randint(500, (3, 8, 32), generator=random).unbind()
    loss = F.cross_entropy(model(source, target).flatten(0, 1), next_ids.flatten())
    assert float(loss) == pytest.approx(math.log(500) + 0.5, abs=0.3)


def test_the_first_loss_of_an_image_classifier_is_that_of_guessing() -> None:
    random = torch.Generator().manual_seed(0)
    images, labels = torch.randn(64, 3, 16, 16, generator=random), torch.randint(10, (64,), generator=random)
    assert float(F.cross_entropy(initialized(VIT)(images), labels)) == pytest.approx(math.log(10), abs=0.1)
