"""tokenizer.json -> tokens, with the Rust library `tokenizers`: WordPiece, byte-level BPE, Unigram and the rest.

The file decides. `transformers` 5 rebuilds normalizer, pre-tokenizer and decoder in Python for some classes (Llama,
BERT, GPT-2) and ignores those of the file; for the published files both give the same result.
"""

import base64
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE

from regard.errors import InputError, InputTooLong, TokenizerError
from regard.text import tokenizer as files
from regard.text.tokenizer import CONFIG_FILES, TokenizerConfig, check_ids, check_text, clean_up, read_tokenizer_config

MAIN_FILE = "tokenizer.json"
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
MAX_PIECE_LENGTH = 4096
"""Characters. The longest published pieces are runs of a few hundred spaces or dashes."""
MAX_UNIGRAM_LENGTH = 256
"""Of a piece of a unigram model: the time for a text grows with its square. Published: 16, seldom more."""
MAX_WORD_LENGTH = 1000
"""Of a word that WordPiece segments: the time grows with its cube. Published: 100."""
MAX_GROWTH = 10_000
"""Of a text before it is segmented, in characters. Published files: 1 to 5000, most below 50."""
MAX_GROWTH_AFTER = 20
"""Of the tokens in a template, or of their text in a decoder."""
MAX_GROWN_TEXT = 1 << 26
"""Characters of a text once it has grown; the library needs 20 bytes for each."""
MAX_TEMPLATE = 16
"""Special tokens around a text."""
NO_GROWTH = (
    *("Strip", "StripAccents", "Nmt", "Split", "Punctuation", "Digits", "Whitespace", "WhitespaceSplit", "Delimiter"),
    *("CharDelimiterSplit", "UnicodeScripts", "FixedLength", "BertPreTokenizer", "BertProcessing"),
    *("RobertaProcessing", "ByteFallback", "Fuse"),
)
"""Parts of tokenizer.json that never make a text longer."""
GROWTH = dict(NFC=3, NFD=4, NFKC=18, NFKD=18, BertNormalizer=8, Lowercase=2, Metaspace=2, ByteLevel=5)  # noqa: C408
GROWTH |= dict.fromkeys(("WordPiece", "BPEDecoder", "CTC"), 2)
"""How many times longer others make it, at most: ﷺ is decomposed into 18 letters. `growth` has the rest."""


class HFTokenizer:
    """One vocabulary for source and target."""

    def __init__(self, contents: Mapping[str, bytes], directory: Path, main: str = MAIN_FILE):
        """`contents`: the files by name, with `main`; `directory` is used in messages only."""
        self._files = dict(contents)
        self._path = directory / main
        config = read_tokenizer_config(contents, directory)
        text = files.decode_text(contents[main], self._path)
        with files.tokenizer_errors(self._path):
            self._max_text = _max_text(text, config)  # before the library reads it, which normalizes the added tokens
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
        if max(ids.values()) >= files.MAX_VOCAB or max(map(len, ids)) > MAX_PIECE_LENGTH:
            raise TokenizerError(
                f"{self._path}: has a piece of more than {MAX_PIECE_LENGTH:,} characters, or an id that is not "
                f"{files.AN_ID}"
            )
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
        self._check_text(text)
        with files.tokenizer_errors(self._path):
            ids: list[int] = self._tokenizer.encode(text).ids
        return ids

    def encode_truncated(self, text: str, context: int) -> list[int]:
        if self._max_length is None:
            return self.encode(text)
        self._check_text(text)
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

    def _check_text(self, text: str) -> None:
        check_text(text)
        if len(text) > self._max_text:
            raise InputTooLong(
                f"the text has {len(text):,} characters, but {self._path} takes at most {self._max_text:,} at once"
            )

    def _piece(self, number: int) -> str:
        piece: str | None = self._tokenizer.id_to_token(number)
        if piece is None:
            raise InputError(f"id {number} is not used in the vocabulary of {self._path}")
        return piece


