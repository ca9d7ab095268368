"""The same answer alone and in a batch: neither neighbours nor padding, on either side, change a row."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import Batch, batches, close, decoders, encoders, lively, random_ids, seeds, translators
from torch import Tensor

from regard.models import Decoder, Encoder, Seq2Seq, Vision, VisionConfig

LABELS = ("no", "yes", "perhaps")


def check_states(together: Tensor, alone: list[Tensor], batch: Batch) -> None:
    for states, present, row in zip(together, batch.present_BL, alone, strict=True):
        close(states[present][None], row)


@given(decoders(), batches())
def test_decoder_padded_is_unpadded(model: Decoder, batch: Batch) -> None:
    check_states(model(batch.ids_BL, batch.present_BL), [model(row) for row in batch.rows], batch)


@given(decoders(), batches(padded=False))
def test_decoder_batch_is_singles(model: Decoder, batch: Batch) -> None:
    close(model(batch.ids_BL), torch.cat([model(row) for row in batch.rows]))


@given(decoders(head="classifier", labels=LABELS), batches())
def test_classifying_decoder_padded_is_unpadded(model: Decoder, batch: Batch) -> None:
    close(model(batch.ids_BL, batch.present_BL), torch.cat([model(row) for row in batch.rows]))


@given(encoders(segments=2, head="masked_lm"), batches(), seeds)
def test_encoder_padded_is_unpadded(model: Encoder, batch: Batch, seed: int) -> None:
    segments_BL = random_ids(*batch.ids_BL.shape, seed) % 2
    alone = [
        model(row, None, of) for row, of in zip(batch.rows, Batch(segments_BL, batch.present_BL).rows, strict=True)
    ]
    check_states(model(batch.ids_BL, batch.present_BL, segments_BL), alone, batch)


@given(encoders(), batches(padded=False))
def test_encoder_batch_is_singles(model: Encoder, batch: Batch) -> None:
    close(model(batch.ids_BL), torch.cat([model(row) for row in batch.rows]))


@given(encoders(head="classifier", labels=LABELS, pooler="tanh"), batches())
def test_classifying_encoder_padded_is_unpadded(model: Encoder, batch: Batch) -> None:
    close(model(batch.ids_BL, batch.present_BL), torch.cat([model(row) for row in batch.rows]))


@pytest.mark.parametrize("pooling", ["mean", "first", "pooler"])
@given(data=st.data(), batch=batches(), normalize=st.booleans())
def test_sentence_vector_padded_is_unpadded(pooling: str, data: st.DataObject, batch: Batch, normalize: bool) -> None:
    model = data.draw(encoders(pooling=pooling, pooler="tanh", normalize=normalize))
    alone = [model.embed(row, torch.ones_like(row, dtype=torch.bool)) for row in batch.rows]
    close(model.embed(batch.ids_BL, batch.present_BL), torch.cat(alone))


@given(translators(), batches(), st.data())
def test_translator_padded_is_unpadded(model: Seq2Seq, source: Batch, data: st.DataObject) -> None:
    target = data.draw(batches(rows=1))
    targets = [target, *(data.draw(batches(rows=1)) for _ in source.ids_BL[1:])]
    batch = together([row for each in targets for row in each.rows], left=data.draw(st.booleans()))
    logits = model(source.ids_BL, batch.ids_BL, source.present_BL, batch.present_BL)
    alone = [model(ours, theirs) for ours, theirs in zip(source.rows, batch.rows, strict=True)]
    check_states(logits, alone, batch)


def together(rows: list[Tensor], *, left: bool) -> Batch:
    longest = max(row.shape[1] for row in rows)
    ids_BL, present_BL = torch.zeros(2, len(rows), longest, dtype=torch.long).unbind()
    for i, row in enumerate(rows):
        place = slice(longest - row.shape[1], None) if left else slice(row.shape[1])
        ids_BL[i, place], present_BL[i, place] = row[0], 1
    return Batch(ids_BL, present_BL.bool())


@given(st.integers(1, 4), seeds)
def test_vision_batch_is_singles(count: int, seed: int) -> None:
    config = VisionConfig(width=8, heads=2, inner=16, layers=2, image=6, patch=3, norm_first=True, labels=LABELS)
    model = lively(Vision(config), seed)
    images = torch.randn(count, 3, 6, 6, generator=torch.Generator().manual_seed(seed))
    close(model(images), torch.cat([model(image[None]) for image in images]))


@given(encoders(), batches())
def test_a_row_of_nothing_but_padding_disturbs_nobody(model: Encoder, batch: Batch) -> None:
    ids_BL = torch.cat((batch.ids_BL, torch.zeros_like(batch.ids_BL[:1])))
    present_BL = torch.cat((batch.present_BL, torch.zeros_like(batch.present_BL[:1])))
    states = model(ids_BL, present_BL)
    assert states.isfinite().all()
    close(states[:-1], model(batch.ids_BL, batch.present_BL))
    assert model.embed(ids_BL, present_BL).isfinite().all()
