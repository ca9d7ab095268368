"""A small corpus, made up of a few words, and tokenizers learnt from it."""

import random
from functools import cache
from pathlib import Path
from typing import Any

from regard.text.train_tokenizer import TokenizerSettings, learn

WORDS = """the der a ein small kleine old alte green grüne keeper Wärter boat Boot fish Fisch book Buch lantern Laterne
waves winkt reads liest counts zählt draws malt slowly langsam twice zweimal Tomorrow Morgen"""
READ, WRITTEN = WORDS.split()[::2], WORDS.split()[1::2]


def pairs(count: int, seed: int = 1) -> list[tuple[str, str]]:
    """No two alike."""
    chance = random.Random(seed)
    found: dict[str, str] = {}
    while len(found) < count:
        numbers = chance.choices(range(len(READ)), k=chance.randint(2, 14))
        found[" ".join(READ[i] for i in numbers)] = " ".join(WRITTEN[i] for i in numbers)
    return list(found.items())


def write(folder: Path, rows: list[tuple[str, str]], name: str = "train") -> None:
    for side, ending in enumerate(("en", "de")):
        (folder / f"{name}.{ending}").write_text("".join(f"{row[side]}\n" for row in rows), encoding="utf-8")


@cache
def tokenizer(kind: Any = "bpe", joint: bool = True) -> Any:
    rows = pairs(300)
    settings = TokenizerSettings(kind=kind, vocab=400, joint=joint, tags=("de",))
    return learn(settings, [row[0] for row in rows], [row[1] for row in rows])