def growth(part: Any) -> float:
    """How many times longer a text becomes in a normalizer, pre-tokenizer, template or decoder, at most.

    The library has no limit: five replacements of "a" by a thousand of them end in an abort.
    """
    match part:
        case None:
            return 1.0
        case {"type": "Sequence"}:
            lists = [value for value in part.values() if isinstance(value, list)]
            return math.prod(map(growth, itertools.chain(*lists)), start=1.0)
        case {"type": "Replace", "pattern": {"String": str(pattern)}, "content": str(content)} if pattern:
            return max(1.0, len(content) / len(pattern))
        case {"type": "Replace", "content": str(content)} | {"type": "Prepend", "prepend": str(content)}:
            return 1.0 + len(content)
        case {"type": "Precompiled", "precompiled_charsmap": str(charsmap)}:
            raw = base64.b64decode(charsmap)  # the size of a trie, the trie, the replacements
            return 1.0 + max(map(len, raw[4 + int.from_bytes(raw[:4], "little") :].split(b"\0")))
        case {"type": "TemplateProcessing", "single": [*steps], "special_tokens": dict(special)}:
            if unknown := {step["SpecialToken"]["id"] for step in steps if "SpecialToken" in step} - special.keys():
                raise ValueError(f"its template has a token that it does not define, {min(unknown)!r}")
            texts = sum("Sequence" in step for step in steps)
            tokens = len(steps) * max((len(entry["ids"]) for entry in special.values()), default=0)
            return float(max(1, texts) + (tokens if tokens > MAX_TEMPLATE else 0))
        case {"type": str(kind)} if kind in NO_GROWTH or kind in GROWTH:
            return float(GROWTH.get(kind, 1))
        case _:
            raise ValueError(f"it has a part of an unknown type, {part!r:.50}")


def _check_model(model: Any) -> None:
    """Refuse a model that takes hours for one long word."""
    match model:
        case {"vocab": [*entries]} if max((len(entry[0]) for entry in entries), default=0) > MAX_UNIGRAM_LENGTH:
            raise ValueError(f"its unigram model has a piece of more than {MAX_UNIGRAM_LENGTH} characters")
        case {"max_input_chars_per_word": int(most)} if most > MAX_WORD_LENGTH:
            raise ValueError(f"its max_input_chars_per_word is {most:,}, more than {MAX_WORD_LENGTH:,}")


def _max_text(tokenizer_json: str, config: TokenizerConfig) -> int:
    """The longest text that may be encoded with this file; a ValueError if the library should not read it at all."""
    raw = json.loads(tokenizer_json)
    if not isinstance(raw, dict):
        raise ValueError(f"it must hold an object, not a {type(raw).__name__}")
    _check_model(raw.get("model"))
    before = growth(raw.get("normalizer")) * growth(raw.get("pre_tokenizer"))
    added = [*(token["content"] for token in raw.get("added_tokens") or ()), *config.added, *config.special]
    if before > MAX_GROWTH or before * sum(map(len, added)) > MAX_GROWN_TEXT:
        raise ValueError(f"it makes a text up to {before:.0e} times longer")
    if (after := max(growth(raw.get("post_processor")), growth(raw.get("decoder")))) > MAX_GROWTH_AFTER:
        raise ValueError(f"its template or its decoder makes a text up to {after:.0e} times longer")
    return int(MAX_GROWN_TEXT / before)


def _add_tokens(tokenizer: Tokenizer, config: TokenizerConfig) -> None:
    """Add the tokens that the config lists and tokenizer.json does not, in the order of their ids."""
    known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    added = []
    for token, entry in sorted(config.added.items(), key=lambda item: int(item[1]["id"])):
        flags = {flag: entry[flag] for flag in FLAGS if flag in entry}
        if flags or token not in known:  # added_tokens.json has no flags: those of tokenizer.json apply
            added.append(AddedToken(token, **({"special": token in config.special} | flags)))
            known.add(token)
    tokenizer.add_tokens(added)  # at once: each call takes time in proportion to all tokens
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
