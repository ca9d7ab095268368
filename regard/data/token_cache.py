"""Pairs -> tokens on disk, filtered and without duplicates.

    <folder>/<key>/   source.ids, target.ids          tokens (or words, see corpus.py), row after row
                      source_starts.npy …_lengths.npy where each row begins, and how long it is
                      source_table.ids …              the cuts of each word, where they vary
                      lines.npy                       the line that each row came from
                      about.json                      the rest, the account included

The key is a hash of the files' contents, the tokenizer and the settings that matter: what is found under it can be
used as it is. Nothing is held in memory while the files are read but one pair and, where words vary, the words met;
at the end, finding duplicates takes about 60 bytes a pair for a moment.
"""

import dataclasses
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.config import plain
from regard.data.corpus import ABOUT, FORMAT, About, Corpus
from regard.data.sources import DataSettings, training_pairs
from regard.data.stats import Stats
from regard.errors import ConfigError, InputError, OutputError
from regard.io import create, new_directory, write_json
from regard.text.subword_dropout import SubwordDropout
from regard.text.tokenizer import Tokenizer, tag_piece

MOST_WORDS = 1 << 20
"""Words that vary; those met later are always cut the plain way. A hundred bytes of memory each, while building."""
REPORT_EVERY = 10_000
MATTERS = ("max_tokens", "max_ratio", "deduplicate", "placeholders", "bad_lines", "longest_line")
Report = Callable[[Stats], None]


def cached(
    settings: DataSettings,
    tokenizer: Tokenizer,
    folder: Path,
    *,
    dropout: float = 0.0,
    report: Report = lambda account: None,
) -> Corpus:
    """The training pairs as tokens: from the folder if it has them, and put there if not."""
    path = folder / _key(settings, tokenizer, dropout)
    if corpus := Corpus.open(path):
        return corpus
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists():  # damaged
            shutil.rmtree(path)
    except OSError as error:
        raise OutputError(f"{folder}: the token cache cannot be written ({error.strerror or error})") from None
    try:
        with new_directory(path) as draft:
            _build(draft, settings, tokenizer, dropout, report)
    except OutputError:
        if corpus := Corpus.open(path):  # another process was faster
            return corpus
        raise
    corpus = Corpus.open(path)
    assert corpus is not None, "written a moment ago"
    return corpus


def _key(settings: DataSettings, tokenizer: Tokenizer, dropout: float) -> str:
    matters = {name: value for name, value in plain(settings).items() if name in MATTERS}
    files = [
        {"columns": list(entry.columns), "keys": list(entry.keys), "tag": entry.tag, "kind": kind}
        for entry in settings.train
        for kind in ["tsv" if entry.tsv else "jsonl" if entry.jsonl else "aligned"]
    ]
    paths = [path for entry in settings.train for path in entry.paths(Path(settings.dir))]
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer.save(Path(scratch))
        vocabulary = [(path.name, _digest(path)) for path in sorted(Path(scratch).iterdir())]
    whole = [FORMAT, matters, files, vocabulary, [_digest(path) for path in paths], dropout]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:32]


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def _build(folder: Path, settings: DataSettings, tokenizer: Tokenizer, dropout: float, report: Report) -> None:
    account, ends = Stats(), [0] * len(settings.train)
    tags = [tag_ids(entry.tag, tokenizer) for entry in settings.train]
    with (
        _Side(folder, "source", tokenizer, dropout) as source,
        _Side(folder, "target", tokenizer, dropout) as target,
        _Column(folder / "lines.raw", np.uint32) as lines,
        create(folder / "digests.raw") as digests,
    ):
        for pair in training_pairs(settings, account):
            read_codes, read_length = source.codes(pair.source)
            written_codes, written_length = target.codes(pair.target)
            longest, shortest = max(read_length, written_length), min(read_length, written_length)
            tag = tags[pair.file]
            if max(read_length + len(tag), written_length) > settings.max_tokens:
                account.drop("more than max_tokens", where(settings, pair.file, pair.line))
            elif settings.max_ratio is not None and longest > settings.max_ratio * shortest:
                account.drop("more than max_ratio", where(settings, pair.file, pair.line))
            else:
                source.add([*tag, *read_codes])
                target.add(written_codes)
                lines.extend([pair.line])
                if settings.deduplicate:
                    text = f"{len(pair.source)} {pair.source}{pair.target}{pair.tag}"
                    digests.write(hashlib.blake2b(text.encode(), digest_size=16).digest())
                account.kept += 1
                ends[pair.file] = account.kept
            if account.read % REPORT_EVERY == 0:
                report(account)
    for number in range(1, len(ends)):
        ends[number] = max(ends[number], ends[number - 1])  # a file of which nothing was kept
    _finish(folder, settings, account, ends, (source, target))
    report(account)


