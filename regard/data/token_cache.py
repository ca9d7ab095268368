"""Pairs -> tokens on disk, filtered and without duplicates.

    <folder>/<key>/   source.ids, target.ids            tokens (or words, see corpus.py), row after row
                      source_starts.npy, …_lengths.npy  where each row begins, and its length
                      source_table.ids, …               with subword dropout: the segmentations of each word
                      lines.npy                         the line number of each row
                      about.json                        the rest, with the statistics

The key is a hash of the files' contents, the tokenizer and the settings that affect the tokens, so an existing entry
is valid. Processes that need the same entry at once wait for the first of them. While the files are read, memory holds
one pair and, with subword dropout, the words seen so far; at the end, finding duplicates briefly takes about 60 bytes
per pair.
"""

import dataclasses
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.config import to_table
from regard.cpu import machine
from regard.data.corpus import FORMAT, INFO_FILE, Corpus, CorpusInfo
from regard.data.filter_counts import Stats
from regard.data.sources import DataSettings, training_pairs
from regard.errors import ConfigError, InputError, OutputError
from regard.io import create, new_directory, write_json
from regard.text.subword_dropout import SubwordDropout
from regard.text.tokenizer import Tokenizer, tag_piece

MAX_WORDS = 1 << 20
"""Words with random segmentations; later ones keep the tokenizer's own. Each takes 100 bytes while building."""
LOCK_SECONDS = 3600
"""Wait this long for another process that builds an entry; then build it too. The last one stays: they are equal."""
PAIRS_PER_REPORT = 10_000
WORDS_PER_PASS = 10_000
KEY_SETTINGS = ("max_tokens", "max_ratio", "deduplicate", "placeholders", "bad_lines", "longest_line")
Report = Callable[[Stats], None]


def cached_corpus(
    settings: DataSettings,
    tokenizer: Tokenizer,
    folder: Path,
    *,
    dropout: float = 0.0,
    report: Report = lambda stats: None,
) -> Corpus:
    """The training pairs as tokens: from the cache in `folder`, or tokenized now and stored there."""
    path = folder / _key(settings, tokenizer, dropout)
    if corpus := Corpus.open(path):
        return corpus
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: the token cache cannot be written ({error.strerror or error})") from None
    with machine.file_lock(folder.with_name(f".{folder.name}.lock"), LOCK_SECONDS):
        if corpus := Corpus.open(path):  # another process has built it while this one waited
            return corpus
        try:
            with new_directory(path, replace=True) as draft:  # replace: an entry that cannot be opened is damaged
                _build(draft, settings, tokenizer, dropout, report)
        except OutputError:
            if corpus := Corpus.open(path):  # without locks, another process may have been faster
                return corpus
            raise
        corpus = Corpus.open(path)
    if corpus is None:
        raise OutputError(f"{path}: cannot be read, although it was written a moment ago")
    return corpus


