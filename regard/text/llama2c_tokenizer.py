"""llama2.c's tokenizer.bin -> an ordinary tokenizer.json.

uint32 longest piece in bytes, then for each token: float32 score, uint32 length, the piece's bytes (UTF-8)

It is a flattened sentencepiece BPE model: "▁" is written as a space, <s> and </s> have line feeds around them, and the
number of tokens is missing. The file does not say whether extra spaces are dropped; here, as in llama2.c itself and in
Llama's model, they are kept.
"""

import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, normalizers, processors
from tokenizers.models import BPE

from regard.errors import TokenizerError
from regard.plural import counted
from regard.text import tokenizer as files
from regard.text.hf_tokenizer import HFTokenizer

SPECIAL = ("<unk>", "<s>", "</s>")  # ids 0, 1, 2
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))  # ids 3 to 258
MAX_PIECE_BYTES = 256  # sentencepiece learns 16 characters at most, 64 bytes. `_merges` is quadratic in this
MAX_TOKENS = 1 << 20  # four times Gemma's vocabulary, one of the largest

HEADER = struct.Struct("<I")
TOKEN = struct.Struct("<fI")


def load_llama2c(path: Path) -> HFTokenizer:
    """The tokenizer of a tokenizer.bin; its `save` writes tokenizer.json and tokenizer_config.json."""
    tokens = list(_tokens(files.read_files(path.parent, [path.name])[path.name], path))
    with files.tokenizer_errors(path):
        tokenizer = _tokenizer(tokens)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",  # LlamaTokenizer would drop the first of two leading spaces
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "clean_up_tokenization_spaces": False,
    }
    contents = {
        "tokenizer.json": tokenizer.to_str(pretty=True).encode("utf-8"),
        "tokenizer_config.json": (json.dumps(config, indent=2) + "\n").encode("utf-8"),
    }
    return HFTokenizer(contents, path.parent)


def _tokenizer(tokens: list[tuple[str, float]]) -> Tokenizer:
    ids = {piece: number for number, (piece, _) in enumerate(tokens)}
    model = BPE(ids, _merges(tokens), unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tokenizer = Tokenizer(model)
    # not pre_tokenizers.Metaspace: it adds no "▁" to a text that begins with a space, and sentencepiece does
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", ids["<s>"])]
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return tokenizer


def _merges(tokens: list[tuple[str, float]]) -> list[tuple[str, str]]:
    """Every pair of pieces that join to a piece, best score first.

    sentencepiece joins the neighbors that make the piece with the best score, so all ways to split one piece are
    merges of the same rank. A list has to order them, which changes nothing as long as the scores of pieces differ;
    those of a trained model do.
    """
    words = tokens[len(SPECIAL) + len(BYTES) :]  # special and byte tokens are never merged from letters
    ids = {piece: number for number, (piece, _) in enumerate(words)}
    ranked = sorted(words, key=lambda word: -word[1])  # stable: equal scores stay in id order
    splits = ((word[:cut], word[cut:]) for word, _ in ranked for cut in range(1, len(word)))
    return [(left, right) for left, right in splits if left in ids and right in ids]


def _tokens(raw: bytes, path: Path) -> Iterator[tuple[str, float]]:
    """(piece, score) by id, each checked: the file may be hostile."""
    if len(raw) < HEADER.size:
        raise TokenizerError(f"{path}: is truncated, it has {counted(len(raw), 'byte')}")
    (longest,) = HEADER.unpack_from(raw)
    if not 0 < longest <= MAX_PIECE_BYTES:
        raise TokenizerError(f"{path}: its longest piece has {longest} bytes, expected 1 to {MAX_PIECE_BYTES}")
    expected = dict(enumerate((*SPECIAL, *BYTES)))
    seen: set[str] = set()
    offset = HEADER.size
    while offset < len(raw):
        number = len(seen)
        if offset + TOKEN.size > len(raw):
            raise TokenizerError(f"{path}: is truncated in token {number}")
        score, length = TOKEN.unpack_from(raw, offset)
        offset += TOKEN.size
        if not 0 < length <= longest:
            raise TokenizerError(f"{path}: token {number} has {length} bytes, expected 1 to {longest}")
        if offset + length > len(raw):
            raise TokenizerError(f"{path}: is truncated in token {number}")
        piece = _piece(raw[offset : offset + length], number, path)
        offset += length
        if not math.isfinite(score) or number >= MAX_TOKENS:
            raise TokenizerError(f"{path}: token {number} has the score {score}, or there are too many tokens")
        if piece != expected.get(number, piece):
            raise TokenizerError(f"{path}: token {number} is {piece!r}, but llama2.c has {expected[number]!r} there")
        if piece in seen:
            raise TokenizerError(f"{path}: token {number}, {piece!r}, appears twice")
        seen.add(piece)
        yield piece, score
    if len(seen) < len(expected):
        raise TokenizerError(f"{path}: ends after {counted(len(seen), 'token')}, before the last byte token")


def _piece(raw: bytes, number: int, path: Path) -> str:
    try:
        piece = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise TokenizerError(f"{path}: token {number} is not UTF-8 text") from None
    return piece.strip("\n") if number < len(SPECIAL) else piece.replace(" ", "▁")
