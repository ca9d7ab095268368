"""Files -> pairs of texts, one at a time, however large the files.

A line ends with a line feed, with or without a carriage return before it, and nothing else ends one. White space
around a text and a byte order mark at the start of a file are taken off; all else is left as it is. A line that
cannot be used is an error that names it, or is skipped and counted, as the settings say.
"""

import gzip
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast

from regard.data.stats import Stats
from regard.errors import ConfigError, InputError
from regard.plural import counted
from regard.text.placeholders import with_placeholders

GZIP = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, kw_only=True)
class Files:
    """Pairs of texts: two aligned files, or a file of tab-separated columns, or of JSON lines. Any may be gzipped."""

    source: str | None = None
    """A text a line; `target` has its translations, line by line."""
    target: str | None = None
    tsv: str | None = None
    """Columns between tabs; quotation marks mean nothing."""
    columns: tuple[int, ...] = (1, 2)
    """tsv: the columns of source and target, counted from 1."""
    jsonl: str | None = None
    """A JSON object a line."""
    keys: tuple[str, ...] = ("source", "target")
    """jsonl: the keys of source and target."""
    weight: float = 1.0
    """How often each pair is drawn in an epoch; 0.5 draws one half, and the other half in the next."""
    tag: str | None = None
    """The target language, of a model that has several."""
    language: str | None = None
    """The source language; what is split off has it in its name."""

    def __post_init__(self) -> None:
        aligned = self.source is not None or self.target is not None
        if aligned + (self.tsv is not None) + (self.jsonl is not None) != 1:
            raise ConfigError("name either source and target, or tsv, or jsonl")
        if aligned and (self.source is None or self.target is None):
            raise ConfigError("source and target go together")
        if len(self.columns) != 2 or min(self.columns) < 1:
            raise ConfigError(f"columns must be two numbers from 1 on, not {list(self.columns)}")
        if len(self.keys) != 2:
            raise ConfigError(f"keys must be two names, not {list(self.keys)}")
        if not 0 < self.weight <= 1000:
            raise ConfigError(f"weight must be above 0 and at most 1000, not {self.weight}")

    def paths(self, folder: Path) -> list[Path]:
        return [folder / name for name in (self.source, self.target, self.tsv, self.jsonl) if name is not None]


