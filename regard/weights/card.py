"""What a model says about itself, for people: what it is for, what it was made from, how good it is, what it is not."""

from dataclasses import dataclass
from pathlib import Path

from regard.config import load_json, read

FILE = "card.json"


@dataclass(frozen=True, kw_only=True)
class Card:
    name: str
    about: str
    pairs: tuple[str, ...]
    """The directions it was trained for: en-de."""
    data: tuple[str, ...] = ()
    licence: str = ""
    figures: tuple[dict[str, str], ...] = ()
    """Rows of a table."""
    limits: tuple[str, ...] = ()

    @classmethod
    def load(cls, directory: Path) -> "Card | None":
        path = directory / FILE
        return read(cls, load_json(path), str(path)) if path.is_file() else None

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(language for pair in self.pairs for language in pair.split("-")))
