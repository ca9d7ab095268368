"""Files -> pairs to train, to validate and to test with, such that nothing of the test was seen in training.

    run/data/   train.en-de.en  train.en-de.de      aligned lines, one such pair of files for each entry of [data] train
                valid.en-de.en  valid.en-de.de
                test.en-de.en   test.en-de.de

Where a corpus has many translations of a sentence, lines cannot be divided at random: the test would be full of
sentences that were learnt with other words beside them. So sentences of one language are divided, by a hash of their
letters, so that files added later divide the same way; and no pair is trained with that has a sentence of the test or
of the validation on either side.
"""

import dataclasses
import hashlib
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from regard.data.sources import DataSettings, Files, Pair, Split, read
from regard.data.stats import Stats
from regard.errors import InputError
from regard.io import open_text

PARTS = ("train", "valid", "test")


def write_split(settings: DataSettings, folder: Path) -> Stats:
    """Divide the training pairs as `settings.split` says; what was left out is in the account."""
    assert settings.split is not None
    account = Stats()
    held = _held_out(settings, settings.split)
    seen: set[tuple[int, str]] = set()
    with ExitStack() as stack:
        files = {
            (part, number, side): stack.enter_context(open_text(folder / name))
            for part in PARTS
            for number in range(len(settings.train))
            for side, name in enumerate(_names(part, settings.train, number))
        }
        for pair in read(settings.train, settings, account):
            where = f"{settings.train[pair.file].paths(Path(settings.dir))[0]}:{pair.line}"
            key = letters(_divided(pair, settings, settings.split))
            part = _part(key, settings.split)
            if part == "train":
                if letters(pair.source) in held or letters(pair.target) in held:
                    account.drop("with a sentence that is held out", where)
                    continue
            elif (pair.file, key) in seen:
                account.drop("another translation of a sentence that is held out", where)
                continue
            else:
                seen.add((pair.file, key))
            account.kept += 1
            for side, text in enumerate((pair.source, pair.target)):
                files[part, pair.file, side].write(text + "\n")
    return account


def split_settings(settings: DataSettings, folder: Path) -> DataSettings:
    """The same settings, about the files that `write_split` wrote."""
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
                raise InputError(f"{path}: no pair is left for it; change the shares of [data.split]")
    return dataclasses.replace(settings, dir=str(folder), train=train, valid=valid, split=None)


def letters(text: str) -> str:
    """What makes two sentences the same one here: their letters and digits, whatever is between them."""
    return "".join(one for one in unicodedata.normalize("NFKC", text).casefold() if one.isalnum())


def _held_out(settings: DataSettings, split: Split) -> set[str]:
    """The letters of every sentence, of both sides, in a pair that is not for training."""
    return {
        letters(text)
        for pair in read(settings.train, settings, Stats())
        if _part(letters(_divided(pair, settings, split)), split) != "train"
        for text in (pair.source, pair.target)
    }


def _divided(pair: Pair, settings: DataSettings, split: Split) -> str:
    return pair.source if settings.train[pair.file].columns[0] == split.column else pair.target


def _part(key: str, split: Split) -> str:
    number = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest()) / 2**64
    if number < split.test:
        return "test"
    return "valid" if number < split.test + split.valid else "train"


def _names(part: str, entries: Sequence[Files], number: int) -> Iterator[str]:
    """By the languages; by its number, too, where they are not given, or are those of an entry before."""
    source, target = entries[number].language, entries[number].tag
    again = any((entry.language, entry.tag) == (source, target) for entry in entries[:number])
    name = str(number + 1)
    if source and target:
        name = f"{source}-{target}-{number + 1}" if again else f"{source}-{target}"
    return (f"{part}.{name}.{side}" for side in (source or "source", target or "target"))
