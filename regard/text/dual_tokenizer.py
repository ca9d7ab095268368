"""source_tokenizer.json and target_tokenizer.json -> tokens: one vocabulary per language."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from regard.errors import TokenizerError
from regard.text import tokenizer as files
from regard.text.hf_tokenizer import HFTokenizer
from regard.text.tokenizer import CONFIG_FILES

SOURCE_FILE, TARGET_FILE = "source_tokenizer.json", "target_tokenizer.json"
ROLES = ("pad", "start", "end", "unknown")


class DualTokenizer:
    """One tokenizer for the source, another for the target."""

    mask: int | None = None

    def __init__(self, contents: Mapping[str, bytes], directory: Path):
        """`contents`: the files by name, with both tokenizers; `directory` is used in messages only."""
        self._files = dict(contents)
        self._source = HFTokenizer(contents, directory, SOURCE_FILE)
        self._target = HFTokenizer(contents, directory, TARGET_FILE)
        for role in ROLES:  # a model's config.json has one of each, for encoder and decoder together
            source, target = getattr(self._source, role), getattr(self._target, role)
            if source != target:
                raise TokenizerError(
                    f"{directory / TARGET_FILE}: its {role} token has the id {target}, "
                    f"but in {SOURCE_FILE} it has {source}"
                )
        self.pad, self.start, self.end, self.unknown = (getattr(self._source, role) for role in ROLES)
        self.vocab, self.vocab_target = self._source.vocab, self._target.vocab

    @classmethod
    def load(cls, directory: Path) -> "DualTokenizer":
        return cls(files.read_files(directory, [SOURCE_FILE, TARGET_FILE], CONFIG_FILES), directory)

    @property
    def contents(self) -> Mapping[str, bytes]:
        return self._files

    def encode(self, text: str) -> list[int]:
        return self._source.encode(text)

    def encode_truncated(self, text: str, context: int) -> list[int]:
        return self.encode(text)

    def encode_target(self, text: str) -> list[int]:
        return self._target.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        return self._target.decode(ids)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return self._source.pieces(ids)

    def pieces_target(self, ids: Sequence[int]) -> list[str]:
        return self._target.pieces(ids)

    def id_of(self, piece: str) -> int | None:
        return self._source.id_of(piece)

    def save(self, directory: Path) -> None:
        files.write_files(directory, self._files)
