"""text -> tokens -> text: what every tokenizer can do, and which one a model directory has.

files in the directory                           read by
source.spm, target.spm, vocab.json               marian.py            OPUS-MT
source_tokenizer.json, target_tokenizer.json     dual_tokenizer.py    learned by regard, one vocabulary per language
tokenizer.json                                   hf_tokenizer.py      BERT, GPT-2, Llama, most others; learned by regard
tokenizer.bin                                    llama2c.py           llama2.c; saved as a tokenizer.json
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from regard.errors import InputError, TokenizerError
from regard.text.tokenizer_files import exists

# parts of a tokenizer, none of them sufficient
FRAGMENTS = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
)

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
