"""Pairs as tokens on disk: what is kept, what is dropped, when it is used again, and how words vary."""

import dataclasses
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from data_samples import pairs, tokenizer, write

from regard.data import token_cache
from regard.data.corpus import Corpus
from regard.data.sources import DataSettings, Files
from regard.data.token_cache import cached_corpus
from regard.errors import ConfigError, InputError, OutputError

TRAIN = Files(source="train.en", target="train.de")


def settings(folder: Path, *files: Files, **more: Any) -> DataSettings:
    return DataSettings(dir=str(folder), train=files or (TRAIN,), **more)


def rows_of(corpus: Corpus, seed: int = 1, epoch: int = 0) -> list[tuple[list[int], list[int]]]:
    sides = corpus.rows(np.arange(len(corpus)), seed, epoch)
    split = [[row.tolist() for row in np.split(side.flat, np.cumsum(side.lengths)[:-1])] for side in sides]
    return list(zip(*split, strict=True))


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_tokens_are_the_tokenizers(kind: str, joint: bool, tmp_path: Path) -> None:
    rows, own = pairs(50), tokenizer(kind, joint)
    write(tmp_path, rows)
    corpus = cached_corpus(settings(tmp_path), own, tmp_path / "cache")
    assert rows_of(corpus) == [(own.encode(a), own.encode_target(b)) for a, b in rows]
    lengths = corpus.lengths(1, 0)
    assert [(len(a), len(b)) for a, b in rows_of(corpus)] == list(
        zip(lengths.source.tolist(), lengths.target.tolist(), strict=True)
    )
    assert corpus.stats.lines() == ["50 pairs read, 50 kept"]
    assert (corpus.ends, corpus.lines.tolist()) == ([50], list(range(1, 51)))


def test_what_is_dropped_and_why(tmp_path: Path) -> None:
    rows = [*pairs(20), ("fish " * 80, "Fisch"), ("fish", "Fisch " * 20), ("", "x"), *pairs(20)[3:6], ("fish", "Fisch")]
    write(tmp_path, rows)
    corpus = cached_corpus(settings(tmp_path, max_tokens=60, max_ratio=4.0), tokenizer(), tmp_path / "cache")
    assert (corpus.stats.read, corpus.stats.kept, len(corpus)) == (27, 21, 21)
    assert corpus.stats.lines() == [
        "27 pairs read, 21 kept, 6 dropped:",
        f"  3 duplicate (first: {tmp_path}/train.en:24)",
        f"  1 empty (first: {tmp_path}/train.en:23)",
        f"  1 more than max_ratio (first: {tmp_path}/train.en:22)",
        f"  1 more than max_tokens (first: {tmp_path}/train.en:21)",
    ]
    assert corpus.lines[-1] == 27
    own = tokenizer()
    assert rows_of(corpus) == [(own.encode(a), own.encode(b)) for a, b in [*rows[:20], rows[-1]]]


def test_duplicates_may_stay(tmp_path: Path) -> None:
    write(tmp_path, pairs(5) * 2)
    assert len(cached_corpus(settings(tmp_path, deduplicate=False), tokenizer(), tmp_path / "cache")) == 10
    assert len(cached_corpus(settings(tmp_path), tokenizer(), tmp_path / "cache")) == 5


def test_only_what_is_wholly_alike_is_a_duplicate(tmp_path: Path) -> None:
    (tmp_path / "train.en").write_text("fish\nfish\nfish a\nfish\n")
    (tmp_path / "train.de").write_text("a book\nbook\nbook\na book\n")
    assert cached_corpus(settings(tmp_path), tokenizer(), tmp_path / "cache").lines.tolist() == [1, 2, 3]
    tagged = settings(tmp_path, TRAIN, dataclasses.replace(TRAIN, tag="de"))
    assert cached_corpus(tagged, tokenizer(), tmp_path / "cache").ends == [3, 6]


def test_repeated_digests_that_share_a_half() -> None:
    digests = np.array([[1, 1], [1, 2], [3, 3], [1, 1], [1, 2], [1, 1], [0, 1]], np.uint64)
    assert token_cache._repeated(digests).tolist() == [False, False, False, True, True, True, False]


