"""Documents of every format, in every encoding; glossaries; pairs of texts to train with."""

import gzip
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, cast

from fuzz import mutate, samples
from fuzz.case import Case
from fuzz.document_samples import DOCUMENTS, FRAMES
from fuzz.regard_calls import Done, Failure, as_verb, nothing_left, regard
from fuzz.workers import Limits

if TYPE_CHECKING:
    from regard.documents.formats.files import Format
    from regard.documents.passage import Passage

PAIRS = ("lines", "columns", "jsonl")
WHOLE = 0.02
"""The share of cases that run all of translate-file. The others read, change each passage, and write."""
ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "windows-1252", "shift_jis", "utf-7", "cp037")
TEXTS: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    str.upper,
    lambda text: "",
    lambda text: text[::-1],
    lambda text: f"{text}\n{text}",
    lambda text: f"<&>\"'--> {text} ]]> \\ ` * | \t {{{{",
    lambda text: f"1\n00:00:01,000 --> 00:00:02,000\n{text}",
    lambda text: "x " * 200 + text,
)
"""What may become of a text. A model can write anything."""


class Documents:
    name = "documents"
    cases_per_child = 1000
    limits = Limits()

    def prepare(self, folder: Path) -> None:
        self.translator = samples.translator(folder)
        for format, (suffix, texts, _) in DOCUMENTS.items():
            for text in texts:
                for way in ("0", "whole"):
                    self.run(
                        Case(self.name, files={f"a{suffix}": text.encode()}, options=(format, way)), folder / "run"
                    )
                    shutil.rmtree(folder / "run")

    def make(self, luck: Random) -> Case:
        format = luck.choice(sorted(DOCUMENTS))
        suffix, texts, words = DOCUMENTS[format]
        way = luck.random()
        if way < 0.2:
            text = mutate.soup(luck, words)
        elif way < 0.5:
            first, *rest = luck.choice(FRAMES.get(format, ("…",))).split("…")
            text = first + "".join(mutate.soup(luck, words) + part for part in rest)
        else:
            text = luck.choice(texts)
            if luck.random() < 0.1:  # of two documents
                other = luck.choice(texts)
                text = text[: luck.randint(0, len(text))] + other[luck.randint(0, len(other)) :]
            text = mutate.mutated_text(luck, text, words)
        raw = text.encode("utf-8", "replace")
        if luck.random() < 0.06:
            raw = text.encode(luck.choice(ENCODINGS), "replace")
        if luck.random() < 0.06:
            raw = mutate.mutated_bytes(luck, raw)
        if format in PAIRS and luck.random() < 0.3:
            raw = gzip.compress(raw)
            raw = mutate.mutated_bytes(luck, raw) if luck.random() < 0.7 else raw
        done = "whole" if luck.random() < WHOLE else str(luck.randrange(len(TEXTS)))
        return Case(self.name, files={f"a{suffix}": raw}, options=(format, done))

    def run(self, case: Case, folder: Path) -> None:
        case.lay(folder / "in", None)
        (path,) = (folder / "in").iterdir()
        out = folder / f"out{path.suffix}"
        format, way = case.options
        with nothing_left(folder, out):
            done = self._whole(format, path, out) if way == "whole" else None
            if done is None:
                done = as_verb("translate-file", lambda: use(path, out, format, way))
        if (done.code == 0) != out.exists() and format not in (*PAIRS, "glossary"):
            raise Failure(f"exit {done.code}, but the output {'exists' if out.exists() else 'is missing'}")

    def _whole(self, format: str, path: Path, out: Path) -> Done | None:
        """The whole verb for such a file; None if there is none."""
        model = ("-m", self.translator, "--to", "de", "-o", out)
        if format == "glossary":
            return regard("translate", samples.TEXT, *model, "--glossary", path)
        if format == "lines":
            return regard("translate", "-i", path, *model)
        return None if format in PAIRS else regard("translate-file", path, *model, "--from", "en")


def use(path: Path, out: Path, format: str, way: str) -> None:
    """What translate-file does, with an instant translator."""
    from regard.documents.formats import files
    from regard.documents.glossary import Glossary
    from regard.errors import InputError

    if format == "glossary":
        Glossary.read(path).find("The light bulb of ACME, café's.")
        return
    if format in PAIRS:
        read(path, format)
        return
    change = TEXTS[int(way)]
    known = cast("Format", format)
    text, encoding = files.read_text(path, known)
    try:
        document = files.parse(text, known, source="en", target="de")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    for passage in document.passages:
        _check_marks(passage)
    files.write_text(out, document.render([translated(passage, change) for passage in document.passages]), encoding)


def read(path: Path, format: str) -> None:
    """What training and evaluation do with aligned files, tab-separated ones and JSON lines."""
    from regard.data.filter_counts import Stats
    from regard.data.sources import DataSettings, Files, read_pairs

    name = str(path)
    files = {
        "lines": Files(source=name, target=name),
        "columns": Files(tsv=name),
        "jsonl": Files(jsonl=name),
    }[format]
    for settings in (DataSettings(bad_lines="skip"), DataSettings()):
        for pair in read_pairs([files], settings, Stats()):
            assert pair.source.strip()


def translated(passage: "Passage", change: Callable[[str], str]) -> "Passage":
    """Another text, and the marks as near to their places as it has any."""
    text = change(passage.text)
    if text == passage.text:
        return passage
    marks = tuple(replace(mark, at=min(mark.at, len(text))) for mark in passage.marks)
    return replace(passage, text=text, marks=marks, fixed=())


def _check_marks(passage: "Passage") -> None:
    places = [mark.at for mark in passage.marks]
    if places != sorted(places) or (places and not 0 <= places[0] <= places[-1] <= len(passage.text)):
        raise Failure("translate-file: marks outside their passage, or out of order")


KIND = Documents()
