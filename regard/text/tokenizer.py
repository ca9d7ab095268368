"""text -> tokens -> text: what every tokenizer can do, and how a model directory comes by its own.

directory has                                    read by
source.spm, target.spm, vocab.json               marian.py    OPUS-MT
source_tokenizer.json, target_tokenizer.json     pair.py      learnt by regard, a vocabulary for each language
tokenizer.json                                   fast.py      BERT, GPT-2, Llama and most others; learnt by regard
tokenizer.bin                                    llama2c.py   llama2.c; becomes a tokenizer.json when saved
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from regard.errors import TokenizerError
from regard.text.files import is_there

# these belong to a tokenizer, but none of them is one
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


class Tokenizer(Protocol):
    """A vocabulary and the way to cut a text into it.

    Only translation with separate vocabularies tells the two sides apart: `encode` and `pieces` are for the
    text that is read, `encode_target`, `pieces_target` and `decode` for the text that is written.
    """

    @property
    def vocab(self) -> int:
        """How many rows an embedding needs: the highest id + 1."""

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
        """With the special tokens that the model expects around one text; nothing is cut off or padded."""

    def encode_to_embed(self, text: str, context: int) -> list[int]:
        """As `encode`, for one vector of the whole: cut to the context, or shorter, where the files ask for it."""

    def encode_target(self, text: str) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str:
        """Without the special tokens."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The token strings, as the vocabulary spells them."""

    def pieces_target(self, ids: Sequence[int]) -> list[str]: ...

    def id_of(self, piece: str) -> int | None:
        """The id of a piece of the text that is read, such as the tag of a language; None if there is none."""

    @property
    def contents(self) -> Mapping[str, bytes]:
        """The files it was made from: name -> content."""

    def save(self, directory: Path) -> None:
        """Write the files it was made from, byte for byte."""


def tag_piece(tag: str) -> str:
    """The piece that asks a model of several target languages for one of them: 'de' -> '>>de<<'."""
    return f">>{tag}<<"


def load(directory: Path) -> Tokenizer | None:
    """The directory's tokenizer; None if it has no file of one, as for a model that reads images."""
    # imported where needed: each library takes 30 ms, and a directory needs one of them
    if any(is_there(directory / name) for name in ("source.spm", "target.spm")):
        # before tokenizer.json: some OPUS-MT directories have one as well, for another program
        from regard.text.marian import MarianTokenizer

        return MarianTokenizer.load(directory)
    if any(is_there(directory / name) for name in ("source_tokenizer.json", "target_tokenizer.json")):
        from regard.text.dual_tokenizer import DualTokenizer

        return DualTokenizer.load(directory)
    if is_there(directory / "tokenizer.json"):
        from regard.text.hf_tokenizer import HFTokenizer

        return HFTokenizer.load(directory)
    if is_there(directory / "tokenizer.bin"):
        from regard.text.llama2c import load_llama2c

        return load_llama2c(directory / "tokenizer.bin")
    found = [name for name in FRAGMENTS if is_there(directory / name)]
    if found:
        raise TokenizerError(
            f"{directory / 'tokenizer.json'}: is missing, and {', '.join(found)} cannot replace it: "
            "load the directory once with transformers' AutoTokenizer and save_pretrained it"
        )
    return None
