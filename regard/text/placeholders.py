"""①: a word that is carried over as it is. What must not be translated stands behind one while its text is translated.

A model learns what they are from pairs that have a name or a number in common: "Tom went to Boston." and "Tom ging nach
Boston." become "③ went to ①." and "③ ging nach ①.". So it learns to write each one once, and where it belongs. They are
digits to the tokenizer, so that each is a word of its own, and stay one piece where they were there to be learnt.
"""

import hashlib
import re

PLACEHOLDERS = "①②③④⑤⑥⑦⑧"
WORD = re.compile(r"\w+")
CHANCES = 2**32


def with_placeholders(source: str, target: str, share: float) -> tuple[str, str]:
    """The pair, or for such a share of all pairs, the pair with placeholders for what both sides have in common.

    Which pairs and which placeholders is a matter of the texts alone: the same in every run.
    """
    luck = int.from_bytes(hashlib.blake2b(f"{source}\t{target}".encode(), digest_size=8).digest())
    if luck % CHANCES >= share * CHANCES:
        return source, target
    common = _common(source, target)
    order = list(PLACEHOLDERS)
    for word in common[: len(order)]:
        luck //= len(order)
        mark = order.pop(luck % len(order))
        source, target = (re.sub(rf"\b{word}\b", mark, text) for text in (source, target))
    return source, target


def _common(source: str, target: str) -> list[str]:
    """Names and numbers that each side has once."""
    here, there = WORD.findall(source), WORD.findall(target)
    return [word for word in here if _stands_out(word) and here.count(word) == 1 == there.count(word)]


def _stands_out(word: str) -> bool:
    return word.isdecimal() or (len(word) > 2 and word[0].isupper() and word.isalpha())