def test_a_tag_stands_in_front_of_the_source(tmp_path: Path) -> None:
    write(tmp_path, pairs(6))
    write(tmp_path, pairs(9, seed=2), "more")
    files = [dataclasses.replace(TRAIN, tag="de"), Files(source="more.en", target="more.de")]
    corpus = cached_corpus(settings(tmp_path, *files), tokenizer(), tmp_path / "cache")
    tag = tokenizer().id_of(">>de<<")
    assert [row[0][0] == tag for row in rows_of(corpus)] == [True] * 6 + [False] * 9
    assert corpus.ends == [6, 15]
    with pytest.raises(ConfigError, match="the tokenizer has no tag 'fr'"):
        cached_corpus(settings(tmp_path, dataclasses.replace(TRAIN, tag="fr")), tokenizer(), tmp_path / "cache")


def test_the_same_content_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, pairs(20))
    first = rows_of(cached_corpus(settings(tmp_path), tokenizer(), tmp_path / "cache"))
    moved = tmp_path / "moved"
    moved.mkdir()
    write(moved, pairs(20))
    with monkeypatch.context() as patch:
        patch.setattr(token_cache, "_build", lambda *_: pytest.fail("was there already"))
        again = settings(moved, dataclasses.replace(TRAIN, weight=3.0))  # neither path nor weight is part of the key
        assert rows_of(cached_corpus(again, tokenizer(), tmp_path / "cache")) == first
    for change in ({"max_tokens": 30}, {"max_ratio": 2.0}, {"deduplicate": False}):
        cached_corpus(settings(tmp_path, **change), tokenizer(), tmp_path / "cache")
    cached_corpus(settings(tmp_path), tokenizer(), tmp_path / "cache", dropout=0.1)
    cached_corpus(settings(tmp_path), tokenizer("unigram"), tmp_path / "cache")
    write(tmp_path, pairs(21))
    assert len(cached_corpus(settings(tmp_path), tokenizer(), tmp_path / "cache")) == 21
    assert len(list((tmp_path / "cache").iterdir())) == 7


def test_a_damaged_cache_is_made_anew(tmp_path: Path) -> None:
    write(tmp_path, pairs(20))
    first = rows_of(cached_corpus(settings(tmp_path), tokenizer(), tmp_path / "cache"))
    (folder,) = (tmp_path / "cache").iterdir()
    for name in ("source.ids", "lines.npy", "about.json"):
        (folder / name).write_bytes((folder / name).read_bytes()[:-1])
        assert rows_of(cached_corpus(settings(tmp_path), tokenizer(), tmp_path / "cache")) == first
    (folder / "about.json").write_text("{}")
    assert rows_of(cached_corpus(settings(tmp_path), tokenizer(), tmp_path / "cache")) == first


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    write(tmp_path, pairs(20))
    with (tmp_path / "train.de").open("a") as file:
        file.write("one more\n")
    with pytest.raises(InputError, match=r"train\.en: has 20 lines, but .*train\.de has 21"):
        cached_corpus(settings(tmp_path), tokenizer(), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
    (tmp_path / "file").write_text("in the way")
    write(tmp_path, pairs(20))
    with pytest.raises(OutputError, match=r"file: the token cache cannot be written \([^\n]*\)$"):
        cached_corpus(settings(tmp_path), tokenizer(), tmp_path / "file")
    with pytest.raises(InputError, match=r"nowhere\.en: cannot be read"):
        cached_corpus(
            settings(tmp_path, Files(source="nowhere.en", target="train.de")), tokenizer(), tmp_path / "cache"
        )


def test_another_process_was_quicker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, pairs(20))
    cached_corpus(settings(tmp_path), tokenizer(), tmp_path / "cache")
    (theirs,) = (tmp_path / "cache").iterdir()
    shutil.move(theirs, tmp_path / "theirs")
    build = token_cache._build

    def slowly(*arguments: Any) -> None:
        build(*arguments)
        shutil.move(tmp_path / "theirs", theirs)

    monkeypatch.setattr(token_cache, "_build", slowly)
    assert len(cached_corpus(settings(tmp_path), tokenizer(), tmp_path / "cache")) == 20
    assert list((tmp_path / "cache").iterdir()) == [theirs]


