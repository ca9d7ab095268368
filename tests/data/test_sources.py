"""Files of every kind, whole and broken: pairs come out, or an error that names file and line."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import from_table as read_settings
from regard.data.filter_counts import Stats
from regard.data.sources import DataSettings, Files, read_pairs, validation_pairs
from regard.errors import ConfigError, InputError

ROWS = [("one", "eins"), ("two words", "zwei Wörter"), ("drei\u2028\x0b\x85 3", "三")]
ALIGNED, TSV, JSONL = Files(source="s", target="t"), Files(tsv="f"), Files(jsonl="f")


def texts(folder: Path, files: Files, **more: Any) -> tuple[list[tuple[str, str]], Stats]:
    stats = Stats()
    found = list(read_pairs([files], DataSettings(dir=str(folder), **more), stats))
    assert stats.read == len(found) + sum(stats.dropped.values())
    return [(pair.source, pair.target) for pair in found], stats


def put(folder: Path, content: dict[str, bytes], pack: Callable[[bytes], bytes] = bytes) -> None:
    for name, raw in content.items():
        (folder / name).write_bytes(pack(raw))


def lines(values: list[str], end: str = "\n") -> bytes:
    return "".join(value + end for value in values).encode()


KINDS = {
    "aligned": (ALIGNED, {"s": lines([row[0] for row in ROWS]), "t": lines([row[1] for row in ROWS])}),
    "tsv": (TSV, {"f": lines(["\t".join((*row, "more")) for row in ROWS])}),
    "columns": (Files(tsv="f", columns=(3, 1)), {"f": lines([f"{b}\tx\t{a}" for a, b in ROWS])}),
    "jsonl": (JSONL, {"f": lines([json.dumps({"source": a, "target": b, "x": 1}) for a, b in ROWS])}),
    "keys": (Files(jsonl="f", keys=("en", "de")), {"f": lines([json.dumps({"de": b, "en": a}) for a, b in ROWS])}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_each_kind(kind: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    files, content = KINDS[kind]
    put(tmp_path, content, pack)
    assert texts(tmp_path, files)[0] == ROWS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw.replace(b"\n", b"\r\n"),
        lambda raw: b"\xef\xbb\xbf" + raw,
        lambda raw: raw.removesuffix(b"\n"),
        lambda raw: b"\xef\xbb\xbf" + raw.replace(b"\n", b" \r\n").removesuffix(b"\r\n"),
    ],
    ids=["CRLF", "BOM", "no last line feed", "all three"],
)
def test_line_ends_and_marks(kind: str, change: Callable[[bytes], bytes], tmp_path: Path) -> None:
    files, content = KINDS[kind]
    put(tmp_path, content, change)
    assert texts(tmp_path, files)[0] == ROWS


@settings(deadline=None, max_examples=60)
@given(rows=st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=5))
def test_json_lines_hold_any_text(rows: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "f").write_bytes(lines([json.dumps({"source": a, "target": b}) for a, b in rows]))
    kept = [(a.strip(), b.strip()) for a, b in rows if a.strip() and b.strip()]
    assert texts(folder, JSONL)[0] == kept


BAD = {  # content, what the message says after the folder, and the reason in the stats
    "not UTF-8": (ALIGNED, {"s": b"a\nb\nc\n", "t": b"a\n\xff\xfe\nc\n"}, r"t:2: is not UTF-8 \(byte 1 ", "not UTF-8"),
    "a megabyte": (
        ALIGNED,
        {"s": b"a\n" + b"x" * 1_000_000 + b"\nc\n", "t": b"a\nb\nc\n"},
        r"s:2: has more than 100,000 characters",
        "longer than longest_line",
    ),
    "four bytes each": (
        ALIGNED,
        {"s": b"a\n" + "😀".encode() * 100_001 + b"\nc\n", "t": b"a\nb\nc\n"},
        r"s:2: has more than 100,000 characters",
        "longer than longest_line",
    ),
    "a column short": (TSV, {"f": b"a\tb\nonly one\nc\td\n"}, r"f:2: has 1 column .* column 2 ", "missing column"),
    "broken JSON": (
        JSONL,
        {"f": b'{"source":"a","target":"b"}\n{"source":\n{"source":"c","target":"d"}\n'},
        r"f:2: is not valid JSON \(",
        "not JSON",
    ),
    "a list": (
        JSONL,
        {"f": b'{"source":"a","target":"b"}\n[1]\n{"source":"c","target":"d"}\n'},
        r"f:2: must hold a JSON object, not a list",
        "not JSON",
    ),
    "deep JSON": (
        JSONL,
        {"f": b'{"source":"a","target":"b"}\n' + b"[" * 90_000 + b'\n{"source":"c","target":"d"}\n'},
        r"f:2: is not valid JSON \(",
        "not JSON",
    ),
    "a key short": (
        JSONL,
        {"f": b'{"source":"a","target":"b"}\n{"source":"x"}\n{"source":"c","target":"d"}\n'},
        r"f:2: has no key 'target'",
        "missing key",
    ),
    "a number": (
        JSONL,
        {"f": b'{"source":"a","target":"b"}\n{"source":"x","target":3}\n{"source":"c","target":"d"}\n'},
        r"f:2: the value of 'target' must be a string",
        "missing key",
    ),
    "a lone surrogate": (
        JSONL,
        {"f": b'{"source":"a","target":"b"}\n{"source":"x","target":"\\ud800"}\n{"source":"c","target":"d"}\n'},
        r"f:2: the value of 'target' has a lone surrogate",
        "not UTF-8",
    ),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_bad_line_is_named_or_skipped(kind: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    files, content, message, reason = BAD[kind]
    put(tmp_path, content, pack)
    with pytest.raises(InputError, match=rf"^{tmp_path}/{message}[^\n]*; fix it, or set bad_lines = 'skip'$"):
        texts(tmp_path, files)
    found, stats = texts(tmp_path, files, bad_lines="skip")
    assert [pair[0] for pair in found] == ["a", "c"]
    assert stats.dropped == {reason: 1}
    assert stats.first[reason].endswith(":2")


@pytest.mark.parametrize("how", ["error", "skip"])
@pytest.mark.parametrize(("left", "right"), [(3, 5), (5, 3), (1, 1002)])
def test_unequal_counts(left: int, right: int, how: Any, tmp_path: Path) -> None:
    put(tmp_path, {"s": b"x\n" * left, "t": b"y\n" * right})
    count = "1 line" if left == 1 else f"{left} lines"
    message = rf"^{tmp_path}/s: has {count}, but {tmp_path}/t has {right:,}: line {min(left, right) + 1:,} "
    with pytest.raises(InputError, match=message):
        texts(tmp_path, ALIGNED, bad_lines=how)


@pytest.mark.parametrize("files", [ALIGNED, TSV, JSONL])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_an_empty_file(files: Files, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    put(tmp_path, {"s": b"", "t": b"", "f": b""}, pack)
    with pytest.raises(InputError, match=r": is empty; remove it from the recipe, or set bad_lines = 'skip'$"):
        texts(tmp_path, files)
    found, stats = texts(tmp_path, files, bad_lines="skip")
    assert found == []
    assert stats.lines()[1].endswith(" is empty")


def test_empty_lines_are_counted(tmp_path: Path) -> None:
    put(tmp_path, {"s": b"a\n\n  \nd\n", "t": b"a\nb\nc\n\t\n", "f": b'\n{"source":"a","target":"b"}\n'})
    found, stats = texts(tmp_path, ALIGNED)
    assert (found, stats.dropped) == ([("a", "a")], {"empty": 3})
    assert stats.first == {"empty": f"{tmp_path}/s:2"}
    assert texts(tmp_path, JSONL)[0] == [("a", "b")]


@pytest.mark.parametrize("how", ["error", "skip"])
@pytest.mark.parametrize("damage", [lambda raw: raw[:-20], lambda raw: raw[:200] + b"\0" * 50 + raw[250:]])
def test_a_damaged_gzip_file(how: Any, damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    rows = lines([f"{i * 7919}\t{i * 104729}" for i in range(2000)])
    (tmp_path / "f").write_bytes(damage(gzip.compress(rows)))
    said = rf"^{tmp_path}/f:\d+: the gzip file is truncated or damaged, here or further on \([^\n]*\)$"
    with pytest.raises(InputError, match=said):
        texts(tmp_path, TSV, bad_lines=how)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"^{tmp_path}/f: cannot be read \(No such file or directory\)$"):
        texts(tmp_path, TSV)
    (tmp_path / "f").mkdir()
    with pytest.raises(InputError, match=rf"^{tmp_path}/f: cannot be read \(Is a directory\)$"):
        texts(tmp_path, TSV)


def test_a_line_without_end_does_not_fill_memory(tmp_path: Path) -> None:
    import tracemalloc

    (tmp_path / "f").write_bytes(gzip.compress(b"x" * 50_000_000 + b"\ta\nb\tc\n", 1))
    tracemalloc.start()
    found, stats = texts(tmp_path, TSV, bad_lines="skip")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found, stats.read) == ([("b", "c")], 2)
    assert peak < 3_000_000


def test_validation_pairs_keep_their_texts(tmp_path: Path) -> None:
    put(tmp_path, KINDS["aligned"][1])
    settings = DataSettings(dir=str(tmp_path), valid=(Files(source="s", target="t", tag="de"), ALIGNED))
    found, stats = validation_pairs(settings)
    assert [(pair.source, pair.target) for pair in found] == ROWS * 2
    assert [(pair.tag, pair.file, pair.line) for pair in found[2:4]] == [("de", 0, 3), (None, 1, 1)]
    assert stats.lines() == ["6 pairs read, 6 kept"]
    put(tmp_path, {"s": b"\n", "t": b"\n"})
    with pytest.raises(InputError, match="no usable pair for validation"):
        validation_pairs(settings)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"train": [{}]}, r"'train'\[0\]: give either source and target, or tsv, or jsonl"),
        ({"train": [{"tsv": "a", "jsonl": "b"}]}, "give either"),
        ({"train": [{"source": "a"}]}, "source and target must be given together"),
        ({"train": [{"tsv": "a", "columns": [0, 1]}]}, "columns must be two numbers >= 1"),
        ({"train": [{"tsv": "a", "columns": [1]}]}, "columns must be two numbers"),
        ({"train": [{"jsonl": "a", "keys": ["x"]}]}, "keys must be two names"),
        ({"train": [{"tsv": "a", "weight": 0}]}, "weight must be more than 0"),
        ({"train": [{"tsv": "a", "weigth": 2}]}, "did you mean 'weight'"),
        ({"max_tokens": 1}, "max_tokens must be at least 2"),
        ({"max_ratio": 0.5}, "max_ratio must be at least 1"),
        ({"longest_line": 0}, "longest_line must be at least 1"),
        ({"bad_lines": "ignore"}, "must be one of error, skip"),
    ],
)
def test_settings_that_cannot_be(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^recipe: .*{message}"):
        read_settings(DataSettings, raw, "recipe")
