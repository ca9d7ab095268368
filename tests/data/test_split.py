"""What is held out is not learnt from, on either side."""

import dataclasses
from pathlib import Path

import pytest

from regard.data.sources import DataSettings, Files, Split
from regard.data.split import letters, split_settings, write_split
from regard.errors import ConfigError, InputError

BOTH_WAYS = (
    Files(tsv="pairs.tsv", columns=(1, 2), language="en", tag="de"),
    Files(tsv="pairs.tsv", columns=(2, 1), language="de", tag="en"),
)


def divided(folder: Path, lines: list[str], split: Split) -> tuple[DataSettings, Path]:
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = DataSettings(dir=str(folder), train=BOTH_WAYS, split=split)
    parts = folder / "data"
    parts.mkdir()
    stats = write_split(settings, parts)
    assert stats.read == 2 * len(lines) == stats.kept + sum(stats.dropped.values())
    return settings, parts


def texts(parts: Path, name: str) -> list[str]:
    return (parts / name).read_text(encoding="utf-8").splitlines()


def test_no_sentence_of_the_test_is_learnt_from(tmp_path: Path) -> None:
    # a sentence has up to three translations, and a translation up to three sources
    lines = [f"Sentence {i // 3}.\tSatz {(i * 7) % 400}!" for i in range(1200)]
    _, parts = divided(tmp_path, lines, Split(valid=0.1, test=0.2))
    held = {
        letters(line)
        for file in parts.iterdir()
        if not file.name.startswith("train")
        for line in texts(parts, file.name)
    }
    learnt = {
        letters(line) for file in parts.iterdir() if file.name.startswith("train") for line in texts(parts, file.name)
    }
    assert held
    assert learnt
    assert not held & learnt
    english = texts(parts, "test.en-de.en")
    assert len(set(english)) == len(english), "each sentence once, with its first translation"
    assert 40 < len(english) < 130, "400 sentences, a fifth of them"
    assert texts(parts, "test.de-en.en") == english
    assert texts(parts, "test.de-en.de") == texts(parts, "test.en-de.de")


def test_the_same_sentence_in_other_clothes(tmp_path: Path) -> None:
    assert letters("I ate an apple!") == letters(" i ATE  an, apple ")
    lines = [f"Go {i}\tGeh {i}" for i in range(300)] + [f"GO, {i}!\tGehe {i}" for i in range(300)]
    _, parts = divided(tmp_path, lines, Split(valid=0.1, test=0.3))
    held = {letters(line) for line in texts(parts, "test.en-de.en")}
    assert held
    assert not held & {letters(line) for line in texts(parts, "train.en-de.en")}


def test_the_run_goes_on_with_the_parts(tmp_path: Path) -> None:
    settings, parts = divided(tmp_path, [f"A {i}\tB {i}" for i in range(500)], Split(valid=0.1, test=0.1))
    found = split_settings(settings, parts)
    assert found.split is None
    assert [entry.tag for entry in found.train] == ["de", "en"]
    assert [entry.source for entry in found.valid] == ["valid.en-de.en", "valid.de-en.de"]
    assert all(path.is_file() for entry in (*found.train, *found.valid) for path in entry.paths(Path(found.dir)))


def test_two_files_of_the_same_languages(tmp_path: Path) -> None:
    entries = tuple(Files(tsv=f"{name}.tsv", columns=(1, 2), language="en", tag="de") for name in "ab")
    for entry, count in zip(entries, (300, 200), strict=True):
        lines = [f"{entry.tsv} {i}\tS {entry.tsv} {i}" for i in range(count)]
        (tmp_path / str(entry.tsv)).write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "data").mkdir()
    settings = DataSettings(dir=str(tmp_path), train=entries, split=Split(valid=0.1, test=0.1))
    stats = write_split(settings, tmp_path / "data")
    written = [texts(tmp_path / "data", file.name) for file in (tmp_path / "data").glob("*.en")]
    assert sum(map(len, written)) == stats.kept == 500
    assert len({entry.source for entry in split_settings(settings, tmp_path / "data").train}) == 2


def test_a_part_without_pairs_is_an_error(tmp_path: Path) -> None:
    settings, parts = divided(tmp_path, ["A\tB"], Split(valid=0.01, test=0.01))
    with pytest.raises(InputError, match="no pair is left"):
        split_settings(settings, parts)


def test_what_cannot_be_split() -> None:
    with pytest.raises(ConfigError, match="fractions"):
        Split(valid=0.5, test=0.6)
    with pytest.raises(ConfigError, match="column 1 of tsv files"):
        DataSettings(train=(Files(source="a", target="b"),), split=Split())
    with pytest.raises(ConfigError, match="remove valid"):
        DataSettings(train=BOTH_WAYS, valid=BOTH_WAYS, split=Split())
    with pytest.raises(ConfigError, match="column 3"):
        dataclasses.replace(DataSettings(train=BOTH_WAYS, split=Split()), split=Split(column=3))
