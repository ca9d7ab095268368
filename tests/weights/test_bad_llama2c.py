"""Damaged llama2.c files. (tests/parity checks that valid ones are read correctly.)"""

import struct
from pathlib import Path

import pytest
import torch
from weight_samples import one_clear_line

import regard
from regard.errors import WeightsError

NUMBERS = (8, 12, 2, 4, 2, 30, 16)  # width, inner, layers, heads, kv_heads, vocab, context


def bytes_of(numbers: tuple[int, ...] = NUMBERS, *, floats: int | None = None) -> bytes:
    width, inner, layers, heads, kv_heads, vocab, context = NUMBERS
    keys = kv_heads * width // heads
    per_layer = 2 * width + 2 * width * width + 2 * keys * width + 3 * width * inner
    whole = vocab * width + layers * per_layer + width + context * width // heads
    return struct.pack("<7i", *numbers) + b"\x00" * 4 * (whole if floats is None else floats)


def test_a_valid_file(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(bytes_of())
    assert torch.equal(regard.load(tmp_path / "model.bin", device="cpu").logits([1, 2]), torch.zeros(2, 30))


@pytest.mark.parametrize("size", [0, 1, 27, 28, 29, 32, 1000, -1, -4])
def test_cut_short(size: int, tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(bytes_of()[:size])
    with one_clear_line(WeightsError, str(tmp_path / "model.bin")):
        regard.load(tmp_path / "model.bin", device="cpu")


def test_too_long(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(bytes_of() + b"\x00" * 4)
    with one_clear_line(WeightsError, str(tmp_path / "model.bin")):
        regard.load(tmp_path / "model.bin", device="cpu")


@pytest.mark.parametrize("place", range(7))
@pytest.mark.parametrize("value", [0, -1, 3, 7, 2**24 - 1, 2**31 - 1, -(2**31)])
def test_another_header(place: int, value: int, tmp_path: Path) -> None:
    numbers = tuple(value if i == place else number for i, number in enumerate(NUMBERS))
    (tmp_path / "model.bin").write_bytes(bytes_of(numbers))
    with one_clear_line(WeightsError, str(tmp_path / "model.bin")):
        regard.load(tmp_path / "model.bin", device="cpu")


def test_a_header_whose_sizes_overflow(tmp_path: Path) -> None:
    """2^23 * 2^23 * 2^23 numbers are 2^69, which overflows to 0 in 64 bits."""
    huge = 1 << 23
    (tmp_path / "model.bin").write_bytes(bytes_of((huge, huge, huge, 2, 2, huge, huge), floats=0))
    with one_clear_line(WeightsError, str(tmp_path / "model.bin")):
        regard.load(tmp_path / "model.bin", device="cpu")


def test_the_later_versions(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(struct.pack("<Ii", 0x616B3432, 1) + bytes_of())
    with one_clear_line(WeightsError, str(tmp_path / "model.bin")):
        regard.load(tmp_path / "model.bin", device="cpu")


def test_an_odd_head_width(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(bytes_of((6, 12, 2, 2, 2, 30, 16)))
    with one_clear_line(WeightsError, str(tmp_path / "model.bin")):
        regard.load(tmp_path / "model.bin", device="cpu")
