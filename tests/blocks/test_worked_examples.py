"""The worked examples of the lectures, reproduced with regard's public parts."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from regard.blocks.attention import Attention, attend, attention_weights, causal_mask, combine_masks, padding_mask
from regard.blocks.embeddings import Sinusoidal, TokenEmbedding, sinusoidal
from regard.blocks.norms import LayerNorm
from regard.blocks.positions import Rotary, rotate
from regard.blocks.trace import Trace
from regard.decoding.greedy import greedy
from regard.models import Encoder, EncoderConfig, Seq2Seq, Seq2SeqConfig, build
from regard.models.initialize import initialize
from regard.models.presets import preset

PRINTED = {"atol": 5e-5, "rtol": 0.0}  # the lectures print four decimals
PRINTED_3 = {"atol": 5e-4, "rtol": 0.0}  # or three


def heads(rows: list[list[float]]) -> Tensor:
    """Vectors, one per row, as one head in a batch of one."""
    return torch.tensor(rows)[None, None]


def scoring(scores: list[float]) -> tuple[Tensor, Tensor]:
    """One query and keys whose products are these scores."""
    return heads([[1.0]]), heads([[score] for score in scores])


def parameters(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


# ---- linear layers and self-attention do not see order --------------------------------------------------------

ROWS = [[1.0, 5.0, -2.0], [-1.0, 0.3, 1.4]]


def seeded_linear() -> nn.Linear:
    torch.manual_seed(123)
    return nn.Linear(3, 1)


def test_linear_layer_gives_the_printed_outputs() -> None:
    assert_close(seeded_linear()(torch.tensor(ROWS)), torch.tensor([[0.6514], [0.0574]]), **PRINTED)


def test_linear_layer_with_shuffled_columns_gives_the_same_outputs() -> None:
    linear, shuffle = seeded_linear(), [2, 0, 1]
    before = linear(torch.tensor(ROWS))
    linear.weight.data = linear.weight.data[:, shuffle]
    assert_close(linear(torch.tensor(ROWS)[:, shuffle]), before)


def test_self_attention_without_positions_permutes_with_its_input() -> None:
    attention, x_BLD, shuffle = Attention(8, 2), torch.randn(1, 5, 8), [3, 0, 4, 2, 1]
    assert_close(attention(x_BLD[:, shuffle]), attention(x_BLD)[:, shuffle])


def test_positions_make_self_attention_see_order() -> None:
    attention, x_BLD, shuffle = Attention(8, 2), torch.randn(1, 5, 8), [3, 0, 4, 2, 1]
    where_LD = sinusoidal(5, 8)
    moved, stayed = attention(x_BLD[:, shuffle] + where_LD), attention(x_BLD + where_LD)[:, shuffle]
    assert (moved - stayed).abs().max() > 0.01


# ---- moving a word toward its context -------------------------------------------------------------------------

APPLE, FRUIT, BRAND = [5.0, 7.0], [0.0, 8.0], [6.0, 0.0]


def divided_by_their_sum(similarities: list[float], values: list[list[float]]) -> list[float]:
    """Softmax of logarithms divides by the sum, as the lecture does for simplicity."""
    query, keys = scoring([math.log(similarity) for similarity in similarities])
    vector: list[float] = attend(query, keys, heads(values), scale=1.0)[0, 0, 0].tolist()
    return vector


def test_similarities_1_and_025_divided_by_their_sum_are_08_and_02() -> None:
    query, keys = scoring([math.log(1.0), math.log(0.25)])
    assert_close(attention_weights(query, keys, scale=1.0)[0, 0, 0], torch.tensor([0.8, 0.2]))


def test_apple_moves_toward_fruit() -> None:
    assert divided_by_their_sum([1.0, 0.25], [APPLE, FRUIT]) == pytest.approx([4.0, 7.2], abs=1e-5)


def test_apple_moves_toward_brand() -> None:
    # 0.11 / 1.11 is 0.0991; the lecture goes on with 0.1
    assert [round(x, 1) for x in divided_by_their_sum([1.0, 0.11], [APPLE, BRAND])] == [5.1, 6.3]
    assert divided_by_their_sum([0.9, 0.1], [APPLE, BRAND]) == pytest.approx([5.1, 6.3], abs=1e-5)


def test_softmax_of_the_two_similarities() -> None:
    weights = attention_weights(*scoring([1.0, 0.25]), scale=1.0)
    assert_close(weights[0, 0, 0], torch.tensor([0.679, 0.321]), **PRINTED_3)


# ---- attention ------------------------------------------------------------------------------------------------


def test_basic_self_attention_needs_no_parameters() -> None:
    x_LD = torch.tensor([APPLE, FRUIT, BRAND])
    expected = (x_LD @ x_LD.T).softmax(-1) @ x_LD
    x = x_LD[None, None]
    assert_close(attend(x, x, x, scale=1.0)[0, 0], expected)


def test_scaled_dot_product_attention_adds_minus_infinity_where_a_query_may_not_look() -> None:
    q, k, v = torch.randn(3, 1, 1, 4, 6).unbind()
    may_attend = causal_mask(4)
    added = torch.zeros(1, 1, 4, 4).masked_fill(~may_attend, -torch.inf)
    expected = (q @ k.mT / math.sqrt(6) + added).softmax(-1) @ v
    assert_close(attend(q, k, v, may_attend), expected)


STUDENT_SCORES = [
    [0.7, 0.1, 0.1, 0.1],
    [0.1, 0.6, 0.2, 0.1],
    [0.1, 0.3, 0.6, 0.1],
    [0.1, 0.3, 0.3, 0.3],
]
STUDENT_WEIGHTS = [
    [1.0, 0.0, 0.0, 0.0],
    [0.3775, 0.6225, 0.0, 0.0],
    [0.2584, 0.3156, 0.4260, 0.0],
    [0.2144, 0.2619, 0.2619, 0.2619],
]


def student_weights(may_attend: Tensor | None) -> Tensor:
    one_hot_keys = torch.eye(4)[None, None]  # a query times these is the query: its scores
    return attention_weights(heads(STUDENT_SCORES), one_hot_keys, may_attend, scale=1.0)[0, 0]


def test_look_ahead_mask_of_i_am_a_student() -> None:
    assert_close(student_weights(causal_mask(4)), torch.tensor(STUDENT_WEIGHTS), **PRINTED)


def test_what_is_masked_becomes_exactly_zero() -> None:
    weights = student_weights(causal_mask(4))
    assert (weights.triu(1) == 0.0).all()


def test_padding_and_look_ahead_combine() -> None:
    present = torch.tensor([[True, True, True, False]])
    weights = student_weights(combine_masks(causal_mask(4), padding_mask(present)))
    assert_close(weights[:3], torch.tensor(STUDENT_WEIGHTS)[:3], **PRINTED)
    assert weights[3, 3] == 0.0
    assert_close(weights[3, :3], torch.tensor([0.1, 0.3, 0.3]).softmax(-1))


# ---- encoder-decoder attention --------------------------------------------------------------------------------


def test_student_is_mostly_etudiant() -> None:
    je, suis, etudiant = [1.0, 0.0, 2.0], [0.0, 1.0, 4.0], [3.0, -1.0, 0.5]
    query, keys = scoring([math.log(0.15), math.log(0.05), math.log(0.8)])
    student = attend(query, keys, heads([je, suis, etudiant]), scale=1.0)[0, 0, 0]
    mixed = 0.15 * torch.tensor(je) + 0.05 * torch.tensor(suis) + 0.8 * torch.tensor(etudiant)
    assert_close(student, mixed)


def test_every_decoder_layer_looks_at_the_same_final_encoder_output() -> None:
    model = Seq2Seq(Seq2SeqConfig(vocab=9, width=8, heads=2, inner=16, encoder_layers=2, decoder_layers=3)).eval()
    initialize(model, seed=0)
    trace = Trace()
    memory = model.encode(torch.tensor([[1, 2, 3]]))
    model.decode(torch.tensor([[4, 5]]), memory, trace=trace)
    for i, block in enumerate(model.decoder.blocks):
        keys_BHSK = block.cross.key(memory.states_BSD).view(1, 3, 2, 4).transpose(1, 2)
        values_BHSK = block.cross.value(memory.states_BSD).view(1, 3, 2, 4).transpose(1, 2)
        assert_close(trace[f"decoder.blocks.{i}.cross.keys"], keys_BHSK)
        assert_close(trace[f"decoder.blocks.{i}.cross.values"], values_BHSK)
        assert trace[f"decoder.blocks.{i}.cross.queries"].shape == (1, 2, 2, 4)


# ---- sinusoidal positions -------------------------------------------------------------------------------------

WIDTH_5 = [  # a row is a dimension, a column a position
    [0.000, 0.841, 0.909, 0.141, -0.757],
    [1.000, 0.540, -0.416, -0.990, -0.654],
    [0.000, 0.025, 0.050, 0.075, 0.100],
    [1.000, 1.000, 0.999, 0.997, 0.995],
    [0.000, 0.001, 0.001, 0.002, 0.003],
]


def test_sinusoids_of_width_5() -> None:
    assert_close(sinusoidal(5, 5), torch.tensor(WIDTH_5).T, **PRINTED_3)


def test_sinusoids_of_width_4() -> None:
    expected = torch.tensor([[0.0, 1.0, 0.0, 1.0], [0.8415, 0.5403, 0.0100, 0.99995]])
    assert_close(sinusoidal(2, 4), expected, **PRINTED)
    assert_close(Sinusoidal(4)(torch.tensor([[0, 1]]))[0], expected, **PRINTED)


def test_every_position_is_unique_and_bounded() -> None:
    table_LD = sinusoidal(500, 16)
    assert table_LD.abs().max() <= 1.0
    assert (torch.cdist(table_LD, table_LD) + torch.eye(500)).min() > 0.1


@pytest.mark.parametrize("c", [1, 3, 17])
def test_a_shift_by_c_is_one_rotation_for_all_positions(c: int) -> None:
    width, length = 8, 40
    table_LD = sinusoidal(length + c, width)
    shift = torch.zeros(width, width)
    for i in range(width // 2):
        angle = c / 10000 ** (2 * i / width)
        cos, sin = math.cos(angle), math.sin(angle)
        shift[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[cos, sin], [-sin, cos]])
    assert_close(shift @ shift.T, torch.eye(width))
    assert_close(table_LD[:length] @ shift.T, table_LD[c:])


@pytest.mark.parametrize("c", [1, 3, 17])
def test_rope_turns_by_the_rotation_that_shifts_sinusoids(c: int) -> None:
    width, length = 8, 40
    sin_LW, cos_LW = sinusoidal(length + c, width, interleaved=False).chunk(2, dim=-1)
    table_LD = torch.cat((cos_LW, sin_LW), dim=-1)
    turned = rotate(table_LD[None, None, :length], Rotary(width)(torch.full((1, length), c)))
    assert_close(turned[0, 0], table_LD[c:])


def test_rope_scores_depend_on_distance_only() -> None:
    rotary = Rotary(8)
    q, k = torch.randn(2, 1, 1, 1, 8).unbind()

    def score(query_at: int, key_at: int) -> float:
        turned = [rotate(x, rotary(torch.tensor([[at]]))) for x, at in ((q, query_at), (k, key_at))]
        return float((turned[0] * turned[1]).sum())

    assert score(5, 2) == pytest.approx(score(105, 102), abs=1e-4)  # float32 angles are off by 1e-5 at position 100
    assert score(5, 2) == pytest.approx(score(3, 0), abs=1e-5)
    assert score(5, 2) != pytest.approx(score(5, 3), abs=1e-2)


def test_rope_does_not_change_norms() -> None:
    x = torch.randn(2, 3, 50, 8, generator=torch.Generator().manual_seed(0))
    turned = rotate(x, Rotary(8)(torch.arange(50)[None]))
    assert_close(turned.norm(dim=-1), x.norm(dim=-1))


# ---- layer normalisation --------------------------------------------------------------------------------------


def test_layer_norm_of_2_4_6_8() -> None:
    x = torch.tensor([2.0, 4.0, 6.0, 8.0])
    assert (x.mean(), x.var(unbiased=False)) == (5.0, 5.0)
    assert_close(LayerNorm(4, eps=1e-5)(x), torch.tensor([-1.3416, -0.4472, 0.4472, 1.3416]), **PRINTED)


def test_only_layer_norm_is_the_same_at_batch_1() -> None:
    batch = torch.tensor([[2.0, 4.0, 6.0, 8.0], [1.0, 0.0, 3.0, -5.0], [0.0, 2.0, 2.0, 9.0]])
    layer, along_batch = LayerNorm(4), nn.BatchNorm1d(4)
    assert torch.equal(layer(batch[:1]), layer(batch)[:1])
    assert not torch.allclose(along_batch(batch[:2])[:1], along_batch(batch)[:1])
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        along_batch(batch[:1])


# ---- what a multi-head attention layer holds ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heads", "head_width", "with_biases", "without"), [(1, 2, 150, 128), (3, 2, 418, 384), (3, 5, 1021, 960)]
)
def test_parameters_of_multi_head_attention(heads: int, head_width: int, with_biases: int, without: int) -> None:
    assert parameters(Attention(16, heads, head_width=head_width)) == with_biases
    assert parameters(Attention(16, heads, head_width=head_width, bias=False, output_bias=False)) == without


def test_parameters_of_one_head_without_biases_on_query_key_and_value() -> None:
    # the notes list 144 beside 384 and 960, as if without any bias; it still counts the output's 16 (128 + 16)
    assert parameters(Attention(16, 1, head_width=2, bias=False)) == 144


@pytest.mark.parametrize(("heads", "head_width"), [(1, 2), (3, 2), (3, 5)])
def test_shapes_of_the_weights_of_multi_head_attention(heads: int, head_width: int) -> None:
    attention = Attention(16, heads, head_width=head_width)
    for projection in (attention.query, attention.key, attention.value):
        assert (projection.weight.shape, projection.bias.shape) == ((heads * head_width, 16), (heads * head_width,))
    assert (attention.output.weight.shape, attention.output.bias.shape) == ((16, heads * head_width), (16,))


@pytest.mark.parametrize(("heads", "head_width"), [(1, 2), (3, 2), (3, 5)])
def test_attention_weights_have_a_square_for_each_head(heads: int, head_width: int) -> None:
    trace = Trace()
    out = Attention(16, heads, head_width=head_width)(torch.randn(4, 6, 16), trace=trace)
    assert trace["weights"].shape == (4, heads, 6, 6)
    assert out.shape == (4, 6, 16)


# ---- static and contextual embeddings -------------------------------------------------------------------------

EAT = torch.tensor([[1, 2, 3, 4]])  # I ate an apple
PHONE = torch.tensor([[5, 6, 7, 4]])  # my phone: an apple


def test_the_static_embedding_of_apple_is_the_same_in_both_sentences() -> None:
    embedding = TokenEmbedding(8, 16)
    assert torch.equal(embedding(EAT)[:, -1], embedding(PHONE)[:, -1])


def test_the_contextual_embedding_of_apple_differs() -> None:
    model = Encoder(EncoderConfig(vocab=8, width=16, heads=2, inner=32, layers=2, context=8)).eval()
    initialize(model, seed=0)
    assert (model(EAT)[:, -1] - model(PHONE)[:, -1]).abs().max() > 0.001


def test_embeddings_are_scaled_by_the_square_root_of_the_width() -> None:
    model = Seq2Seq(Seq2SeqConfig(vocab=8, width=16, heads=2, inner=32))
    assert_close(model.source.tokens(EAT), model.source.tokens.weight[EAT] * 4.0)


# ---- temperature ----------------------------------------------------------------------------------------------

LOGITS = [2.0, 1.0, 0.5, -1.0]


def at_temperature(temperature: float) -> Tensor:
    return attention_weights(*scoring(LOGITS), scale=1 / temperature)[0, 0, 0]


def test_temperature_1_leaves_the_distribution() -> None:
    assert_close(at_temperature(1.0), torch.tensor(LOGITS).softmax(-1))


def test_temperature_toward_0_is_greedy() -> None:
    assert_close(at_temperature(0.01), torch.tensor([1.0, 0.0, 0.0, 0.0]))
    chosen = greedy(lambda _: torch.tensor([LOGITS]), torch.tensor([[0]]), max_tokens=1)
    assert chosen == [[int(at_temperature(0.01).argmax())]]


def test_larger_temperature_flattens() -> None:
    spread = [float(at_temperature(t).max() - at_temperature(t).min()) for t in (0.5, 1.0, 2.0, 8.0)]
    assert spread == sorted(spread, reverse=True)
    assert_close(at_temperature(1e6), torch.full((4,), 0.25))


# ---- the published models -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "width", "inner", "heads", "dropout"),
    [("transformer-base", 512, 2048, 8, 0.1), ("transformer-big", 1024, 4096, 16, 0.3)],
)
def test_settings_of_the_two_published_models(name: str, width: int, inner: int, heads: int, dropout: float) -> None:
    config = preset(name)
    assert isinstance(config, Seq2SeqConfig)
    assert (config.encoder_layers, config.decoder_layers, config.vocab) == (6, 6, 37_000)
    assert (config.width, config.inner, config.heads, config.dropout) == (width, inner, heads, dropout)
    assert (config.tied, config.scale_embeddings, config.positions) == ("all", True, "sinusoidal")


@pytest.mark.parametrize(("name", "millions"), [("transformer-base", 63.1), ("transformer-big", 214.2)])
def test_parameters_of_the_two_published_models(name: str, millions: float) -> None:
    with torch.device("meta"):
        assert round(parameters(build(preset(name))) / 1e6, 1) == millions


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("bert-base", 109_482_240),
        ("bert-large", 335_141_888),
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
        ("llama-2-7b", 6_738_415_616),
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.2-1b", 1_235_814_400),
        ("vit-b16", 86_567_656),
    ],
)
def test_parameters_of_other_published_models(name: str, count: int) -> None:
    with torch.device("meta"):
        assert parameters(build(preset(name))) == count


# ---- the sixteen steps, in order ------------------------------------------------------------------------------


def test_a_trace_follows_the_steps_of_the_lectures() -> None:
    model = Seq2Seq(Seq2SeqConfig(vocab=9, width=8, heads=2, inner=16, encoder_layers=1, decoder_layers=1)).eval()
    trace = Trace()
    model(torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5]]), trace=trace)

    def looking(part: str) -> list[str]:
        return [f"{part}.{name}" for name in ("queries", "keys", "values", "weights")]

    assert list(trace) == [
        "source.tokens",
        "source.positions",
        "source.output",
        *looking("encoder.blocks.0.attention"),
        "encoder.blocks.0.after_attention",
        "encoder.blocks.0.after_feedforward",
        "encoder.output",
        "target.tokens",
        "target.positions",
        "target.output",
        *looking("decoder.blocks.0.attention"),
        "decoder.blocks.0.after_attention",
        *looking("decoder.blocks.0.cross"),
        "decoder.blocks.0.after_cross",
        "decoder.blocks.0.after_feedforward",
        "decoder.output",
        "logits",
    ]
