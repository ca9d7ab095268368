"""SECURITY.md says what the code does."""

import re
from importlib import import_module
from pathlib import Path

SECURITY = Path(__file__).parents[2] / "SECURITY.md"
ROW = re.compile(r"^\| .* \| ([\d,]+)( [kMG]B)? \| `([\w.]+)\.(\w+)` \|$", re.MULTILINE)
UNITS = {"": 1, " kB": 10**3, " MB": 10**6, " GB": 10**9}


def test_the_limits_are_those_of_the_code() -> None:
    text = SECURITY.read_text(encoding="utf-8")
    table = text[text.index("## Limits") : text.index("## How this is checked")]
    rows = ROW.findall(table)
    assert len(rows) == len(re.findall(r"^\|.*`regard\.", table, re.MULTILINE)) > 10
    for number, unit, module, name in rows:
        value = int(number.replace(",", "")) * UNITS[unit]
        assert getattr(import_module(module), name) == value, f"{module}.{name} is not {value:,}"
