"""Placeholders ① to ⑧: words that a model copies. They replace what must not be translated.

A model learns them from pairs with a name or a number on both sides: "Tom went to Boston." and "Tom ging nach Boston."
become "③ went to ①." and "③ ging nach ①.". So it learns to write each one once, in the right position. The tokenizer
treats them as digits, so each is a word of its own, and one piece if the tokenizer's training text had them.
"""

import hashlib
import re

PLACEHOLDERS = "①②③④⑤⑥⑦⑧"
WORD = re.compile(r"\w+")
RANGE = 2**32


def with_placeholders(source: str, target: str, share: float) -> tuple[str, str]:
    """For this share of all pairs, replace what both sides have in common by placeholders.

    Which pairs and which placeholders depends on the texts alone: it is the same in every run.
    """
    bits = int.from_bytes(hashlib.blake2b(f"{source}\t{target}".encode(), digest_size=8).digest())
    if bits % RANGE >= share * RANGE:
        return source, target
    common = _common(source, target)
    unused = list(PLACEHOLDERS)
    for word in common[: len(unused)]:
        bits //= len(unused)
        mark = unused.pop(bits % len(unused))
        source, target = (re.sub(rf"\b{word}\b", mark, text) for text in (source, target))
    return source, target


def _common(source: str, target: str) -> list[str]:
    """Names and numbers that occur once on each side."""
    words, target_words = WORD.findall(source), WORD.findall(target)
    return [word for word in words if _is_copied(word) and words.count(word) == 1 == target_words.count(word)]


def _is_copied(word: str) -> bool:
    return word.isdecimal() or (len(word) > 2 and word[0].isupper() and word.isalpha())