def _finish(
    folder: Path, settings: DataSettings, account: Stats, ends: list[int], sides: "tuple[_Side, _Side]"
) -> None:
    lines = np.fromfile(folder / "lines.raw", np.uint32)
    rows = np.arange(len(lines))
    if settings.deduplicate and len(lines):
        again = _repeated(np.memmap(folder / "digests.raw", "<u8", "r").reshape(-1, 2))
        if count := int(again.sum()):
            first = int(again.argmax())
            file = int(np.searchsorted(ends, first, side="right"))
            account.kept -= count
            account.drop("duplicate", where(settings, file, int(lines[first])), count)
            rows = np.flatnonzero(~again)
    if not len(rows):
        why = "; ".join(line.strip() for line in account.lines())
        raise InputError(f"{where(settings, 0, 1)}: no pair is left to train with ({why})")
    np.save(folder / "lines.npy", lines[rows])
    for side in sides:
        side.finish(rows)
    (folder / "lines.raw").unlink()
    (folder / "digests.raw").unlink()
    about = About(
        format=FORMAT,
        ends=np.searchsorted(rows, ends).tolist(),
        max_tokens=settings.max_tokens,
        vary=sides[0].sampler is not None,
        kinds=sides[0].kinds | sides[1].kinds,
        sizes={file.name: file.stat().st_size for file in sorted(folder.iterdir())},
        account=dataclasses.asdict(account),
    )
    write_json(folder / ABOUT, dataclasses.asdict(about))