def _key(settings: DataSettings, tokenizer: Tokenizer, dropout: float) -> str:
    chosen = {name: value for name, value in to_table(settings).items() if name in KEY_SETTINGS}
    files = [
        {"columns": list(entry.columns), "keys": list(entry.keys), "tag": entry.tag, "kind": kind}
        for entry in settings.train
        for kind in ["tsv" if entry.tsv else "jsonl" if entry.jsonl else "aligned"]
    ]
    paths = [path for entry in settings.train for path in entry.paths(Path(settings.dir))]
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer.save(Path(scratch))
        vocabulary = [(path.name, _digest(path)) for path in sorted(Path(scratch).iterdir())]
    parts = [FORMAT, chosen, files, vocabulary, [_digest(path) for path in paths], dropout]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def _build(folder: Path, settings: DataSettings, tokenizer: Tokenizer, dropout: float, report: Report) -> None:
    stats, ends = Stats(), [0] * len(settings.train)
    tags = [tag_ids(entry.tag, tokenizer) for entry in settings.train]
    with (
        _SideWriter(folder, "source", tokenizer, dropout) as source,
        _SideWriter(folder, "target", tokenizer, dropout) as target,
        _NumberWriter(folder / "lines.raw", np.uint32) as lines,
        create(folder / "digests.raw") as digests,
    ):
        for pair in training_pairs(settings, stats):
            source_codes, source_length = source.codes(pair.source)
            target_codes, target_length = target.codes(pair.target)
            longest, shortest = max(source_length, target_length), min(source_length, target_length)
            tag = tags[pair.file]
            if max(source_length + len(tag), target_length) > settings.max_tokens:
                stats.drop("more than max_tokens", location(settings, pair.file, pair.line))
            elif settings.max_ratio is not None and longest > settings.max_ratio * shortest:
                stats.drop("more than max_ratio", location(settings, pair.file, pair.line))
            else:
                source.add([*tag, *source_codes])
                target.add(target_codes)
                lines.extend([pair.line])
                if settings.deduplicate:
                    text = f"{len(pair.source)} {pair.source}{pair.target}{pair.tag}"
                    digests.write(hashlib.blake2b(text.encode(), digest_size=16).digest())
                stats.kept += 1
                ends[pair.file] = stats.kept
            if stats.read % PAIRS_PER_REPORT == 0:
                report(stats)
    for number in range(1, len(ends)):
        ends[number] = max(ends[number], ends[number - 1])  # a file without a kept pair
    _finish(folder, settings, stats, ends, (source, target))
    report(stats)


def _finish(
    folder: Path, settings: DataSettings, stats: Stats, ends: list[int], sides: "tuple[_SideWriter, _SideWriter]"
) -> None:
    lines = np.fromfile(folder / "lines.raw", np.uint32)
    rows = np.arange(len(lines))
    if settings.deduplicate and len(lines):
        repeated = _repeated(np.memmap(folder / "digests.raw", "<u8", "r").reshape(-1, 2))
        if count := int(repeated.sum()):
            first = int(repeated.argmax())
            file = int(np.searchsorted(ends, first, side="right"))
            stats.kept -= count
            stats.drop("duplicate", location(settings, file, int(lines[first])), count)
            rows = np.flatnonzero(~repeated)
    if not len(rows):
        summary = "; ".join(line.strip() for line in stats.lines())
        raise InputError(f"{location(settings, 0, 1)}: no pair is left for training ({summary})")
    np.save(folder / "lines.npy", lines[rows])
    for side in sides:
        side.finish(rows)
    (folder / "lines.raw").unlink()
    (folder / "digests.raw").unlink()
    info = CorpusInfo(
        format=FORMAT,
        ends=np.searchsorted(rows, ends).tolist(),
        max_tokens=settings.max_tokens,
        vary=sides[0].dropout is not None,
        kinds=sides[0].kinds | sides[1].kinds,
        sizes={file.name: file.stat().st_size for file in sorted(folder.iterdir())},
        account=dataclasses.asdict(stats),
    )
    write_json(folder / INFO_FILE, dataclasses.asdict(info))


