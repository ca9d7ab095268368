"""The source distribution has everything that the README and the Makefile need."""

import subprocess
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ADDED_BY_HATCH = {"pyproject.toml", ".gitignore"}
REPOSITORY_ONLY = {".ci"}


def test_the_source_distribution_has_every_file_and_folder_of_the_repository() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not in a git repository")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    tracked = {line.split("/")[0] for line in listed.splitlines()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = [
        pattern.removeprefix("/") for pattern in project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    ]
    missing = {name for name in tracked if not any(fnmatchcase(name, pattern) for pattern in patterns)}
    assert missing - ADDED_BY_HATCH - REPOSITORY_ONLY == set()
    for pattern in patterns:  # every pattern still names something
        assert any(fnmatchcase(name, pattern) for name in tracked), pattern
