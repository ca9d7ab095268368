"""OPUS-MT's files -> tokens: two sentencepiece models segment the text, vocab.json numbers the pieces.

source.spm, target.spm   how to segment each language (their own ids are not used)
vocab.json               piece -> id, for both languages; for the source only, if
target_vocab.json        exists and tokenizer_config.json has "separate_vocabs": true
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from regard.errors import InputError, TokenizerError
from regard.text import tokenizer as files
from regard.text.tokenizer import CONFIG_FILES, check_ids, check_text, clean_up, read_tokenizer_config

MAIN_FILES = ("source.spm", "target.spm", "vocab.json")
TARGET_VOCAB = "target_vocab.json"
DEFAULT_NAMES = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


class MarianTokenizer:
    """Source and target in different languages, each with its own sentencepiece model."""

    start: int | None = None  # the decoder starts with `pad`
    mask: int | None = None

    def __init__(self, contents: Mapping[str, bytes], directory: Path):
        """`contents`: the files by name; `directory` is used in messages only."""
        self._files, self._directory = dict(contents), directory
        config = read_tokenizer_config(contents, directory)
        if config.separate_vocabs and TARGET_VOCAB not in contents:
            raise TokenizerError(f"{directory / TARGET_VOCAB}: is missing, but tokenizer_config.json needs it")
        self._source = _sentencepiece(contents["source.spm"], directory / "source.spm")
        self._target = _sentencepiece(contents["target.spm"], directory / "target.spm")
        target_name = TARGET_VOCAB if config.separate_vocabs else "vocab.json"
        added = {token: int(entry["id"]) for token, entry in config.added.items()}
        self._ids = _vocabulary(contents["vocab.json"], directory / "vocab.json") | added
        self._target_ids = _vocabulary(contents[target_name], directory / target_name) | added
        # transformers 5 joins pieces with the source model, unless the vocabularies are separate
        self._joiner = self._target if config.separate_vocabs else self._source

        names = [config.named.get(key) or default for key, default in DEFAULT_NAMES.items()]
        self.end, self.unknown, self.pad = (self._id_on_both_sides(name, directory) for name in names)
        special = [token for token in (*names, *config.special) if token in self._ids]
        self._special = {self._ids[token] for token in special}
        self._pieces = {number: piece for piece, number in self._ids.items()}
        self._target_pieces = {number: piece for piece, number in self._target_ids.items()}
        self.vocab, self.vocab_target = max(self._pieces) + 1, max(self._target_pieces) + 1
        # literal strings only, longest first: as fast as str.find for any input
        unsplit = sorted({*special, *added}, key=len, reverse=True)
        self._unsplit = re.compile("(" + "|".join(map(re.escape, unsplit)) + ")")
        self._cleans_up = config.clean_up

    @classmethod
    def load(cls, directory: Path) -> "MarianTokenizer":
        return cls(files.read_files(directory, MAIN_FILES, (TARGET_VOCAB, *CONFIG_FILES)), directory)

    def encode(self, text: str) -> list[int]:
        check_text(text)
        with files.tokenizer_errors(self._directory / "source.spm"):
            pieces = list(self._segment(text, self._source))
        return [*(self._ids.get(piece, self.unknown) for piece in pieces), self.end]

    def encode_truncated(self, text: str, context: int) -> list[int]:
        return self.encode(text)

    def encode_target(self, text: str) -> list[int]:
        check_text(text)
        with files.tokenizer_errors(self._directory / "target.spm"):
            pieces = list(self._segment(text, self._target))
        return [*(self._target_ids.get(piece, self.unknown) for piece in pieces), self.end]

    def decode(self, ids: Sequence[int]) -> str:
        kept = self.pieces_target([number for number in ids if number not in self._special])
        with files.tokenizer_errors(self._directory):
            text: str = self._joiner.decode_pieces(kept)
        text = text.replace("▁", " ").strip()  # a piece unknown to the joiner keeps its ▁
        return clean_up(text) if self._cleans_up else text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        check_ids(ids, self.vocab)
        return [_piece(number, self._pieces) for number in ids]

    def pieces_target(self, ids: Sequence[int]) -> list[str]:
        check_ids(ids, self.vocab_target)
        return [_piece(number, self._target_pieces) for number in ids]

    def id_of(self, piece: str) -> int | None:
        return self._ids.get(piece)

    @property
    def contents(self) -> Mapping[str, bytes]:
        return self._files

    def save(self, directory: Path) -> None:
        files.write_files(directory, self._files)

    def _segment(self, text: str, processor: SentencePieceProcessor) -> Iterator[str]:
        for index, part in enumerate(self._unsplit.split(text)):
            if index % 2:  # re.split returns the matches at odd indices
                yield part
                continue
            if part.startswith(">>") and (end := part.find("<<")) != -1:
                yield part[: end + 2]  # ">>fra<<" selects the target language, and is one piece even if unknown
                part = part[end + 2 :]
            yield from processor.encode(part, out_type=str)

    def _id_on_both_sides(self, name: str, directory: Path) -> int:
        """A model's config.json has one pad and one end for encoder and decoder, so both files must agree."""
        for ids, file in ((self._ids, "vocab.json"), (self._target_ids, TARGET_VOCAB)):
            if name not in ids:
                raise TokenizerError(f"{directory / file}: has no {name}")
        if self._ids[name] != self._target_ids[name]:
            raise TokenizerError(
                f"{directory / TARGET_VOCAB}: {name} has the id {self._target_ids[name]}, "
                f"but in vocab.json it has {self._ids[name]}"
            )
        return self._ids[name]


def _piece(number: int, pieces: Mapping[int, str]) -> str:
    if number not in pieces:
        raise InputError(f"id {number} is not used in the vocabulary")
    return pieces[number]


def _sentencepiece(raw: bytes, path: Path) -> SentencePieceProcessor:
    processor = SentencePieceProcessor()
    with files.tokenizer_errors(path):
        processor.LoadFromSerializedProto(raw)
    return processor


def _vocabulary(raw: bytes, path: Path) -> dict[str, int]:
    ids = files.parse_json(raw, path)
    for piece, number in ids.items():
        if not files.is_id(number):
            raise TokenizerError(f"{path}: the id of {piece!r} must be {files.AN_ID}, not {number!r}")
    if len(set(ids.values())) != len(ids):
        raise TokenizerError(f"{path}: two pieces share one id")
    try:
        "".join(ids).encode("utf-8")
    except UnicodeEncodeError:  # possible with \ud800 in JSON, and fatal only later, in decoding
        raise TokenizerError(f"{path}: a piece has a lone surrogate, which is not a character") from None
    return ids
