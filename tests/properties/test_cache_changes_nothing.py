"""With a kv cache and without one a decoder gives the same logits: in pieces, and after reordering."""

from collections.abc import Callable

import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import Batch, batches, close, cuts, decoders, random_ids, seeds, translators
from torch import Tensor

from regard.blocks.kv_cache import DecoderKVCache
from regard.models import Decoder, Seq2Seq
from regard.models.seq2seq import Memory

Read = Callable[[Tensor, Tensor, DecoderKVCache | None], Tensor]


def in_pieces(read: Read, batch: Batch, cache: DecoderKVCache, pieces: list[slice]) -> Tensor:
    return torch.cat([read(batch.ids_BL[:, piece], batch.present_BL[:, piece], cache) for piece in pieces], dim=1)


def check_pieces(read: Read, cache: DecoderKVCache, batch: Batch, pieces: list[slice]) -> None:
    whole = read(batch.ids_BL, batch.present_BL, None)
    close(in_pieces(read, batch, cache, pieces), whole)
    assert cache.length == batch.ids_BL.shape[1]


def check_reordering(
    read_rows: Callable[[Tensor], Read], cache: DecoderKVCache, batch: Batch, at: int, rows: Tensor
) -> None:
    """Some rows leave, others are doubled, as in beam search."""
    everyone = torch.arange(len(batch.ids_BL))
    read_rows(everyone)(batch.ids_BL[:, :at], batch.present_BL[:, :at], cache)
    cache.reorder(rows)
    read = read_rows(rows)
    whole = read(batch.ids_BL[rows], batch.present_BL[rows], None)
    close(read(batch.ids_BL[rows, at:], batch.present_BL[rows, at:], cache), whole[:, at:])


@st.composite
def sources_and_targets(draw: st.DrawFn) -> tuple[Batch, Batch]:
    target = draw(batches(shortest=2))
    source = draw(batches())
    rows = torch.arange(len(target.ids_BL)) % len(source.ids_BL)
    return Batch(source.ids_BL[rows], source.present_BL[rows]), target


@given(decoders(), batches(), st.data())
def test_decoder_in_pieces(model: Decoder, batch: Batch, data: st.DataObject) -> None:
    check_pieces(model, model.new_cache(), batch, data.draw(cuts(batch.ids_BL.shape[1])))


@given(decoders(), batches(padded=False))
def test_decoder_token_by_token(model: Decoder, batch: Batch) -> None:
    pieces = [slice(t, t + 1) for t in range(batch.ids_BL.shape[1])]
    check_pieces(model, model.new_cache(), batch, pieces)


@given(decoders(), batches(shortest=2), st.data())
def test_decoder_reorders(model: Decoder, batch: Batch, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, batch.ids_BL.shape[1] - 1))
    rows = torch.tensor(data.draw(st.lists(st.integers(0, len(batch.ids_BL) - 1), min_size=1, max_size=4)))
    check_reordering(lambda _: model, model.new_cache(), batch, at, rows)


@given(decoders(), batches(), st.integers(1, 3), seeds)
def test_decoder_goes_on_after_padding_on_either_side(model: Decoder, batch: Batch, new: int, seed: int) -> None:
    """What is written next stands behind the padding in memory, and next to the text in meaning."""
    said = random_ids(len(batch.ids_BL), new, seed)
    cache = model.new_cache()
    model(batch.ids_BL, batch.present_BL, cache)
    steps = torch.cat([model(said[:, t : t + 1], cache=cache) for t in range(new)], dim=1)
    for i, row in enumerate(batch.rows):
        alone = model(torch.cat((row, said[i : i + 1]), dim=1))
        close(steps[i : i + 1], alone[:, -new:])


@given(translators(), sources_and_targets(), st.data())
def test_a_beam_cache_steps_like_teacher_forcing(
    model: Seq2Seq, pair: tuple[Batch, Batch], data: st.DataObject
) -> None:
    """Rows of two groups step together, are doubled and leave; each has the logits of its whole text."""
    source, target = pair
    memory = model.encode(source.ids_BL, source.present_BL)
    count, length = target.ids_BL.shape
    rows = torch.arange(count)
    cache, other = model.beam_cache(memory), model.beam_cache(memory)
    for t in range(length):
        ids_R = torch.cat((target.ids_BL[rows, t], target.ids_BL[:, t]))
        logits_RV = model.step(ids_R, [cache, other])
        texts, chosen = torch.cat((target.ids_BL[rows], target.ids_BL)), torch.cat((rows, torch.arange(count)))
        whole = model.decode(texts, Memory(memory.states_BSD[chosen], memory.present_BS[chosen]))
        close(logits_RV, whole[:, t])
        # rows of one text stay next to each other
        kept = sorted(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=5)))
        cache.reorder(torch.tensor(kept))
        rows = rows[kept]


@given(translators(), sources_and_targets())
def test_decoding_from_memory_is_teacher_forcing(model: Seq2Seq, pair: tuple[Batch, Batch]) -> None:
    source, target = pair
    memory = model.encode(source.ids_BL, source.present_BL)
    whole = model(source.ids_BL, target.ids_BL, source.present_BL, target.present_BL)
    close(model.decode(target.ids_BL, memory, target.present_BL), whole)
