import pytest
import torch
from small_configs import SMALL, decoder, encoder, seq2seq, vision
from torch.testing import assert_close

from regard.blocks.embeddings import Learned, Sinusoidal
from regard.blocks.positions import Alibi, Rotary
from regard.blocks.trace import Trace
from regard.models import FAMILIES, Decoder, Encoder, Seq2Seq, Vision, build, family_of

IDS = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
PIXELS = torch.linspace(-1, 1, 2 * 3 * 6 * 6).view(2, 3, 6, 6)


def test_there_are_four_families() -> None:
    assert list(FAMILIES) == list(SMALL) == ["seq2seq", "encoder", "decoder", "vision"]


@pytest.mark.parametrize(
    ("name", "kind"), [("seq2seq", Seq2Seq), ("encoder", Encoder), ("decoder", Decoder), ("vision", Vision)]
)
def test_settings_know_their_family(name: str, kind: type) -> None:
    assert family_of(SMALL[name]) == name
    model = build(SMALL[name])
    assert type(model) is kind
    assert model.config is SMALL[name]


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        (encoder(), (2, 4, 8)),
        (encoder(head="masked_lm"), (2, 4, 11)),
        (encoder(head="masked_lm", activation="swiglu"), (2, 4, 11)),
        (encoder(head="classifier", labels=("a", "b", "c")), (2, 3)),
        (encoder(head="classifier", labels=("a", "b", "c"), pooler="gelu_tanh"), (2, 3)),
        (decoder(), (2, 4, 11)),
        (decoder(head="classifier", labels=("a", "b", "c")), (2, 3)),
    ],
)
def test_each_head_has_its_shape(config: object, shape: tuple[int, ...]) -> None:
    assert build(config).eval()(IDS).shape == shape


@pytest.mark.parametrize(("labels", "shape"), [((), (2, 5, 8)), (("a", "b", "c"), (2, 3))])
def test_an_image_becomes_labels_or_states(labels: tuple[str, ...], shape: tuple[int, ...]) -> None:
    assert build(vision(labels=labels)).eval()(PIXELS).shape == shape


def test_source_and_target_may_have_vocabularies_and_lengths_of_their_own() -> None:
    model = build(seq2seq(source_vocab=30, tied="target")).eval()
    assert model(torch.tensor([[29, 3, 2]]), IDS[:1]).shape == (1, 4, 11)


@pytest.mark.parametrize(
    ("positions", "added", "turned", "biased"),
    [
        ("learned", Learned, False, False),
        ("sinusoidal", Sinusoidal, False, False),
        ("sinusoidal_halves", Sinusoidal, False, False),
        ("rotary", None, True, False),
        ("alibi", None, False, True),
        ("none", None, False, False),
    ],
)
def test_the_name_of_a_position_becomes_its_part(
    positions: str, added: type | None, turned: bool, biased: bool
) -> None:
    model = Decoder(decoder(positions=positions))
    assert isinstance(model.embedding.positions, added or type(None))
    assert isinstance(model.stack.rotary, Rotary) == turned
    assert isinstance(model.stack.alibi, Alibi) == biased


def test_halves_are_marians_order() -> None:
    ours = Decoder(decoder(positions="sinusoidal_halves")).embedding.positions
    assert isinstance(ours, Sinusoidal)
    assert not ours.interleaved


@pytest.mark.parametrize("norm_first", [False, True])
def test_pre_norm_has_one_more_norm_after_the_last_block(norm_first: bool) -> None:
    assert (Decoder(decoder(norm_first=norm_first)).stack.norm is not None) == norm_first


@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_segments_and_scale_reach_the_embedding(name: str) -> None:
    make = {"encoder": encoder, "decoder": decoder}[name]
    model = build(make(scale_embeddings=True, positions="none")).eval()
    trace = Trace()
    model(IDS, trace=trace)
    assert_close(trace["embedding.output"], model.embedding.tokens.weight[IDS] * 8**0.5)


def test_without_segments_given_all_is_the_first_segment() -> None:
    model = Encoder(encoder(segments=2)).eval()
    assert torch.equal(model(IDS), model(IDS, segments_BL=torch.zeros_like(IDS)))
    assert not torch.allclose(model(IDS), model(IDS, segments_BL=torch.ones_like(IDS)))


def test_a_normalized_sentence_vector_has_length_1() -> None:
    model = Encoder(encoder(normalize=True)).eval()
    assert_close(model.embed(IDS, torch.ones_like(IDS, dtype=torch.bool)).norm(dim=-1), torch.ones(2))


def test_dropout_acts_only_while_training() -> None:
    model = build(decoder(dropout=0.5))
    torch.manual_seed(0)
    assert not torch.equal(model.train()(IDS), model(IDS))
    assert torch.equal(model.eval()(IDS), model(IDS))


@pytest.mark.parametrize("positions", ["learned", "rotary", "alibi", "sinusoidal", "none"])
def test_half_precision_gives_half_precision_looked_at_or_not(positions: str) -> None:
    model = build(decoder(positions=positions, norm="rms", activation="swiglu")).to(torch.bfloat16).eval()
    unseen, seen = model(IDS), model(IDS, trace=Trace())
    assert unseen.dtype == seen.dtype == torch.bfloat16
    assert_close(seen, unseen, atol=0.05, rtol=0.05)  # a bfloat16 has 8 bits


@pytest.mark.parametrize("name", SMALL)
def test_a_model_can_be_laid_out_without_memory(name: str) -> None:
    with torch.device("meta"):
        model = build(SMALL[name])
    assert all(weight.is_meta for weight in model.parameters())
    assert list(model.buffers()) == []
