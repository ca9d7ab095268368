"""A failing case -> a smaller one that fails alike, with a bounded number of tries."""

import dataclasses
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from fuzz.case import Case, Content
from fuzz.workers import Kind, distinct, outcomes

MOST_SECONDS = 8.0


def minimised(kind: Kind, case: Case, symptom: str, folder: Path) -> tuple[Case, bool]:
    """The smallest case found, and whether it fails alone, without the cases that ran before it in its child."""
    if not _fails(kind, case, symptom, folder):
        return case, False
    end = time.monotonic() + MOST_SECONDS
    smaller = True
    while smaller:
        smaller = False
        for candidate in _candidates(case):
            if time.monotonic() > end:
                return case, True
            if _fails(kind, candidate, symptom, folder):
                case, smaller = candidate, True
                break
    return case, True


def _fails(kind: Kind, case: Case, symptom: str, folder: Path) -> bool:
    (outcome,) = outcomes(kind, lambda number: case, iter([range(1)]), folder, 1)
    return distinct(outcome.wrong) == symptom


def _candidates(case: Case) -> Iterator[Case]:
    """Without one of the files; with a part of one file removed, large parts first."""
    if len(case.files) > 1:
        for name in case.files:
            yield _with(case, {key: content for key, content in case.files.items() if key != name})
    for name, content in case.files.items():
        if isinstance(content, bytes):
            size = len(content) // 2
            while size:
                for start in range(0, len(content), size):
                    yield _with(case, {**case.files, name: content[:start] + content[start + size :]})
                size //= 2


def _with(case: Case, files: Mapping[str, Content]) -> Case:
    return dataclasses.replace(case, files=files)
