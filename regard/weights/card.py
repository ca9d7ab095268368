"""The model card: what a model is for, its training data, its quality and its limits, for people to read."""

from dataclasses import dataclass
from pathlib import Path

from regard.config import from_table, load_json

FILE = "card.json"


@dataclass(frozen=True, kw_only=True)
class Card:
    name: str
    about: str
    pairs: tuple[str, ...]
    """Language pairs it was trained for, such as en-de."""
    data: tuple[str, ...] = ()
    licence: str = ""
    figures: tuple[dict[str, str], ...] = ()
    """Rows of a table of measurements."""
    limits: tuple[str, ...] = ()

    @classmethod
    def load(cls, directory: Path) -> "Card | None":
        path = directory / FILE
        return from_table(cls, load_json(path), str(path)) if path.is_file() else None

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(language for pair in self.pairs for language in pair.split("-")))
