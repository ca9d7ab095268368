"""What depends on order and what does not: the future is never seen, distance is all that RoPE knows, and without
positions a sentence is a bag."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from small_models import ORDERED, VOCAB, Batch, batches, close, decoders, encoders, random_ids, seeds, translators
from torch import Tensor
from torch.testing import assert_close

from regard.blocks.attention import attention_weights
from regard.blocks.positions import Alibi, Rotary, linear_rescale, llama3_rescale, rotate
from regard.models import Decoder, Encoder, Seq2Seq


def with_another_future(ids_BL: Tensor, at: int) -> Tensor:
    changed = ids_BL.clone()
    changed[:, at:] = (changed[:, at:] + 1) % VOCAB
    return changed


@given(decoders(), batches(shortest=2), st.data())
def test_decoder_never_sees_the_future(model: Decoder, batch: Batch, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, batch.ids_BL.shape[1] - 1))
    changed = with_another_future(batch.ids_BL, at)
    before, after = model(batch.ids_BL, batch.present_BL), model(changed, batch.present_BL)
    assert torch.equal(after[:, :at], before[:, :at])
    assert not torch.equal(after[:, at:], before[:, at:])


@given(translators(), batches(padded=False), batches(shortest=2, padded=False), st.data())
def test_translator_never_sees_the_future(model: Seq2Seq, source: Batch, target: Batch, data: st.DataObject) -> None:
    source_BS = source.ids_BL[torch.arange(len(target.ids_BL)) % len(source.ids_BL)]
    at = data.draw(st.integers(1, target.ids_BL.shape[1] - 1))
    before = model(source_BS, target.ids_BL)
    after = model(source_BS, with_another_future(target.ids_BL, at))
    assert torch.equal(after[:, :at], before[:, :at])
    assert not torch.equal(after[:, at:], before[:, at:])


@given(encoders(ORDERED), batches(shortest=2, padded=False))
def test_encoder_sees_the_future(model: Encoder, batch: Batch) -> None:
    before, after = model(batch.ids_BL), model(with_another_future(batch.ids_BL, batch.ids_BL.shape[1] - 1))
    assert not torch.equal(after[:, 0], before[:, 0])


@given(encoders(("none",)), batches(shortest=2), st.data())
def test_without_positions_an_encoder_permutes_with_its_input(
    model: Encoder, batch: Batch, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(batch.ids_BL.shape[1])))
    moved = model(batch.ids_BL[:, order], batch.present_BL[:, order])
    present_BL = batch.present_BL[:, order]
    close(moved[present_BL], model(batch.ids_BL, batch.present_BL)[:, order][present_BL])


@pytest.mark.parametrize("positions", ORDERED)
@given(data=st.data(), seed=seeds, length=st.integers(4, 8))
def test_with_positions_it_does_not(positions: str, data: st.DataObject, seed: int, length: int) -> None:
    model = data.draw(encoders((positions,)))
    ids_BL = random_ids(1, length, seed)
    assume(len(ids_BL.unique()) == length)
    order = [*range(1, length), 0]  # not reversed: ALiBi's distances are the same from both ends
    assert (model(ids_BL[:, order]) - model(ids_BL)[:, order]).abs().max() > 1e-4


RESCALES = {"plain": None, "linear": linear_rescale(4.0), "llama3": llama3_rescale(8.0, 1.0, 4.0, 64)}


@given(
    head_width=st.sampled_from([2, 4, 8, 64]),
    base=st.sampled_from([10.0, 10000.0, 500_000.0]),
    rescale=st.sampled_from(sorted(RESCALES)),
    shift=st.integers(1, 200),
    seed=seeds,
)
def test_rope_knows_distance_only(head_width: int, base: float, rescale: str, shift: int, seed: int) -> None:
    rotary = Rotary(head_width, base=base, rescale=RESCALES[rescale])
    q, k = torch.randn(2, 1, 2, 6, head_width, generator=torch.Generator().manual_seed(seed)).unbind()

    def weights(positions: Tensor) -> Tensor:
        rotation = rotary(positions)
        return attention_weights(rotate(q, rotation), rotate(k, rotation))

    here = torch.arange(6)[None]
    # an angle of 200 radians is off by 1e-5 in float32, and a score sums `head_width` of them
    assert_close(weights(here + shift), weights(here), atol=1e-4, rtol=1e-4)
    assert_close(rotate(q, rotary(here + shift)).norm(dim=-1), q.norm(dim=-1))


@given(heads=st.integers(1, 20), shift=st.integers(1, 1000))
def test_alibi_knows_distance_only(heads: int, shift: int) -> None:
    here, alibi = torch.arange(6)[None], Alibi(heads)
    assert torch.equal(alibi(here + shift, here + shift), alibi(here, here))
