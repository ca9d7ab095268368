"""Tokenizer files of every kind: tokenizer.json, two of them, source.spm and vocab.json, tokenizer.bin."""

import shutil
from pathlib import Path
from random import Random

from fuzz import mutate, samples
from fuzz.case import Case, Content
from fuzz.regard_calls import Failure, as_verb, nothing_left
from fuzz.workers import Limits

TEXTS = (
    "",
    "Hello, world.",
    "  the  lighthouse\tkeeper ",
    "<s>ships</s> [MASK]",
    ">>fra<< café \U0001f600\x00\ufffd",
    "a" * 300,
)


class Tokenizers:
    name = "tokenizers"
    cases_per_child = 500
    limits = Limits()

    def prepare(self, folder: Path) -> None:
        self.folder = folder
        self.files = {
            name: {path.name: path.read_bytes() for path in sorted((folder / name).iterdir())}
            for name in samples.tokenizers(folder)
        }
        for name in self.files:  # also imports the libraries
            self.run(Case(self.name, name), folder / "run")
            shutil.rmtree(folder / "run")

    def make(self, luck: Random) -> Case:
        base = luck.choice(sorted(self.files))
        files = self.files[base]
        names = luck.sample(sorted(files), min(len(files), luck.choice((1, 1, 1, 2))))
        return Case(self.name, base, {name: self._mutated(luck, name, files[name]) for name in names})

    def _mutated(self, luck: Random, name: str, raw: bytes) -> Content:
        if luck.random() < 0.02:
            return luck.choice((*mutate.SPECIAL_FILES, f"link {name}"))
        if luck.random() < 0.02:
            return luck.choice(sorted(self.files[luck.choice(sorted(self.files))].items()))[1]
        return mutate.mutated_json(luck, raw) if name.endswith(".json") else mutate.mutated_bytes(luck, raw)

    def run(self, case: Case, folder: Path) -> None:
        case.lay(folder / "model", self.folder / case.base)
        with nothing_left(folder, folder / "saved"):
            as_verb("tokenizer", lambda: use(folder / "model", folder / "saved"))


def use(directory: Path, copy: Path) -> None:
    """What the tasks do with a tokenizer."""
    from regard.errors import InputError
    from regard.text import tokenizer as text

    tokenizer = text.load(directory)
    if tokenizer is None:
        return
    for one in TEXTS:
        try:
            ids = tokenizer.encode(one)
            tokenizer.encode_truncated(one, 16)
            if not all(0 <= number < tokenizer.vocab for number in ids):
                raise Failure(f"tokenizer: ids outside the vocabulary of {tokenizer.vocab}: {ids[:9]}")
            tokenizer.pieces(ids)
            tokenizer.decode(tokenizer.encode_target(one))
        except InputError:  # a text that this tokenizer cannot take
            continue
    tokenizer.save(copy)
    again = text.load(copy)
    if again is None or again.encode(TEXTS[1]) != tokenizer.encode(TEXTS[1]):
        raise Failure("tokenizer: a saved tokenizer gives other ids")


KIND = Tokenizers()
