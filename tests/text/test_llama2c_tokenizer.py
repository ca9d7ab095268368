"""tokenizer.bin, against the sentencepiece model that it was written from."""

import json
import struct
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor
from tokenizer_samples import HOSTILE, any_text

from regard.errors import InputError, TokenizerError
from regard.text.hf_tokenizer import HFTokenizer
from regard.text.llama2c_tokenizer import load_llama2c

# the special tokens are texts to sentencepiece, and tokens to an ordinary tokenizer.json
NO_SPECIAL = ("<s>", "</s>", "<unk>")


def written_by_llama2c(model: SentencePieceProcessor) -> bytes:
    """What llama2.c's tokenizer.py does: "▁" becomes a space, and the two ends stand between line feeds."""
    tokens = []
    for number in range(model.get_piece_size()):
        piece = model.id_to_piece(number)
        piece = f"\n{piece}\n" if number in (model.bos_id(), model.eos_id()) else piece.replace("▁", " ")
        tokens.append((piece.encode(), model.get_score(number)))
    return packed(tokens)


def packed(tokens: list[tuple[bytes, float]]) -> bytes:
    longest = max(len(piece) for piece, _ in tokens)
    return struct.pack("<I", longest) + b"".join(struct.pack("<fI", s, len(p)) + p for p, s in tokens)


