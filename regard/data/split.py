"""Files -> pairs for training, validation and test, so that training sees no test sentence.

    run/data/   train.en-de.en  train.en-de.de      aligned lines, one pair of files for each entry of [[data.train]]
                valid.en-de.en  valid.en-de.de
                test.en-de.en   test.en-de.de

A corpus with many translations of a sentence cannot be split by lines: the test would be full of sentences seen in
training with another translation. So the sentences of one language are split, by a hash of their letters, which gives
the same result when files are added later. And no training pair has a validation or test sentence on either side.
"""

import dataclasses
import hashlib
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from regard.data.filter_counts import Stats
from regard.data.sources import DataSettings, Files, Pair, Split, read_pairs
from regard.errors import InputError
from regard.io import open_text

PARTS = ("train", "valid", "test")


def write_split(settings: DataSettings, folder: Path) -> Stats:
    """Split the training pairs as `settings.split` says; dropped pairs are counted in the result."""
    assert settings.split is not None
    stats = Stats()
    held_out = _held_out(settings, settings.split)
    seen: set[tuple[int, str]] = set()
    with ExitStack() as stack:
        files = {
            (part, number, side): stack.enter_context(open_text(folder / name))
            for part in PARTS
            for number in range(len(settings.train))
            for side, name in enumerate(_names(part, settings.train, number))
        }
        for pair in read_pairs(settings.train, settings, stats):
            location = f"{settings.train[pair.file].paths(Path(settings.dir))[0]}:{pair.line}"
            key = letters(_split_text(pair, settings, settings.split))
            part = _part(key, settings.split)
            if part == "train":
                if letters(pair.source) in held_out or letters(pair.target) in held_out:
                    stats.drop("contains a held-out sentence", location)
                    continue
            elif (pair.file, key) in seen:
                stats.drop("another translation of a held-out sentence", location)
                continue
            else:
                seen.add((pair.file, key))
            stats.kept += 1
            for side, text in enumerate((pair.source, pair.target)):
                files[part, pair.file, side].write(text + "\n")
    return stats


def split_settings(settings: DataSettings, folder: Path) -> DataSettings:
    """The same settings, for the files that `write_split` wrote."""
    train, valid = (
        tuple(
            Files(source=source, target=target, weight=entry.weight, tag=entry.tag, language=entry.language)
            for number, entry in enumerate(settings.train)
            for source, target in [_names(part, settings.train, number)]
        )
        for part in ("train", "valid")
    )
    for files in (*train, *valid):
        for path in files.paths(folder):
            if not path.stat().st_size:
                raise InputError(f"{path}: is empty: no pair is left; change valid and test in [data.split]")
    return dataclasses.replace(settings, dir=str(folder), train=train, valid=valid, split=None)


def letters(text: str) -> str:
    """Only the letters and digits of a text, in lower case: two sentences with the same ones count as equal."""
    return "".join(one for one in unicodedata.normalize("NFKC", text).casefold() if one.isalnum())


def _held_out(settings: DataSettings, split: Split) -> set[str]:
    """The letters of every sentence, on both sides, of the pairs held out from training."""
    return {
        letters(text)
        for pair in read_pairs(settings.train, settings, Stats())
        if _part(letters(_split_text(pair, settings, split)), split) != "train"
        for text in (pair.source, pair.target)
    }


def _split_text(pair: Pair, settings: DataSettings, split: Split) -> str:
    return pair.source if settings.train[pair.file].columns[0] == split.column else pair.target


def _part(key: str, split: Split) -> str:
    fraction = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest()) / 2**64
    if fraction < split.test:
        return "test"
    return "valid" if fraction < split.test + split.valid else "train"


def _names(part: str, entries: Sequence[Files], number: int) -> Iterator[str]:
    """File names: by languages; also by number, if languages are missing or an earlier entry has the same."""
    source, target = entries[number].language, entries[number].tag
    again = any((entry.language, entry.tag) == (source, target) for entry in entries[:number])
    name = str(number + 1)
    if source and target:
        name = f"{source}-{target}-{number + 1}" if again else f"{source}-{target}"
    return (f"{part}.{name}.{side}" for side in (source or "source", target or "target"))