def test_two_at_once_build_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one waits. It would build it too, and could remove what the first has made."""
    write(tmp_path, pairs(20))
    tokenizer()
    build, built, second_waits = token_cache._build, [], Event()

    def slowly(*arguments: Any) -> None:
        built.append(arguments)
        second_waits.wait(0.5)
        build(*arguments)

    monkeypatch.setattr(token_cache, "_build", slowly)
    with ThreadPoolExecutor(2) as both:
        cached = [both.submit(cached_corpus, settings(tmp_path), tokenizer(), tmp_path / "cache") for _ in range(2)]
        first, second = (rows_of(one.result()) for one in cached)
    assert first == second
    assert len(built) == 1


def test_nothing_is_left(tmp_path: Path) -> None:
    write(tmp_path, [("", "x"), ("y", "")])
    with pytest.raises(InputError, match=r"no pair is left for training \(2 pairs read, 0 kept, .*2 empty [^\n]*\)$"):
        cached_corpus(settings(tmp_path), tokenizer(), tmp_path / "cache")
    with pytest.raises(InputError, match="no pair is left for training"):
        cached_corpus(DataSettings(), tokenizer(), tmp_path / "cache")


def test_files_of_which_nothing_is_kept(tmp_path: Path) -> None:
    write(tmp_path, pairs(5))
    write(tmp_path, [("", "")], "none")
    none = Files(source="none.en", target="none.de")
    corpus = cached_corpus(settings(tmp_path, none, TRAIN, none), tokenizer(), tmp_path / "cache")
    assert corpus.ends == [0, 5, 5]


def test_the_report_comes_while_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "PAIRS_PER_REPORT", 10)
    write(tmp_path, pairs(25))
    seen: list[int] = []
    cached_corpus(settings(tmp_path), tokenizer(), tmp_path / "cache", report=lambda stats: seen.append(stats.read))
    assert seen == [10, 20, 25]


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_varied_rows_say_the_same(kind: str, joint: bool, tmp_path: Path) -> None:
    rows, own = pairs(60), tokenizer(kind, joint)
    write(tmp_path, rows)
    train = dataclasses.replace(TRAIN, tag="de")
    corpus = cached_corpus(settings(tmp_path, train), own, tmp_path / "cache", dropout=0.3)
    plain = [([own.id_of(">>de<<"), *own.encode(a)], own.encode_target(b)) for a, b in rows]
    seen = [rows_of(corpus, seed, epoch) for seed, epoch in [(1, 0), (1, 1), (2, 0)]]
    for varied in seen:
        assert [own.decode(target) for _, target in varied] == [target for _, target in rows]
        assert sum(len(target) for _, target in varied) > sum(len(target) for _, target in plain)
        assert all(source[0] == own.id_of(">>de<<") and source[-1] == own.end for source, _ in varied)
        assert [row[0] for row in varied] != [row[0] for row in plain]
    assert seen[0] != seen[1] != seen[2] != seen[0]
    assert rows_of(corpus, 1, 1) == seen[1]
    lengths = corpus.lengths(1, 1)
    assert lengths.source.tolist() == [len(source) for source, _ in seen[1]]
    assert lengths.target.tolist() == [len(target) for _, target in seen[1]]
    some = corpus.rows(np.array([7, 3]), 1, 1)[1]  # a row's cut does not depend on which others are asked for
    assert some.flat.tolist() == [*seen[1][7][1], *seen[1][3][1]]


def test_no_row_outgrows_max_tokens(tmp_path: Path) -> None:
    write(tmp_path, pairs(60))
    own = tokenizer()
    longest = max(len(own.encode(text)) for row in pairs(60) for text in row)
    corpus = cached_corpus(settings(tmp_path, max_tokens=longest), own, tmp_path / "cache", dropout=0.9)
    assert len(corpus) == 60
    for epoch in range(3):
        lengths = corpus.lengths(1, epoch)
        assert max(lengths.source.max(), lengths.target.max()) <= longest


def test_words_that_come_too_late_stay_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "MAX_WORDS", 0)
    write(tmp_path, pairs(30))
    own = tokenizer()
    corpus = cached_corpus(settings(tmp_path), own, tmp_path / "cache", dropout=0.9)
    assert rows_of(corpus) == [(own.encode(a), own.encode(b)) for a, b in pairs(30)]


def test_dropout_needs_a_tokenizer_of_ours(tmp_path: Path) -> None:
    write(tmp_path, pairs(5))
    raw = json.loads(tokenizer().contents["tokenizer.json"])
    raw["normalizer"] = None
    from regard.text.hf_tokenizer import HFTokenizer

    other = HFTokenizer({"tokenizer.json": json.dumps(raw).encode()}, tmp_path)
    assert len(cached_corpus(settings(tmp_path), other, tmp_path / "cache")) == 5
    with pytest.raises(ConfigError, match="dropout needs a tokenizer learned by regard"):
        cached_corpus(settings(tmp_path), other, tmp_path / "cache", dropout=0.1)