@pytest.fixture(scope="session")
def llama2c(sentencepiece_bpe: bytes, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    model = SentencePieceProcessor(model_proto=sentencepiece_bpe)
    path = tmp_path_factory.mktemp("llama2c") / "tokenizer.bin"
    path.write_bytes(written_by_llama2c(model))
    return SimpleNamespace(path=path, model=model, ours=load_llama2c(path))


def same(llama2c: SimpleNamespace, text: str) -> None:
    ids = llama2c.model.encode(text)
    assert llama2c.ours.encode(text) == [1, *ids], text
    assert llama2c.ours.decode([1, *ids]) == llama2c.model.decode(ids)
    assert llama2c.ours.pieces(ids) == llama2c.model.encode(text, out_type=str)


def test_same_as_sentencepiece(llama2c: SimpleNamespace, sentences: list[str]) -> None:
    for text in sentences:
        if not any(token in text for token in NO_SPECIAL):
            same(llama2c, text)


@settings(deadline=None, max_examples=300)
@given(text=any_text().filter(lambda text: not any(token in text for token in NO_SPECIAL)))
def test_same_as_sentencepiece_for_any_text(llama2c: SimpleNamespace, text: str) -> None:
    same(llama2c, text)


@settings(deadline=None, max_examples=500)
@given(text=st.text("ab ", max_size=30) | st.text("aehtr ", max_size=30))
def test_same_merges_where_pairs_overlap(llama2c: SimpleNamespace, text: str) -> None:
    """Few letters, so that one piece can be made in several ways and from several places."""
    same(llama2c, text)


@settings(deadline=None, max_examples=200)
@given(text=any_text().filter(lambda text: "▁" not in text and not any(token in text for token in NO_SPECIAL)))
def test_every_text_comes_back(llama2c: SimpleNamespace, text: str) -> None:
    assert llama2c.ours.decode(llama2c.ours.encode(text)) == text


def test_special_ids_and_size(llama2c: SimpleNamespace) -> None:
    ours = llama2c.ours
    assert (ours.pad, ours.start, ours.end, ours.unknown, ours.mask) == (None, 1, 2, 0, None)
    assert ours.vocab == llama2c.model.get_piece_size()
    assert ours.encode("") == [1]


def test_saved_as_an_ordinary_tokenizer_json(llama2c: SimpleNamespace, tmp_path: Path, sentences: list[str]) -> None:
    from transformers import AutoTokenizer

    llama2c.ours.save(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    again, theirs = HFTokenizer.load(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    for text in sentences:
        ids = llama2c.ours.encode(text)
        assert ids == again.encode(text) == theirs(text)["input_ids"]
        assert llama2c.ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("hostile", ["one letter", "spaces", "openings"])
def test_hostile_megabyte(llama2c: SimpleNamespace, hostile: str) -> None:
    begin = time.thread_time()
    llama2c.ours.decode(llama2c.ours.encode(HOSTILE[hostile]))
    assert time.thread_time() - begin < 10  # 2 s on one busy core; anything quadratic takes hours


def test_bad_input(llama2c: SimpleNamespace) -> None:
    with pytest.raises(InputError, match=r"lone surrogate U\+DFFF at position 1"):
        llama2c.ours.encode("a\udfff")
    with pytest.raises(InputError, match="id 100000 at position 0"):
        llama2c.ours.decode([100000])


BYTES = [(f"<0x{byte:02X}>".encode(), 0.0) for byte in range(256)]
FIRST = [(b"<unk>", 0.0), (b"\n<s>\n", 0.0), (b"\n</s>\n", 0.0), *BYTES]
NAN, INFINITY = float("nan"), float("inf")


def test_letters_never_join_to_a_byte_token(tmp_path: Path) -> None:
    pieces = [b" ", b"<", b"0", b"x", b"4", b"1", b">", b"<0", b"<0x", b"41", b"41>"]
    (tmp_path / "tokenizer.bin").write_bytes(packed(FIRST + [(p, -float(i)) for i, p in enumerate(pieces, 1)]))
    ours = load_llama2c(tmp_path / "tokenizer.bin")
    assert ours.pieces(ours.encode("<0x41>")) == ["<s>", "▁", "<0x", "41>"]
    assert ours.decode(ours.encode("<0x41>")) == "<0x41>"
    assert ours.pieces(ours.encode("A")) == ["<s>", "▁", "<0x41>"]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "is truncated, it has 0 bytes"),
        (b"\x07\x00\x00", "is truncated, it has 3 bytes"),
        (b"\x00" * 40, "its longest piece has 0 bytes"),
        (b"\xff" * 40, "its longest piece has 4294967295 bytes"),
        (packed(FIRST[:200]), "ends after 200 tokens"),
        (packed(FIRST)[:-1], "is truncated in token 258"),
        (packed(FIRST) + b"\x00" * 5, "is truncated in token 259"),
        (packed(FIRST) + struct.pack("<fI", 0, 4_000_000_000), "token 259 has 4000000000 bytes"),
        (packed([*FIRST, (b"", 0)]), "token 259 has 0 bytes"),
        (packed([*FIRST, (b"\xff", 0)]), "token 259 is not UTF-8"),
        (packed([*FIRST, (b"a", NAN)]), "token 259 has the score nan"),
        (packed([*FIRST, (b"a", INFINITY)]), "token 259 has the score inf"),
        (packed([*FIRST, (b"a", 0), (b"a", 1)]), "token 260, 'a', appears twice"),
        (packed([(b"a", 0), *FIRST]), "token 0 is 'a', but llama2.c has '<unk>' there"),
        (b"not a tokenizer at all, but long enough", "its longest piece"),
    ],
)
def test_broken_file(tmp_path: Path, raw: bytes, reason: str) -> None:
    (tmp_path / "tokenizer.bin").write_bytes(raw)
    with pytest.raises(TokenizerError, match=rf"^[^\n]*tokenizer\.bin: {reason}[^\n]*$"):
        load_llama2c(tmp_path / "tokenizer.bin")


def test_cut_anywhere(llama2c: SimpleNamespace, tmp_path: Path) -> None:
    """Cut between two tokens it is a smaller vocabulary; anywhere else, or too early, it is refused."""
    raw, ends, refused = llama2c.path.read_bytes(), 0, 0
    for end in range(0, len(raw), 7):
        (tmp_path / "tokenizer.bin").write_bytes(raw[:end])
        ends += 1
        try:
            assert load_llama2c(tmp_path / "tokenizer.bin").vocab >= 259
        except TokenizerError:
            refused += 1
    assert refused > 0.9 * ends
