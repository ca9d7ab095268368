"""tokenizer.json -> tokens, with the Rust library `tokenizers`: WordPiece, byte-level BPE, Unigram and the rest.

The file is taken at its word. `transformers` 5 rebuilds normaliser, splitter and decoder in Python for
some classes (Llama, BERT, GPT-2) and ignores the file's; for the published files both give the same.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE

from regard.errors import InputError, TokenizerError
from regard.text import files
from regard.text.checks import check_ids, check_text
from regard.text.tokenizer_config import FILES as SETTINGS_FILES
from regard.text.tokenizer_config import Settings, clean_up, settings_of

MAIN_FILE = "tokenizer.json"
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


class HFTokenizer:
    """One vocabulary for all that goes in and comes out."""

    def __init__(self, contents: Mapping[str, bytes], directory: Path, main: str = MAIN_FILE):
        """`contents`: the files by name, `main` among them; `directory` is used in messages only."""
        self._files = dict(contents)
        self._path = directory / main
        settings = settings_of(contents, directory)
        text = files.text_of(contents[main], self._path)
        with files.blame(self._path):
            self._tokenizer = Tokenizer.from_str(text)
            # all-MiniLM's file cuts at 128 tokens and pads up to 128; here length is the pipeline's business
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()
            _add(self._tokenizer, settings)
            self._tokenizer.encode_special_tokens = settings.split_special
            ids = self._tokenizer.get_vocab(with_added_tokens=True)
        _check_added(ids, settings, self._path)
        if not ids:
            raise TokenizerError(f"{self._path}: its vocabulary is empty")
        is_bpe = isinstance(self._tokenizer.model, BPE)
        self._longest = settings.longest
        self._cleans_up = settings.clean_up and (settings.clean_up_bpe or not is_bpe)
        self.vocab = self.vocab_target = max(ids.values()) + 1
        self._has_gaps = len(set(ids.values())) < self.vocab
        self.pad = settings.role("pad", ids)
        self.start = settings.role("start", ids)
        self.end = settings.role("end", ids)
        self.unknown = settings.role("unknown", ids)
        self.mask = settings.role("mask", ids)
        try:  # what it puts around a text, it puts around none: a wrong template shows itself here
            self.decode(self.encode(""))
        except InputError as error:
            raise TokenizerError(f"{self._path}: puts a token around a text that it does not have ({error})") from None

    @classmethod
    def load(cls, directory: Path) -> "HFTokenizer":
        return cls(files.read(directory, [MAIN_FILE], SETTINGS_FILES), directory)

    @property
    def contents(self) -> Mapping[str, bytes]:
        return self._files

    def encode(self, text: str) -> list[int]:
        check_text(text)
        with files.blame(self._path):
            ids: list[int] = self._tokenizer.encode(text).ids
        return ids

    def encode_to_embed(self, text: str, context: int) -> list[int]:
        if self._longest is None:
            return self.encode(text)
        check_text(text)
        with files.blame(self._path):
            special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
            encoding = self._tokenizer.encode(text, add_special_tokens=False)
            encoding.truncate(max(min(self._longest, context) - special, 0))
            ids: list[int] = self._tokenizer.post_process(encoding).ids
        return ids

    def encode_target(self, text: str) -> list[int]:
        return self.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        check_ids(ids, self.vocab)
        if self._has_gaps:
            self.pieces(ids)  # complains; the library would leave the id out
        with files.blame(self._path):
            text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return clean_up(text) if self._cleans_up else text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        check_ids(ids, self.vocab)
        return [self._piece(number) for number in ids]

    def pieces_target(self, ids: Sequence[int]) -> list[str]:
        return self.pieces(ids)

    def id_of(self, piece: str) -> int | None:
        number: int | None = self._tokenizer.token_to_id(piece)
        return number

    def save(self, directory: Path) -> None:
        files.write(directory, self._files)

    def _piece(self, number: int) -> str:
        piece: str | None = self._tokenizer.id_to_token(number)
        if piece is None:
            raise InputError(f"id {number} is a gap in the vocabulary of {self._path}: no token has it")
        return piece


def _add(tokenizer: Tokenizer, settings: Settings) -> None:
    """Tokens that the settings list and tokenizer.json does not know as added, in the order of their ids."""
    known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    for token, entry in sorted(settings.added.items(), key=lambda item: int(item[1]["id"])):
        flags = {flag: entry[flag] for flag in FLAGS if flag in entry}
        if flags or token not in known:  # added_tokens.json has no flags, those of tokenizer.json stand
            tokenizer.add_tokens([AddedToken(token, **({"special": token in settings.special} | flags))])
            known.add(token)
    # a special token without an id stays a plain text: transformers would give it one that the model has no row for
    special = [t for t in settings.special if t not in known and tokenizer.token_to_id(t) is not None]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])


def _check_added(ids: Mapping[str, int], settings: Settings, path: Path) -> None:
    for token, entry in settings.added.items():
        if ids.get(token) != entry["id"]:
            raise TokenizerError(
                f"{path}: gives {token!r} the id {ids.get(token)}, "
                f"but the added tokens listed next to it say {entry['id']}"
            )
