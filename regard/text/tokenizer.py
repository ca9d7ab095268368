"""text -> tokens -> text: what every tokenizer can do, and which one a model directory has.

files in the directory                           read by
source.spm, target.spm, vocab.json               marian_tokenizer.py  OPUS-MT
source_tokenizer.json, target_tokenizer.json     dual_tokenizer.py    learned by regard, one vocabulary per language
tokenizer.json                                   hf_tokenizer.py      BERT, GPT-2, Llama, most others; learned by regard
tokenizer.bin                                    llama2c_tokenizer.py llama2.c; saved as a tokenizer.json
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from regard.config import read_file
from regard.errors import InputError, TokenizerError, one_line
from regard.io import write_bytes

FRAGMENTS = (
    *("tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "vocab.json", "merges.txt"),
    *("tokenizer.model", "spiece.model", "sentencepiece.bpe.model"),
)
"""Parts of a tokenizer, none of them sufficient."""

UNDECODED = range(0xDC80, 0xDD00)
"""How Python decodes the bytes 0x80 to 0xFF of an argument or a file name that is not UTF-8 (PEP 383)."""


class Tokenizer(Protocol):
    """A vocabulary, and the way to segment a text into its pieces.

    The two sides differ only in translation with separate vocabularies: `encode` and `pieces` are for the source,
    `encode_target`, `pieces_target` and `decode` for the target.
    """

    @property
    def vocab(self) -> int:
        """Rows of the embedding: the highest id + 1."""

    @property
    def vocab_target(self) -> int: ...

    @property
    def pad(self) -> int | None: ...
    @property
    def start(self) -> int | None:
        """bos, or BERT's [CLS]."""

    @property
    def end(self) -> int | None:
        """eos, or BERT's [SEP]."""

    @property
    def unknown(self) -> int | None: ...
    @property
    def mask(self) -> int | None: ...

    def encode(self, text: str) -> list[int]:
        """Ids, with the special tokens that the model expects around one text; without truncation or padding."""

    def encode_truncated(self, text: str, context: int) -> list[int]:
        """As `encode`, for sentence embeddings: truncated to the context, or to less, if the files ask for it."""

    def encode_target(self, text: str) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text, without special tokens."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The token strings as the vocabulary spells them."""

    def pieces_target(self, ids: Sequence[int]) -> list[str]: ...

    def id_of(self, piece: str) -> int | None:
        """The id of a source piece, such as a language tag; None if the vocabulary does not have it."""

    @property
    def contents(self) -> Mapping[str, bytes]:
        """The files of this tokenizer: name -> content."""

    def save(self, directory: Path) -> None:
        """Write these files, byte for byte."""


def tag_piece(tag: str) -> str:
    """The piece that selects the target language in a model with several: 'de' -> '>>de<<'."""
    return f">>{tag}<<"


def load(directory: Path) -> Tokenizer | None:
    """The directory's tokenizer; None if it has none, as with an image model."""
    # imported when needed: each library takes 30 ms, and a directory needs one of them
    if any(exists(directory / name) for name in ("source.spm", "target.spm")):
        # before tokenizer.json: some OPUS-MT directories have one too, for another program
        from regard.text.marian_tokenizer import MarianTokenizer

        return MarianTokenizer.load(directory)
    if any(exists(directory / name) for name in ("source_tokenizer.json", "target_tokenizer.json")):
        from regard.text.dual_tokenizer import DualTokenizer

        return DualTokenizer.load(directory)
    if exists(directory / "tokenizer.json"):
        from regard.text.hf_tokenizer import HFTokenizer

        return HFTokenizer.load(directory)
    if exists(directory / "tokenizer.bin"):
        from regard.text.llama2c_tokenizer import load_llama2c

        return load_llama2c(directory / "tokenizer.bin")
    found = [name for name in FRAGMENTS if exists(directory / name)]
    if found:
        raise TokenizerError(
            f"{directory / 'tokenizer.json'}: is missing, and {', '.join(found)} cannot replace it; "
            "load the directory once with transformers' AutoTokenizer and save_pretrained it"
        )
    return None


# ---- checks before a library is called, which would crash or ignore the problem ----


