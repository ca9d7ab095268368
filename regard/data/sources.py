"""Files -> pairs of texts, one at a time, for files of any size.

A line ends with a line feed, with or without a carriage return before it, and with nothing else. White space around a
text and a byte order mark at the start of a file are removed; the rest is unchanged. A bad line is an error that names
it, or is skipped and counted, as the settings say.
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

from regard.data.filter_counts import Stats
from regard.errors import ConfigError, InputError, one_line
from regard.plural import counted
from regard.text.placeholders import with_placeholders

MAX_LINE = 10_000_000
"""Characters. Reading takes four bytes of memory for each of the longest line that is allowed."""
GZIP = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, kw_only=True)
class Files:
    """An entry of [[data.train]]: two aligned files, or a file of tab-separated columns or JSON lines; gzip is fine."""

    source: str | None = None
    """One text per line; `target` has the translations, line by line."""
    target: str | None = None
    tsv: str | None = None
    """Tab-separated columns; quotation marks have no meaning."""
    columns: tuple[int, ...] = (1, 2)
    """tsv: the columns of source and target, from 1."""
    jsonl: str | None = None
    """One JSON object per line."""
    keys: tuple[str, ...] = ("source", "target")
    """jsonl: the keys of source and target."""
    weight: float = 1.0
    """How often an epoch uses each pair; with 0.5, one half now and the other half in the next epoch."""
    tag: str | None = None
    """The target language, for a model with several."""
    language: str | None = None
    """The source language; the files that [data.split] writes have it in their names."""

    def __post_init__(self) -> None:
        aligned = self.source is not None or self.target is not None
        if aligned + (self.tsv is not None) + (self.jsonl is not None) != 1:
            raise ConfigError("give either source and target, or tsv, or jsonl")
        if aligned and (self.source is None or self.target is None):
            raise ConfigError("source and target must be given together")
        if len(self.columns) != 2 or min(self.columns) < 1:
            raise ConfigError(f"columns must be two numbers >= 1, not {list(self.columns)}")
        if len(self.keys) != 2:
            raise ConfigError(f"keys must be two names, not {list(self.keys)}")
        if not 0 < self.weight <= 1000:
            raise ConfigError(f"weight must be more than 0 and at most 1000, not {self.weight}")

    def paths(self, folder: Path) -> list[Path]:
        return [folder / name for name in (self.source, self.target, self.tsv, self.jsonl) if name is not None]


@dataclass(frozen=True, kw_only=True)
class Split:
    """[data.split]: fractions of the training pairs for validation and test, see split.py."""

    column: int = 1
    """The column of every file whose distinct sentences are split."""
    valid: float = 0.005
    test: float = 0.01

    def __post_init__(self) -> None:
        if not (self.valid > 0 and self.test > 0 and self.valid + self.test < 1):
            raise ConfigError(f"valid and test must be fractions with a sum below 1, not {self.valid} and {self.test}")


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """[data] of a recipe: where the pairs are, and which of them are used."""

    dir: str = "."
    """The folder of the files."""
    train: tuple[Files, ...] = ()
    valid: tuple[Files, ...] = ()
    split: Split | None = None
    """Without `valid`: the part of `train` to hold out; `train` must be tsv files then."""
    max_tokens: int = 256
    """Pairs with more tokens on a side are dropped; the end of the text and the tag count."""
    max_ratio: float | None = None
    """Pairs whose longer side has more than this many times the tokens of the shorter are dropped."""
    deduplicate: bool = True
    """Keep only the first of pairs with the same source, target and tag."""
    placeholders: float = 0.0
    """The fraction of training pairs in which names and numbers on both sides become placeholders, so that the model
    learns to copy them (regard/text/placeholders.py)."""
    bad_lines: Literal["error", "skip"] = "error"
    """A bad line: stop with an error that names it, or skip and count it."""
    longest_line: int = 100_000
    """Maximum characters of a line; a longer one is a bad line."""

    def __post_init__(self) -> None:
        if self.max_tokens < 2:
            raise ConfigError(f"max_tokens must be at least 2, not {self.max_tokens}")
        if self.max_ratio is not None and not self.max_ratio >= 1:
            raise ConfigError(f"max_ratio must be at least 1, not {self.max_ratio}")
        if not 0 <= self.placeholders <= 1:
            raise ConfigError(f"placeholders must be a fraction from 0 to 1, not {self.placeholders}")
        if not 1 <= self.longest_line <= MAX_LINE:
            raise ConfigError(f"longest_line must be from 1 to {MAX_LINE:,}, not {self.longest_line:,}")
        if self.split is not None:
            if self.valid:
                raise ConfigError("[data.split] makes the validation pairs; remove valid")
            if not all(entry.tsv and self.split.column in entry.columns for entry in self.train):
                raise ConfigError(f"[data.split] needs column {self.split.column} of tsv files in every entry of train")


class Pair(NamedTuple):
    source: str
    target: str
    tag: str | None
    file: int
    """Index of the entry in [[data.train]]."""
    line: int


class BadLine(NamedTuple):
    """Takes the place of a line that cannot be used."""

    reason: str
    """For the statistics: the same words for every such line."""
    detail: str


def read_pairs(files: Sequence[Files], settings: DataSettings, stats: Stats) -> Iterator[Pair]:
    """The pairs in the order of the files; dropped ones are counted in `stats`."""
    for number, entry in enumerate(files):
        lines = 0
        for line, (where, found) in enumerate(_pairs(entry, settings), 1):
            lines = line
            stats.read += 1
            if isinstance(found, BadLine):
                if settings.bad_lines == "error":
                    raise InputError(f"{where}: {found.detail}; fix it, or set bad_lines = 'skip'")
                stats.drop(found.reason, where)
                continue
            source, target = (text.strip() for text in found)
            if not source or not target:
                stats.drop("empty", where)
                continue
            yield Pair(source, target, entry.tag, number, line)
        if not lines:
            path = entry.paths(Path(settings.dir))[0]
            if settings.bad_lines == "error":
                raise InputError(f"{path}: is empty; remove it from the recipe, or set bad_lines = 'skip'")
            stats.empty_files.append(str(path))


def training_pairs(settings: DataSettings, stats: Stats) -> Iterator[Pair]:
    """The pairs for training, some with placeholders."""
    for pair in read_pairs(settings.train, settings, stats):
        source, target = with_placeholders(pair.source, pair.target, settings.placeholders)
        yield pair._replace(source=source, target=target)


def validation_pairs(settings: DataSettings) -> tuple[list[Pair], Stats]:
    """The pairs for validation, as texts: only bad lines and empty ones are dropped."""
    stats = Stats()
    pairs = list(read_pairs(settings.valid, settings, stats))
    stats.kept = len(pairs)
    if settings.valid and not pairs:
        raise InputError(f"{settings.valid[0].paths(Path(settings.dir))[0]}: has no usable pair for validation")
    return pairs, stats


ParsedLine = tuple[str, Sequence[str] | BadLine]  # "file:line", and two texts or none


def _pairs(files: Files, settings: DataSettings) -> Iterator[ParsedLine]:
    folder, longest = Path(settings.dir), settings.longest_line
    if files.tsv is not None:
        path = folder / files.tsv
        for number, line in enumerate(_lines(path, longest), 1):
            yield f"{path}:{number}", line if isinstance(line, BadLine) else _columns(line, files.columns)
    elif files.jsonl is not None:
        path = folder / files.jsonl
        for number, line in enumerate(_lines(path, longest), 1):
            yield f"{path}:{number}", line if isinstance(line, BadLine) else _values(line, files.keys)
    else:
        assert files.source is not None
        assert files.target is not None
        yield from aligned_lines(folder / files.source, folder / files.target, longest)


def aligned_lines(source: Path, target: Path, longest: int) -> Iterator[ParsedLine]:
    counts = [0, 0]
    for left, right in zip_longest(_lines(source, longest), _lines(target, longest)):
        counts[0] += left is not None
        counts[1] += right is not None
        if left is None or right is None:
            continue  # read on to the end of the longer file: the message has both counts
        bad = next(
            ((path, line) for path, line in ((source, left), (target, right)) if isinstance(line, BadLine)), None
        )
        if bad is not None:
            yield f"{bad[0]}:{counts[0]}", bad[1]
        else:
            yield f"{source}:{counts[0]}", (cast(str, left), cast(str, right))
    if counts[0] != counts[1]:  # the alignment is unknown, so this is never skipped
        raise InputError(
            f"{source}: has {counted(counts[0], 'line')}, but {target} has {counts[1]:,}: "
            f"line {min(counts) + 1:,} has no partner; the files must be aligned line by line"
        )


def _columns(line: str, columns: Sequence[int]) -> Sequence[str] | BadLine:
    if not line.strip():
        return "", ""
    found = line.split("\t")
    if len(found) < max(columns):
        return BadLine(
            "missing column",
            f"has {counted(len(found), 'column')} separated by tabs, but column {max(columns)} is needed",
        )
    return [found[column - 1] for column in columns]


def _values(line: str, keys: Sequence[str]) -> Sequence[str] | BadLine:
    if not line.strip():
        return "", ""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        return BadLine("not JSON", f"is not valid JSON ({one_line(error)})")
    if not isinstance(found, dict):
        return BadLine("not JSON", f"must hold a JSON object, not a {type(found).__name__}")
    for key in keys:
        if key not in found:
            return BadLine("missing key", f"has no key '{key}'")
        if not isinstance(found[key], str):
            return BadLine("missing key", f"the value of '{key}' must be a string")
        try:
            found[key].encode("utf-8")
        except UnicodeEncodeError:
            return BadLine("not UTF-8", f"the value of '{key}' has a lone surrogate, which is not a character")
    return [found[key] for key in keys]


def _lines(path: Path, longest: int) -> Iterator[str | BadLine]:
    """Hold at most one line in memory, and of a too long line only as much as is allowed."""
    max_bytes = 4 * longest + 8  # four per character, a byte order mark, the line end
    number = 0
    try:
        with _open(path) as file:
            while raw := file.readline(max_bytes):
                number += 1
                too_many = len(raw) == max_bytes and not raw.endswith(b"\n")
                while too_many and (rest := file.readline(max_bytes)) and not rest.endswith(b"\n"):
                    pass
                if number == 1:
                    raw = raw.removeprefix(BOM)
                too_long = BadLine("longer than longest_line", f"has more than {longest:,} characters (longest_line)")
                yield too_long if too_many else _text(raw, longest, too_long)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        # what was decompressed just before the damage is lost too: it can be some thousand lines
        raise InputError(
            f"{path}:{number + 1}: the gzip file is truncated or damaged, here or further on ({error})"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None


def _text(raw: bytes, longest: int, too_long: BadLine) -> str | BadLine:
    try:
        text = raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        return BadLine("not UTF-8", f"is not UTF-8 (byte {error.start + 1} of the line)")
    return text if len(text) <= longest else too_long


def _open(path: Path) -> BinaryIO:
    """Open a plain or a gzip file, recognized by its first bytes."""
    plain = path.open("rb")
    try:
        if plain.peek(2)[:2] != GZIP:
            return plain
    except BaseException:
        plain.close()
        raise
    plain.close()
    return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, gzip.open(path)), 1 << 16))
