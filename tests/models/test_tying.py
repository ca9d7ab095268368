import pytest
import torch
from small_configs import decoder, encoder, seq2seq
from torch import nn

from regard.models import Decoder, Encoder, Seq2Seq
from regard.models.initialize import initialize

MATRIX = 11 * 8


def parameters(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


def one(a: nn.Module, b: nn.Module) -> bool:
    return a.weight.data_ptr() == b.weight.data_ptr()


@pytest.mark.parametrize(
    ("tied", "source_is_target", "target_is_output", "matrices"),
    [("none", False, False, 3), ("target", False, True, 2), ("all", True, True, 1)],
)
def test_tied_embeddings_of_a_translator_are_one_matrix(
    tied: str, source_is_target: bool, target_is_output: bool, matrices: int
) -> None:
    model = Seq2Seq(seq2seq(tied=tied))
    assert one(model.source.tokens, model.target.tokens) == source_is_target
    assert one(model.target.tokens, model.output) == target_is_output
    assert parameters(model) == parameters(model.encoder) + parameters(model.decoder) + matrices * MATRIX


def test_tying_the_target_leaves_a_source_vocabulary_of_its_own() -> None:
    model = Seq2Seq(seq2seq(tied="target", source_vocab=30))
    assert model.source.tokens.weight.shape == (30, 8)
    assert one(model.target.tokens, model.output)


@pytest.mark.parametrize("bias", [False, True])
def test_the_output_bias_is_never_tied(bias: bool) -> None:
    model = Seq2Seq(seq2seq(output_bias=bias))
    assert (model.output.bias is not None) == bias


def test_a_tied_decoder_has_one_matrix_less() -> None:
    tied, free = Decoder(decoder(tied=True)), Decoder(decoder(tied=False))
    assert one(tied.output, tied.embedding.tokens)
    assert not one(free.output, free.embedding.tokens)
    assert parameters(free) - parameters(tied) == MATRIX


def test_the_output_of_a_classifier_is_never_tied() -> None:
    model = Decoder(decoder(tied=True, head="classifier", labels=("yes", "no")))
    assert model.output.weight.shape == (2, 8)


def test_the_masked_language_head_ends_in_the_embedding() -> None:
    model = Encoder(encoder(head="masked_lm"))
    assert model.masked_lm is not None
    assert one(model.masked_lm.output, model.embedding.tokens)


def test_tying_outlives_first_weights() -> None:
    model = Seq2Seq(seq2seq(tied="all"))
    initialize(model, seed=0)
    assert one(model.source.tokens, model.target.tokens)
    assert one(model.target.tokens, model.output)


def test_tying_again_joins_what_was_given_apart() -> None:
    model = Seq2Seq(seq2seq(tied="all"))
    model.target.tokens.weight = nn.Parameter(torch.zeros(11, 8))
    model.output.weight = nn.Parameter(torch.ones(11, 8))
    model.tie()
    assert one(model.source.tokens, model.target.tokens)
    assert one(model.target.tokens, model.output)


def test_a_gradient_reaches_the_one_matrix_from_all_its_uses() -> None:
    model = Seq2Seq(seq2seq(tied="all"))
    model(torch.tensor([[1]]), torch.tensor([[2]])).square().sum().backward()
    gradient = model.source.tokens.weight.grad
    assert gradient is not None
    assert (gradient.abs().sum(-1) > 0).all()  # as an output every piece is used, read or not