def check_text(text: str) -> None:
    """Refuse half of a surrogate pair: a Python str can hold it (broken JSON, command line), a tokenizer cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        if code in UNDECODED:
            before = len(text[: error.start].encode("utf-8"))
            raise InputError(f"the text is not UTF-8: its byte {before + 1} is 0x{code - 0xDC00:02X}") from None
        raise InputError(
            f"the text has a lone surrogate U+{code:04X} at position {error.start}, which is not a character: remove it"
        ) from None


def check_ids(ids: Sequence[int], vocab: int) -> None:
    """Refuse ids outside the vocabulary: `tokenizers` skips them silently, sentencepiece reads another piece."""
    for position, number in enumerate(ids):
        if not 0 <= number < vocab:
            raise InputError(f"id {number} at position {position} is outside the vocabulary, 0 to {vocab - 1}")


# ---- files: read, checked, and written back byte for byte ----
# Their contents stay in memory (tens of megabytes for the largest vocabularies), so that `save` writes exactly what was
# loaded, even if the directory has moved since or is the one written to.

MAX_FILE_BYTES = 64 << 20
"""The largest published files have 33 MB."""
MAX_VOCAB = 1 << 22  # sixteen times the largest published vocabularies
AN_ID = f"a whole number from 0 to {MAX_VOCAB - 1:,}"


def read_files(directory: Path, required: Iterable[str], optional: Iterable[str] = ()) -> dict[str, bytes]:
    """File name -> content; an optional file may be absent."""
    names = [*required, *(name for name in optional if exists(directory / name))]
    return {name: _read(directory / name) for name in names}


def exists(path: Path) -> bool:
    return os.path.lexists(path)  # a dangling link counts: ignoring it would hide a broken download


def decode_text(raw: bytes, path: Path) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path}: is not UTF-8 text (byte {error.start})") from None


def parse_json(raw: bytes, path: Path) -> dict[str, Any]:
    try:
        value = json.loads(decode_text(raw, path))
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{path}: is not valid JSON ({one_line(error)})") from None
    if not isinstance(value, dict):
        raise TokenizerError(f"{path}: must hold a JSON object, not a {type(value).__name__}")
    return value


def is_id(value: object) -> bool:
    return type(value) is int and 0 <= value < MAX_VOCAB  # JSON's true is an int for isinstance


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write each file atomically."""
    with contextlib.suppress(OSError):  # the first file that cannot be written says why
        directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_bytes(directory / name, content)


@contextlib.contextmanager
def tokenizer_errors(path: Path) -> Iterator[None]:
    """Turn any error of a tokenizer library into a TokenizerError: one line that names the file.

    A Rust panic arrives as `pyo3_runtime.PanicException`, which is not an `Exception` and cannot be
    imported; a tokenizer.json with a missing template token is enough to cause one.
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise  # KeyboardInterrupt and the like
        raise TokenizerError(f"{path}: cannot be used as a tokenizer ({one_line(error)})") from None


def _read(path: Path) -> bytes:
    try:
        return read_file(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        raise TokenizerError(f"{path}: is missing, and the tokenizer needs it") from None
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read ({error.strerror})") from None


# ---- tokenizer_config.json and the files beside it: which tokens are special, and how to clean up decoded text ----
# Most of their keys are for Python classes of `transformers`; only those that change ids or text are read.

SENTENCE_CONFIG = "sentence_bert_config.json"
"""Written by sentence-transformers, for every kind of model."""
CONFIG_FILES = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", SENTENCE_CONFIG)

# our name -> the keys that may name it, in order of preference: GPT has a bos, BERT a cls, ALBERT both
ROLES = {
    "pad": ("pad_token",),
    "start": ("bos_token", "cls_token"),
    "end": ("eos_token", "sep_token"),
    "unknown": ("unk_token",),
    "mask": ("mask_token",),
}
# the names used if no file gives one: GPT-2's own tokenizer_config.json, for example, names no token at all
WELL_KNOWN = {
    "pad": ("[PAD]", "<pad>", "<|pad|>"),
    "start": ("[CLS]", "<s>", "<bos>", "<|begin_of_text|>", "<|endoftext|>"),
    "end": ("[SEP]", "</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>"),
    "unknown": ("[UNK]", "<unk>"),
    "mask": ("[MASK]", "<mask>"),
}


@dataclass(frozen=True)
class TokenizerConfig:
    named: Mapping[str, str | None]
    """Key (`eos_token`) -> token; None if a file has null, which rules out the well-known name too."""
    special: tuple[str, ...]
    """Every token that decoding skips, unnamed extra ones included."""
    added: Mapping[str, Mapping[str, Any]]
    """Token -> its `id` and flags (`special`, `lstrip` ...), if the files list added tokens."""
    clean_up: bool
    """Remove the space before punctuation after decoding. transformers 5: off by default."""
    clean_up_bpe: bool
    """... for BPE too, whose spaces belong to the text; transformers 5 therefore has a second key for it."""
    split_special: bool
    """A special token written in a text is segmented like any other text."""
    separate_vocabs: bool
    """Marian: the target language has a vocabulary of its own."""
    max_length: int | None
    """sentence-transformers: texts are truncated to this many tokens before they are embedded."""

    def role(self, role: str, ids: Mapping[str, int]) -> int | None:
        """The id of `pad`, `start`, `end`, `unknown` or `mask`; None if this vocabulary has no such token."""
        keys = [key for key in ROLES[role] if key in self.named]
        candidates = [self.named[key] for key in keys] if keys else WELL_KNOWN[role]
        return next((ids[token] for token in candidates if token is not None and token in ids), None)


def read_tokenizer_config(files: Mapping[str, bytes], directory: Path) -> TokenizerConfig:
    raw = {name: parse_json(files[name], directory / name) for name in CONFIG_FILES if name in files}
    config = raw.get("tokenizer_config.json", {})
    added = _added(config.get("added_tokens_decoder"), directory / "tokenizer_config.json")
    named = _named(config, directory / "tokenizer_config.json")
    extra = _extra(config, directory / "tokenizer_config.json")
    if "added_tokens_decoder" not in config:  # the two older files count only in directories without this key
        added = {token: {"id": number} for token, number in raw.get("added_tokens.json", {}).items()}
        tokens_map = raw.get("special_tokens_map.json", {})
        named |= _named(tokens_map, directory / "special_tokens_map.json")
        extra += _extra(tokens_map, directory / "special_tokens_map.json")
    for token, entry in added.items():
        if not is_id(entry.get("id")):
            raise TokenizerError(f"{directory / 'added_tokens.json'}: the id of {token!r} must be {AN_ID}")
    return TokenizerConfig(
        named=named,
        special=tuple(dict.fromkeys([*(token for token in named.values() if token), *extra])),
        added=added,
        clean_up=config.get("clean_up_tokenization_spaces") is True,
        clean_up_bpe=config.get("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output") is True,
        split_special=config.get("split_special_tokens") is True,
        separate_vocabs=config.get("separate_vocabs") is True,
        max_length=_max_length(raw[SENTENCE_CONFIG], config, directory) if SENTENCE_CONFIG in raw else None,
    )


def clean_up(text: str) -> str:
    """The ten replacements of transformers' `clean_up_tokenization`, in its order."""
    for spaced in (" .", " ?", " !", " ,"):
        text = text.replace(spaced, spaced[1:])
    text = text.replace(" ' ", "'")
    for spaced in (" n't", " 'm", " 's", " 've", " 're"):
        text = text.replace(spaced, spaced[1:])
    return text


