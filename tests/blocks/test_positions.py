import pytest
import torch
from torch.testing import assert_close
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from regard.blocks.positions import Alibi, Rotary, linear_rescale, llama3_rescale, rotate

# ---- rotary ---------------------------------------------------------------------------------------------------


def test_rotary_turns_as_llama_does() -> None:
    config = LlamaConfig(hidden_size=32, num_attention_heads=4, num_key_value_heads=2, rope_theta=10000.0)
    q, k = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 6, 8)
    positions = torch.tensor([[0, 1, 2, 3, 4, 5], [3, 4, 9, 10, 11, 30]])
    cos, sin = LlamaRotaryEmbedding(config)(q, positions)
    their_q, their_k = apply_rotary_pos_emb(q, k, cos, sin)
    rotation = Rotary(8)(positions)
    assert_close(rotate(q, rotation), their_q)
    assert_close(rotate(k, rotation), their_k)


def test_position_0_is_not_turned() -> None:
    x = torch.randn(1, 2, 3, 8)
    assert torch.equal(rotate(x, Rotary(8)(torch.zeros(1, 3, dtype=torch.long))), x)


def test_turning_back_gives_what_was_turned() -> None:
    x, rotary = torch.randn(1, 2, 5, 8), Rotary(8)
    there = rotate(x, rotary(torch.arange(5)[None]))
    assert_close(rotate(there, rotary(-torch.arange(5)[None])), x)


def test_the_number_format_of_the_model_is_kept() -> None:
    x = torch.randn(1, 2, 5, 8, dtype=torch.bfloat16)
    rotation = Rotary(8)(torch.arange(5)[None])
    assert rotation.cos_B1LK.dtype == torch.float32
    assert rotate(x, rotation).dtype == torch.bfloat16


def test_an_odd_head_width_is_refused() -> None:
    with pytest.raises(AssertionError, match="head width is 5"):
        Rotary(5)


def their_frequencies(head_width: int, base: float, rope: dict[str, object]) -> torch.Tensor:
    config = LlamaConfig(hidden_size=2 * head_width, num_attention_heads=2, rope_parameters={"rope_theta": base} | rope)
    frequencies: torch.Tensor = ROPE_INIT_FUNCTIONS[str(rope["rope_type"])](config)[0]
    return frequencies


@pytest.mark.parametrize(("head_width", "base"), [(8, 10000.0), (64, 500_000.0)])
def test_linear_rescale_is_theirs(head_width: int, base: float) -> None:
    theirs = their_frequencies(head_width, base, {"rope_type": "linear", "factor": 4.0})
    assert_close(Rotary(head_width, base=base, rescale=linear_rescale(4.0)).frequencies(), theirs)


@pytest.mark.parametrize("factor", [8.0, 32.0])
@pytest.mark.parametrize(("low", "high", "original"), [(1.0, 4.0, 8192), (0.5, 16.0, 1024)])
@pytest.mark.parametrize("head_width", [64, 128])
def test_llama3_rescale_is_theirs(head_width: int, factor: float, low: float, high: float, original: int) -> None:
    rope = {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": original,
    }
    theirs = their_frequencies(head_width, 500_000.0, rope)
    ours = Rotary(head_width, base=500_000.0, rescale=llama3_rescale(factor, low, high, original)).frequencies()
    assert_close(ours, theirs, rtol=1e-5, atol=0.0)
    assert ours[0] == 1.0  # fast pairs are left alone
    assert ours[-1] == pytest.approx(float(Rotary(head_width, base=500_000.0).frequencies()[-1]) / factor)


# ---- ALiBi ----------------------------------------------------------------------------------------------------


def test_slopes_of_8_heads_are_a_half_to_a_256th() -> None:
    assert Alibi(8).slopes() == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]


def test_slopes_of_16_heads_begin_at_the_root_of_a_half() -> None:
    assert Alibi(16).slopes() == pytest.approx([2 ** (-(i + 1) / 2) for i in range(16)])


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 6, 7, 8, 12, 20, 112])
def test_slopes_are_blooms_for_any_number_of_heads(heads: int) -> None:
    theirs = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]  # at position 1: the slope itself
    assert_close(torch.tensor(Alibi(heads).slopes()), theirs, rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("heads", [3, 4])
def test_bias_before_the_query_is_blooms_up_to_a_constant(heads: int) -> None:
    positions = torch.arange(6)[None]
    ours = Alibi(heads)(positions, positions)[0]
    theirs = build_alibi_tensor(torch.ones(1, 6), heads, torch.float32)
    for query in range(6):
        difference = theirs[:, 0, : query + 1] - ours[:, query, : query + 1]  # softmax does not see a constant
        assert_close(difference, difference[:, :1].expand_as(difference))


def test_bias_is_zero_at_home_and_falls_on_both_sides() -> None:
    bias = Alibi(2)(torch.tensor([[2]]), torch.arange(5)[None])
    assert bias.shape == (1, 2, 1, 5)
    assert bias[0, 0, 0].tolist() == [-2 / 16, -1 / 16, 0.0, -1 / 16, -2 / 16]


def test_bias_of_new_tokens_is_the_last_rows_of_the_whole() -> None:
    positions, alibi = torch.tensor([[0, 0, 1, 2, 3]]), Alibi(3)
    assert torch.equal(alibi(positions[:, -2:], positions), alibi(positions, positions)[:, :, -2:])
