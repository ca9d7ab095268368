"""A reader can follow one sentence, and one training batch, through the program without getting lost."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path, PurePosixPath

import pytest

WALKS = Path(__file__).parent.parent / "benchmarks" / "walks.py"
MAX_FILES, MAX_FOLDER_CHANGES, MAX_BATCH_FILES = 35, 15, 12


@pytest.fixture(scope="module")
def sentence() -> list[str]:
    """The files that `regard translate` visits, in order."""
    return walk("sentence")


def walk(what: str) -> list[str]:
    command = [sys.executable, str(WALKS), "--only", what, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    visited: list[str] = json.loads(done.stdout)[what]
    return visited


def test_the_walk_begins_at_main(sentence: list[str]) -> None:
    assert sentence[0] == "cli/main.py"
    assert "cli/translate.py" in sentence
    assert len(set(sentence)) == len(sentence)
    assert not {"cli/train.py", "errors.py"} & set(sentence), "not executed"


def test_the_walk_of_a_sentence_is_short(sentence: list[str]) -> None:
    folders = [PurePosixPath(path).parent for path in sentence]
    assert len(sentence) <= MAX_FILES
    assert sum(a != b for a, b in pairwise(folders)) <= MAX_FOLDER_CHANGES


def test_the_walk_of_a_batch_is_short() -> None:
    visited = walk("batch")
    assert visited[0] == "training/loop.py"
    assert len(visited) <= MAX_BATCH_FILES
