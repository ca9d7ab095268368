"""OPUS-MT's files -> tokens: two sentencepiece models cut the text, vocab.json numbers the pieces.

source.spm, target.spm   how to cut each language (their own numbers are not used)
vocab.json               piece -> id, for both languages, or for the source only if
target_vocab.json        is there and tokenizer_config.json says "separate_vocabs": true
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from regard.errors import InputError, TokenizerError
from regard.text import files
from regard.text.checks import check_ids, check_text
from regard.text.tokenizer_config import FILES as SETTINGS_FILES
from regard.text.tokenizer_config import clean_up, settings_of

MAIN_FILES = ("source.spm", "target.spm", "vocab.json")
TARGET_VOCAB = "target_vocab.json"
DEFAULT_NAMES = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


class MarianTokenizer:
    """A text in one language, a text in another, each with its own way to be cut."""

    start: int | None = None  # the decoder begins with `pad`
    mask: int | None = None

    def __init__(self, contents: Mapping[str, bytes], directory: Path):
        """`contents`: the files by name; `directory` is used in messages only."""
        self._files = dict(contents)
        settings = settings_of(contents, directory)
        if settings.separate_vocabs and TARGET_VOCAB not in contents:
            raise TokenizerError(f"{directory / TARGET_VOCAB}: is missing, but tokenizer_config.json needs it")
        self._source = _cutter(contents["source.spm"], directory / "source.spm")
        self._target = _cutter(contents["target.spm"], directory / "target.spm")
        target_name = TARGET_VOCAB if settings.separate_vocabs else "vocab.json"
        added = {token: int(entry["id"]) for token, entry in settings.added.items()}
        self._ids = _vocabulary(contents["vocab.json"], directory / "vocab.json") | added
        self._target_ids = _vocabulary(contents[target_name], directory / target_name) | added
        # transformers 5 puts pieces together with the source model unless the vocabularies are separate
        self._joiner = self._target if settings.separate_vocabs else self._source

        names = [settings.named.get(key) or default for key, default in DEFAULT_NAMES.items()]
        self.end, self.unknown, self.pad = (self._id_on_both_sides(name, directory) for name in names)
        special = [token for token in (*names, *settings.special) if token in self._ids]
        self._special = {self._ids[token] for token in special}
        self._pieces = {number: piece for piece, number in self._ids.items()}
        self._target_pieces = {number: piece for piece, number in self._target_ids.items()}
        self.vocab, self.vocab_target = max(self._pieces) + 1, max(self._target_pieces) + 1
        # only literal texts, the longest first: as fast as str.find, whatever the input
        whole = sorted({*special, *added}, key=len, reverse=True)
        self._whole = re.compile("(" + "|".join(map(re.escape, whole)) + ")")
        self._cleans_up = settings.clean_up

    @classmethod
    def load(cls, directory: Path) -> "MarianTokenizer":
        return cls(files.read(directory, MAIN_FILES, (TARGET_VOCAB, *SETTINGS_FILES)), directory)

    def encode(self, text: str) -> list[int]:
        check_text(text)
        return [*(self._ids.get(piece, self.unknown) for piece in self._cut(text, self._source)), self.end]

    def encode_to_embed(self, text: str, context: int) -> list[int]:
        return self.encode(text)

    def encode_target(self, text: str) -> list[int]:
        check_text(text)
        return [*(self._target_ids.get(piece, self.unknown) for piece in self._cut(text, self._target)), self.end]

    def decode(self, ids: Sequence[int]) -> str:
        kept = [number for number in ids if number not in self._special]
        text: str = self._joiner.decode_pieces(self.pieces_target(kept))
        text = text.replace("▁", " ").strip()  # a piece that the joiner does not know keeps its mark
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
        files.write(directory, self._files)

    def _cut(self, text: str, cutter: SentencePieceProcessor) -> Iterator[str]:
        for index, part in enumerate(self._whole.split(text)):
            if index % 2:  # re.split puts what matched at the odd places
                yield part
                continue
            if part.startswith(">>") and (end := part.find("<<")) != -1:
                yield part[: end + 2]  # ">>fra<<" says which language is wanted, and is one piece, known or not
                part = part[end + 2 :]
            yield from cutter.encode(part, out_type=str)

    def _id_on_both_sides(self, name: str, directory: Path) -> int:
        """A model's config.json has one pad and one end for encoder and decoder, so the files must agree."""
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
        raise InputError(f"id {number} is a gap in the vocabulary: no token has it")
    return pieces[number]


def _cutter(raw: bytes, path: Path) -> SentencePieceProcessor:
    cutter = SentencePieceProcessor()
    with files.blame(path):
        cutter.LoadFromSerializedProto(raw)
    return cutter


def _vocabulary(raw: bytes, path: Path) -> dict[str, int]:
    ids = files.json_of(raw, path)
    for piece, number in ids.items():
        if type(number) is not int or number < 0:
            raise TokenizerError(f"{path}: the id of {piece!r} must be a whole number from 0 on, not {number!r}")
    if len(set(ids.values())) != len(ids):
        raise TokenizerError(f"{path}: two pieces share one id")
    try:
        "".join(ids).encode("utf-8")
    except UnicodeEncodeError:  # possible with \ud800 in JSON, and fatal only when decoding meets it
        raise TokenizerError(f"{path}: a piece holds a lone surrogate, which is not a character") from None
    return ids