def _repeated(digests: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """True for rows equal to an earlier one."""
    half = np.ascontiguousarray(digests[:, 0])
    order = np.argsort(half, kind="stable")
    equal = half[order[1:]] == half[order[:-1]]
    candidates = np.unique(np.concatenate((order[1:][equal], order[:-1][equal])))
    repeated = np.zeros(len(digests), bool)
    if len(candidates):  # few, so their whole digests fit into memory
        whole = np.ascontiguousarray(digests[candidates])
        order = np.lexsort((candidates, whole[:, 1], whole[:, 0]))
        equal = (whole[order[1:]] == whole[order[:-1]]).all(axis=1)
        repeated[candidates[order[1:][equal]]] = True
    return repeated


def location(settings: DataSettings, file: int, line: int) -> str:
    return f"{settings.train[file].paths(Path(settings.dir))[0]}:{line}" if settings.train else "train"


def tag_ids(tag: str | None, tokenizer: Tokenizer) -> list[int]:
    """The ids before a source that is translated into this language, for a model with several."""
    if tag is None:
        return []
    number = tokenizer.id_of(tag_piece(tag))
    if number is None:
        raise ConfigError(f"the tokenizer has no tag '{tag}'; add it to tags in [tokenizer] before learning it")
    return [number]


class _SideWriter:
    """Writes the rows of one language."""

    def __init__(self, folder: Path, name: str, tokenizer: Tokenizer, dropout: float) -> None:
        self._folder, self._name = folder, name
        self._encode = tokenizer.encode if name == "source" else tokenizer.encode_target
        self._vocab = tokenizer.vocab if name == "source" else tokenizer.vocab_target
        self._token_type: type[np.generic] = np.uint16 if self._vocab <= 1 << 16 else np.uint32
        self._end = tokenizer.end
        self.dropout = _subword_dropout(tokenizer, name, dropout) if dropout else None
        self._words: dict[str, tuple[int, int]] = {}  # word -> its code, and its number of tokens
        self._ids = _NumberWriter(folder / f"{name}.ids", np.uint32 if self.dropout else self._token_type)
        self.kinds = {
            f"{name}.ids": "uint32" if self.dropout else self._token_type.__name__,
            f"{name}_table.ids": self._token_type.__name__,
        }
        self._lengths = _NumberWriter(folder / f"{name}_lengths.raw", np.uint32)
        if self.dropout:
            self._tokenize = lru_cache(1 << 16)(self.dropout.tokenize)

    def __enter__(self) -> "_SideWriter":
        return self

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._ids.close()
        self._lengths.close()

    def codes(self, text: str) -> tuple[list[int], int]:
        """The codes to store for a text, and its number of tokens in the tokenizer's own segmentation."""
        if self.dropout is None:
            ids = self._encode(text)
            return ids, len(ids)
        codes: list[int] = []
        length = 0
        for word in self.dropout.split_words(text):
            known = self._words.get(word)
            if known is None and len(self._words) < MAX_WORDS and self.dropout.varies(word):
                known = self._words[word] = self._vocab + len(self._words), len(self._tokenize(word))
            if known is None:
                codes += self._tokenize(word)
                length += len(self._tokenize(word))
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
        if self.dropout:
            self._finish_table(self.dropout)

    def _finish_table(self, dropout: SubwordDropout) -> None:
        """Store the segmentations of every code: a token is its own, a word has the tokenizer's and the random ones."""
        lengths = [np.ones((self._vocab, dropout.variants + 1), np.uint16)]
        words = list(self._words)
        with _NumberWriter(self._folder / f"{self._name}_table.ids", self._token_type) as table:
            table.extend(np.repeat(np.arange(self._vocab), dropout.variants + 1))
            for start in range(0, len(words), WORDS_PER_PASS):
                segmented = dropout.segmentations(words[start : start + WORDS_PER_PASS])
                table.extend(segmented.ids)
                lengths.append(segmented.lengths.astype(np.uint16))
        flat = np.concatenate(lengths).reshape(-1)
        np.save(self._folder / f"{self._name}_table_lengths.npy", flat)
        np.save(self._folder / f"{self._name}_table_starts.npy", np.cumsum(flat, dtype=np.int64) - flat)


def _subword_dropout(tokenizer: Tokenizer, side: str, dropout: float) -> SubwordDropout:
    contents = tokenizer.contents
    content = contents.get("tokenizer.json") or contents.get(f"{side}_tokenizer.json")
    if content is None:
        raise ConfigError("dropout needs a tokenizer learned by regard; this one comes from elsewhere")
    return SubwordDropout(content, dropout)


class _NumberWriter:
    """Appends numbers to a file, in blocks."""

    def __init__(self, path: Path, kind: type[np.generic]) -> None:
        self._file, self._kind = create(path), kind
        self._buffer: list[Any] = []

    def __enter__(self) -> "_NumberWriter":
        return self

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def extend(self, numbers: Iterable[Any]) -> None:
        self._buffer.extend(numbers)
        if len(self._buffer) >= 1 << 16:
            self._write()

    def close(self) -> None:
        self._write()
        self._file.close()

    def _write(self) -> None:
        np.asarray(self._buffer, self._kind).tofile(self._file)
        self._buffer.clear()
