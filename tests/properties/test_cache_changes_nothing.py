"""With a cache and without one, a decoder says the same: in pieces, after going back, and after reordering."""

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


def check_going_back(
    read: Read, cache: DecoderKVCache, batch: Batch, pieces: list[slice], back_to: int, seed: int
) -> None:
    """Read, read on with something else, forget that, and read what should have been read."""
    whole = read(batch.ids_BL, batch.present_BL, None)
    in_pieces(read, batch, cache, pieces)
    wrong = random_ids(len(batch.ids_BL), 3, seed)
    read(wrong, torch.ones_like(wrong, dtype=torch.bool), cache)
    cache.trim(back_to)
    rest = slice(back_to, None)
    close(read(batch.ids_BL[:, rest], batch.present_BL[:, rest], cache), whole[:, rest])


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


def translating(model: Seq2Seq, memory: Memory) -> Read:
    return lambda ids, present, cache: model.decode(ids, memory, present, cache)


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


@given(decoders(), batches(shortest=2), st.data(), seeds)
def test_decoder_goes_back(model: Decoder, batch: Batch, data: st.DataObject, seed: int) -> None:
    length = batch.ids_BL.shape[1]
    back_to = data.draw(st.integers(0, length - 1))
    check_going_back(model, model.new_cache(), batch, data.draw(cuts(length)), back_to, seed)


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
def test_translator_in_pieces(model: Seq2Seq, pair: tuple[Batch, Batch], data: st.DataObject) -> None:
    source, target = pair
    memory = model.encode(source.ids_BL, source.present_BL)
    pieces = data.draw(cuts(target.ids_BL.shape[1]))
    check_pieces(translating(model, memory), model.new_cache(), target, pieces)


@given(translators(), sources_and_targets(), st.data(), seeds)
def test_translator_goes_back(model: Seq2Seq, pair: tuple[Batch, Batch], data: st.DataObject, seed: int) -> None:
    source, target = pair
    memory, length = model.encode(source.ids_BL, source.present_BL), target.ids_BL.shape[1]
    back_to = data.draw(st.integers(0, length - 1))
    check_going_back(translating(model, memory), model.new_cache(), target, data.draw(cuts(length)), back_to, seed)


@given(translators(), sources_and_targets(), st.data())
def test_translator_reorders(model: Seq2Seq, pair: tuple[Batch, Batch], data: st.DataObject) -> None:
    source, target = pair
    memory = model.encode(source.ids_BL, source.present_BL)
    at = data.draw(st.integers(1, target.ids_BL.shape[1] - 1))
    rows = torch.tensor(data.draw(st.lists(st.integers(0, len(target.ids_BL) - 1), min_size=1, max_size=4)))

    def read_rows(chosen: Tensor) -> Read:
        return translating(model, Memory(memory.states_BSD[chosen], memory.present_BS[chosen]))

    check_reordering(read_rows, model.new_cache(), target, at, rows)


@given(translators(), sources_and_targets())
def test_decoding_from_memory_is_teacher_forcing(model: Seq2Seq, pair: tuple[Batch, Batch]) -> None:
    source, target = pair
    memory = model.encode(source.ids_BL, source.present_BL)
    whole = model(source.ids_BL, target.ids_BL, source.present_BL, target.present_BL)
    close(model.decode(target.ids_BL, memory, target.present_BL), whole)