def _repeated(digests: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which rows have been there before."""
    half = np.ascontiguousarray(digests[:, 0])
    order = np.argsort(half, kind="stable")
    alike = half[order[1:]] == half[order[:-1]]
    suspects = np.unique(np.concatenate((order[1:][alike], order[:-1][alike])))
    again = np.zeros(len(digests), bool)
    if len(suspects):  # few, so the other half of their digests fits memory as well
        whole = np.ascontiguousarray(digests[suspects])
        order = np.lexsort((suspects, whole[:, 1], whole[:, 0]))
        alike = (whole[order[1:]] == whole[order[:-1]]).all(axis=1)
        again[suspects[order[1:][alike]]] = True
    return again


def where(settings: DataSettings, file: int, line: int) -> str:
    return f"{settings.train[file].paths(Path(settings.dir))[0]}:{line}" if settings.train else "train"


def tag_ids(tag: str | None, tokenizer: Tokenizer) -> list[int]:
    """What stands before a source that goes into this language, of a model that has several."""
    if tag is None:
        return []
    number = tokenizer.id_of(tag_piece(tag))
    if number is None:
        raise ConfigError(f"the tokenizer has no tag '{tag}': list it under the tokenizer's tags before it is learnt")
    return [number]


class _Side:
    """One language's rows, being written."""

    def __init__(self, folder: Path, name: str, tokenizer: Tokenizer, dropout: float) -> None:
        self._folder, self._name = folder, name
        self._encode = tokenizer.encode if name == "source" else tokenizer.encode_target
        self._vocab = tokenizer.vocab if name == "source" else tokenizer.vocab_target
        self._small: type[np.generic] = np.uint16 if self._vocab <= 1 << 16 else np.uint32
        self._end = tokenizer.end
        self.sampler = _sampler(tokenizer, name, dropout) if dropout else None
        self._words: dict[str, tuple[int, int]] = {}  # word -> its code, and how long its plain cut is
        self._ids = _Column(folder / f"{name}.ids", np.uint32 if self.sampler else self._small)
        self.kinds = {
            f"{name}.ids": "uint32" if self.sampler else self._small.__name__,
            f"{name}_table.ids": self._small.__name__,
        }
        self._lengths = _Column(folder / f"{name}_lengths.raw", np.uint32)
        if self.sampler:
            self._plain = lru_cache(1 << 16)(self.sampler.tokenize)

    def __enter__(self) -> "_Side":
        return self

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._ids.close()
        self._lengths.close()

    def codes(self, text: str) -> tuple[list[int], int]:
        """What is written for a text, and how many tokens it has when it is cut the plain way."""
        if self.sampler is None:
            ids = self._encode(text)
            return ids, len(ids)
        codes: list[int] = []
        length = 0
        for word in self.sampler.split_words(text):
            known = self._words.get(word)
            if known is None and len(self._words) < MOST_WORDS and self.sampler.varies(word):
                known = self._words[word] = self._vocab + len(self._words), len(self._plain(word))
            if known is None:
                codes += self._plain(word)
                length += len(self._plain(word))
            else:
                codes.append(known[0])
                length += known[1]
        assert self._end is not None
        return [*codes, self._end], length + 1

    def add(self, codes: list[int]) -> None:
        self._ids.extend(codes)
        self._lengths.extend([len(codes)])

    def finish(self, rows: NDArray[np.int64]) -> None:
        raw = self._folder / f"{self._name}_lengths.raw"
        lengths = np.fromfile(raw, np.uint32)
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        np.save(self._folder / f"{self._name}_starts.npy", starts[rows])
        np.save(self._folder / f"{self._name}_lengths.npy", lengths[rows])
        raw.unlink()
        if self.sampler:
            self._finish_table(self.sampler)

    def _finish_table(self, sampler: SubwordDropout) -> None:
        """The cuts of every code: of a token itself, of a word the plain one and the others."""
        lengths = [np.ones((self._vocab, sampler.variants + 1), np.uint16)]
        words = list(self._words)
        with _Column(self._folder / f"{self._name}_table.ids", self._small) as table:
            table.extend(np.repeat(np.arange(self._vocab), sampler.variants + 1))
            for start in range(0, len(words), REPORT_EVERY):
                cuts = sampler.segmentations(words[start : start + REPORT_EVERY])
                table.extend(cuts.ids)
                lengths.append(cuts.lengths.astype(np.uint16))
        whole = np.concatenate(lengths).reshape(-1)
        np.save(self._folder / f"{self._name}_table_lengths.npy", whole)
        np.save(self._folder / f"{self._name}_table_starts.npy", np.cumsum(whole, dtype=np.int64) - whole)


def _sampler(tokenizer: Tokenizer, side: str, dropout: float) -> SubwordDropout:
    contents = tokenizer.contents
    content = contents.get("tokenizer.json") or contents.get(f"{side}_tokenizer.json")
    if content is None:
        raise ConfigError("dropout needs a tokenizer that regard has learnt; this one came from elsewhere")
    return SubwordDropout(content, dropout)


class _Column:
    """Numbers to a file, a few at a time."""

    def __init__(self, path: Path, kind: type[np.generic]) -> None:
        self._file, self._kind = create(path), kind
        self._waiting: list[Any] = []

    def __enter__(self) -> "_Column":
        return self

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def extend(self, numbers: Iterable[Any]) -> None:
        self._waiting.extend(numbers)
        if len(self._waiting) >= 1 << 16:
            self._write()

    def close(self) -> None:
        self._write()
        self._file.close()

    def _write(self) -> None:
        np.asarray(self._waiting, self._kind).tofile(self._file)
        self._waiting.clear()