@dataclass(frozen=True, kw_only=True)
class Split:
    """Shares of the training pairs that are kept for validation and for a test, see split.py."""

    column: int = 1
    """The column of every file whose distinct sentences are divided."""
    valid: float = 0.005
    test: float = 0.01

    def __post_init__(self) -> None:
        if not (self.valid > 0 and self.test > 0 and self.valid + self.test < 1):
            raise ConfigError(f"valid and test must be shares of all sentences, not {self.valid} and {self.test}")


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Where the pairs are, and which of them are used."""

    dir: str = "."
    """Where the files are."""
    train: tuple[Files, ...] = ()
    valid: tuple[Files, ...] = ()
    split: Split | None = None
    """Where there is no `valid`: what is kept of `train`, which must be of tsv files then."""
    max_tokens: int = 256
    """Pairs with a side of more tokens are dropped; the end of the text and the tag count."""
    max_ratio: float | None = None
    """Pairs whose longer side has more than so many times the tokens of the shorter are dropped."""
    deduplicate: bool = True
    """Of pairs with the same source, target and tag, only the first is kept."""
    placeholders: float = 0.0
    """A share of the training pairs in which names and numbers that both sides have become placeholders, so that the
    model learns to carry them over (regard/text/placeholders.py)."""
    bad_lines: Literal["error", "skip"] = "error"
    """What to do about a line that cannot be used: stop and name it, or go on and count it."""
    longest_line: int = 100_000
    """Characters of a line; a longer one cannot be used."""

    def __post_init__(self) -> None:
        if self.max_tokens < 2:
            raise ConfigError(f"max_tokens must be at least 2, not {self.max_tokens}")
        if self.max_ratio is not None and not self.max_ratio >= 1:
            raise ConfigError(f"max_ratio must be at least 1, not {self.max_ratio}")
        if not 0 <= self.placeholders <= 1:
            raise ConfigError(f"placeholders must be a share from 0 to 1, not {self.placeholders}")
        if self.longest_line < 1:
            raise ConfigError(f"longest_line must be at least 1, not {self.longest_line}")
        if self.split is not None:
            if self.valid:
                raise ConfigError("[data.split] makes the validation pairs; name no others")
            if not all(entry.tsv and self.split.column in entry.columns for entry in self.train):
                raise ConfigError(f"[data.split] needs column {self.split.column} of tsv files in every entry of train")
        if self.bad_lines not in ("error", "skip"):
            raise ConfigError(f"bad_lines must be one of error, skip, not '{self.bad_lines}'")


class Pair(NamedTuple):
    source: str
    target: str
    tag: str | None
    file: int
    """Which of the files, by number."""
    line: int


class Bad(NamedTuple):
    """What stands in for a line that cannot be used."""

    reason: str
    """For the account: the same words for every such line."""
    detail: str


def read(files: Sequence[Files], settings: DataSettings, account: Stats) -> Iterator[Pair]:
    """The pairs in the order of the files; what is dropped is entered in the account."""
    for number, entry in enumerate(files):
        lines = 0
        for line, (where, found) in enumerate(_pairs(entry, settings), 1):
            lines = line
            account.read += 1
            if isinstance(found, Bad):
                if settings.bad_lines == "error":
                    raise InputError(f"{where}: {found.detail}; mend it, or set bad_lines = 'skip'")
                account.drop(found.reason, where)
                continue
            source, target = (text.strip() for text in found)
            if not source or not target:
                account.drop("empty", where)
                continue
            yield Pair(source, target, entry.tag, number, line)
        if not lines:
            path = entry.paths(Path(settings.dir))[0]
            if settings.bad_lines == "error":
                raise InputError(f"{path}:1: is empty; remove it from the list, or set bad_lines = 'skip'")
            account.empty_files.append(str(path))


def training_pairs(settings: DataSettings, account: Stats) -> Iterator[Pair]:
    """The pairs as they are learnt from: some have placeholders."""
    for pair in read(settings.train, settings, account):
        source, target = with_placeholders(pair.source, pair.target, settings.placeholders)
        yield pair._replace(source=source, target=target)


def valid_pairs(settings: DataSettings) -> tuple[list[Pair], Stats]:
    """The pairs to validate with, as texts: nothing is dropped but what cannot be used."""
    account = Stats()
    pairs = list(read(settings.valid, settings, account))
    account.kept = len(pairs)
    if settings.valid and not pairs:
        raise InputError(f"{settings.valid[0].paths(Path(settings.dir))[0]}: no pair is left to validate with")
    return pairs, account


Found = tuple[str, Sequence[str] | Bad]  # where ("file:line"), and two texts or none


def _pairs(files: Files, settings: DataSettings) -> Iterator[Found]:
    folder, longest = Path(settings.dir), settings.longest_line
    if files.tsv is not None:
        path = folder / files.tsv
        for number, line in enumerate(_lines(path, longest), 1):
            yield f"{path}:{number}", line if isinstance(line, Bad) else _columns(line, files.columns)
    elif files.jsonl is not None:
        path = folder / files.jsonl
        for number, line in enumerate(_lines(path, longest), 1):
            yield f"{path}:{number}", line if isinstance(line, Bad) else _values(line, files.keys)
    else:
        assert files.source is not None
        assert files.target is not None
        yield from aligned_lines(folder / files.source, folder / files.target, longest)


def aligned_lines(source: Path, target: Path, longest: int) -> Iterator[Found]:
    counts = [0, 0]
    for left, right in zip_longest(_lines(source, longest), _lines(target, longest)):
        counts[0] += left is not None
        counts[1] += right is not None
        if left is None or right is None:
            continue  # to the end of the longer one: both counts go into the message
        bad = next(((path, line) for path, line in ((source, left), (target, right)) if isinstance(line, Bad)), None)
        if bad is not None:
            yield f"{bad[0]}:{counts[0]}", bad[1]
        else:
            yield f"{source}:{counts[0]}", (cast(str, left), cast(str, right))
    if counts[0] != counts[1]:  # no line can be trusted then, so this is never skipped
        raise InputError(
            f"{source}: has {counted(counts[0], 'line')}, but {target} has {counts[1]:,}: "
            f"line {min(counts) + 1:,} has no partner, and the two must be translations line by line"
        )


def _columns(line: str, columns: Sequence[int]) -> Sequence[str] | Bad:
    if not line.strip():
        return "", ""
    found = line.split("\t")
    if len(found) < max(columns):
        return Bad(
            "missing column",
            f"has {counted(len(found), 'column')} between tabs, but column {max(columns)} is asked for",
        )
    return [found[column - 1] for column in columns]


def _values(line: str, keys: Sequence[str]) -> Sequence[str] | Bad:
    if not line.strip():
        return "", ""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Bad("not JSON", f"is not valid JSON ({' '.join(str(error).split())})")
    if not isinstance(found, dict):
        return Bad("not JSON", f"must hold a JSON object, not a {type(found).__name__}")
    for key in keys:
        if key not in found:
            return Bad("missing key", f"has no key '{key}'")
        if not isinstance(found[key], str):
            return Bad("missing key", f"the value of '{key}' must be a text")
        try:
            found[key].encode("utf-8")
        except UnicodeEncodeError:
            return Bad("not UTF-8", f"the value of '{key}' has half of a surrogate pair, which is no character")
    return [found[key] for key in keys]


def _lines(path: Path, longest: int) -> Iterator[str | Bad]:
    """Never more than one line in memory, and never more of that than could be used."""
    most = 4 * longest + 8  # bytes: four a character, a byte order mark, the line's end
    number = 0
    try:
        with _open(path) as file:
            while raw := file.readline(most):
                number += 1
                cut = len(raw) == most and not raw.endswith(b"\n")
                while cut and (rest := file.readline(most)) and not rest.endswith(b"\n"):
                    pass
                if number == 1:
                    raw = raw.removeprefix(BOM)
                too_long = Bad("longer than a line may be", f"has more than {longest:,} characters (longest_line)")
                yield too_long if cut else _text(raw, longest, too_long)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        # what was unpacked ahead of the damage is lost with it, and may have been some thousand lines
        raise InputError(
            f"{path}:{number + 1}: the gzip file is cut short or damaged, here or some way on ({error})"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None


def _text(raw: bytes, longest: int, too_long: Bad) -> str | Bad:
    try:
        text = raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        return Bad("not UTF-8", f"is not UTF-8 (byte {error.start + 1} of the line)")
    return text if len(text) <= longest else too_long


def _open(path: Path) -> BinaryIO:
    """Gzip is told by its first bytes, whatever the name."""
    plain = path.open("rb")
    try:
        if plain.peek(2)[:2] != GZIP:
            return plain
    except BaseException:
        plain.close()
        raise
    plain.close()
    return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, gzip.open(path)), 1 << 16))
