"""The page of a translation, in a real browser."""

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import regard
from regard.documents.result import Word
from regard.explorer.page import translation_page

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--virtual-time-budget=3000"]


@pytest.fixture(scope="module")
def page() -> str:
    model = regard.load_translator().model
    found = model.translations(["I am </script> Tom."], to="de")[0][0]
    return translation_page(model, "I am </script> Tom.", found, [Word("Ich", 0.9), Word("<b>", 0.1)], "a test")


def test_the_page_is_self_contained(page: str) -> None:
    assert not re.search(r"""(?:src|href)\s*=|@import|url\(""", page)
    assert page.count("</script>") == 2, "a text cannot end the script"


@pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")
def test_the_page_draws_the_attention(page: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    command = [
        str(BROWSER),
        *FLAGS,
        f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom",
        str(tmp_path / "page.html"),
    ]
    drawn = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert '<h1 id="source">I am &lt;/script&gt; Tom.</h1>' in drawn
    words = re.findall(r'<span class="word"[^>]*>(.*?)</span>', drawn)
    assert [html.unescape(word) for word in words] == ["Ich", "<b>"]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", drawn, re.DOTALL)
    assert len(rows) > 3
    assert rows[1].count("<td") == rows[0].count("<th") - 1
    assert "<line" in drawn
    assert "cross-attention: translation to source" in drawn
