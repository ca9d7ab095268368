"""tokenizer.json -> tokens, with the Rust library `tokenizers`: WordPiece, byte-level BPE, Unigram and the rest.

The file decides. `transformers` 5 rebuilds normalizer, pre-tokenizer and decoder in Python for some classes (Llama,
BERT, GPT-2) and ignores those of the file; for the published files both give the same result.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE

from regard.errors import InputError, TokenizerError
from regard.text import tokenizer as files
from regard.text.tokenizer import CONFIG_FILES, TokenizerConfig, check_ids, check_text, clean_up, read_tokenizer_config

MAIN_FILE = "tokenizer.json"
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


class HFTokenizer:
    """One vocabulary for source and target."""

    def __init__(self, contents: Mapping[str, bytes], directory: Path, main: str = MAIN_FILE):
        """`contents`: the files by name, with `main`; `directory` is used in messages only."""
        self._files = dict(contents)
        self._path = directory / main
        config = read_tokenizer_config(contents, directory)
        text = files.decode_text(contents[main], self._path)
        with files.tokenizer_errors(self._path):
            self._tokenizer = Tokenizer.from_str(text)
            # all-MiniLM's file truncates and pads to 128 tokens; here the caller decides on lengths
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()
            _add_tokens(self._tokenizer, config)
            self._tokenizer.encode_special_tokens = config.split_special
            ids = self._tokenizer.get_vocab(with_added_tokens=True)
        _check_added(ids, config, self._path)
        if not ids:
            raise TokenizerError(f"{self._path}: its vocabulary is empty")
        is_bpe = isinstance(self._tokenizer.model, BPE)
        self._max_length = config.max_length
        self._cleans_up = config.clean_up and (config.clean_up_bpe or not is_bpe)
        self.vocab = self.vocab_target = max(ids.values()) + 1
        self._has_gaps = len(set(ids.values())) < self.vocab
        self.pad = config.role("pad", ids)
        self.start = config.role("start", ids)
        self.end = config.role("end", ids)
        self.unknown = config.role("unknown", ids)
        self.mask = config.role("mask", ids)
        try:  # the special tokens around an empty text: a wrong template fails here
            self.decode(self.encode(""))
        except InputError as error:
            raise TokenizerError(
                f"{self._path}: its template has a token that its vocabulary lacks ({error})"
            ) from None

    @classmethod
    def load(cls, directory: Path) -> "HFTokenizer":
        return cls(files.read_files(directory, [MAIN_FILE], CONFIG_FILES), directory)

    @property
    def contents(self) -> Mapping[str, bytes]:
        return self._files

    def encode(self, text: str) -> list[int]:
        check_text(text)
        with files.tokenizer_errors(self._path):
            ids: list[int] = self._tokenizer.encode(text).ids
        return ids

    def encode_truncated(self, text: str, context: int) -> list[int]:
        if self._max_length is None:
            return self.encode(text)
        check_text(text)
        with files.tokenizer_errors(self._path):
            special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
            encoding = self._tokenizer.encode(text, add_special_tokens=False)
            encoding.truncate(max(min(self._max_length, context) - special, 0))
            ids: list[int] = self._tokenizer.post_process(encoding).ids
        return ids

    def encode_target(self, text: str) -> list[int]:
        return self.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        check_ids(ids, self.vocab)
        if self._has_gaps:
            self.pieces(ids)  # raises for a gap; the library would skip the id
        with files.tokenizer_errors(self._path):
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
        files.write_files(directory, self._files)

    def _piece(self, number: int) -> str:
        piece: str | None = self._tokenizer.id_to_token(number)
        if piece is None:
            raise InputError(f"id {number} is not used in the vocabulary of {self._path}")
        return piece


def _add_tokens(tokenizer: Tokenizer, config: TokenizerConfig) -> None:
    """Add the tokens that the config lists and tokenizer.json does not, in the order of their ids."""
    known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    for token, entry in sorted(config.added.items(), key=lambda item: int(item[1]["id"])):
        flags = {flag: entry[flag] for flag in FLAGS if flag in entry}
        if flags or token not in known:  # added_tokens.json has no flags: those of tokenizer.json apply
            tokenizer.add_tokens([AddedToken(token, **({"special": token in config.special} | flags))])
            known.add(token)
    # a special token without an id stays plain text: transformers would give it an id that the model has no row for
    special = [t for t in config.special if t not in known and tokenizer.token_to_id(t) is not None]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])


def _check_added(ids: Mapping[str, int], config: TokenizerConfig, path: Path) -> None:
    for token, entry in config.added.items():
        if ids.get(token) != entry["id"]:
            raise TokenizerError(
                f"{path}: gives {token!r} the id {ids.get(token)}, "
                f"but the added tokens listed next to it say {entry['id']}"
            )