def _max_length(sentences: Mapping[str, Any], config: Mapping[str, Any], directory: Path) -> int:
    """Where sentence-transformers truncates. Since its version 6 the number is in the tokenizer's own config."""
    for file, table, key in (
        (SENTENCE_CONFIG, sentences, "max_seq_length"),
        ("tokenizer_config.json", config, "model_max_length"),
    ):
        if (number := table.get(key)) is not None:
            if isinstance(number, bool) or not isinstance(number, int | float) or not number >= 1:
                raise TokenizerError(f"{directory / file}: '{key}' must be a number of at least 1, not {number!r}")
            return int(min(number, sys.maxsize))
    return sys.maxsize  # no limit but the context


def _named(table: Mapping[str, Any], path: Path) -> dict[str, str | None]:
    keys = [key for keys in ROLES.values() for key in keys if key in table]
    return {key: None if table[key] is None else _content(table[key], key, path) for key in keys}


def _extra(table: Mapping[str, Any], path: Path) -> list[str]:
    found = table.get("extra_special_tokens") or table.get("additional_special_tokens") or []
    entries: Iterable[Any] = found.values() if isinstance(found, dict) else found
    if not isinstance(found, list | dict):
        raise TokenizerError(f"{path}: 'additional_special_tokens' must be a list, not {found!r}")
    return [_content(entry, "additional_special_tokens", path) for entry in entries]


def _added(table: Any, path: Path) -> dict[str, dict[str, Any]]:
    """{"7": {"content": "<x>", ...}} -> {"<x>": {"id": 7, ...}}"""
    if not isinstance(table, dict | None):
        raise TokenizerError(f"{path}: 'added_tokens_decoder' must be an object, not {table!r}")
    entries: dict[str, dict[str, Any]] = {}
    for number, entry in (table or {}).items():
        if not number.isdecimal() or len(number) > len(str(MAX_VOCAB)) or not isinstance(entry, dict):
            raise TokenizerError(f"{path}: 'added_tokens_decoder' must map ids to objects, not {number!r} to {entry!r}")
        entries[_content(entry, "added_tokens_decoder", path)] = entry | {"id": int(number)}
    return entries


def _content(entry: Any, key: str, path: Path) -> str:
    """A token is a string, or an object with a string under "content"."""
    content = entry.get("content") if isinstance(entry, dict) else entry
    if not isinstance(content, str):
        raise TokenizerError(f"{path}: '{key}' must be a token, not {entry!r}")
    return content
