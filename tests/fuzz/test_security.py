"""SECURITY.md says what the code does."""

import re
from importlib import import_module
from pathlib import Path

SECURITY = Path(__file__).parents[2] / "SECURITY.md"
ROW = re.compile(r"^\| .* \| ([\d,]+)( [KM]iB)? \| `([\w.]+)\.(\w+)` \|$", re.MULTILINE)
UNITS = {"": 1, " KiB": 1 << 10, " MiB": 1 << 20}


def test_the_limits_are_those_of_the_code() -> None:
    text = SECURITY.read_text(encoding="utf-8")
    table = text[text.index("## Limits") : text.index("## How this is checked")]
    rows = ROW.findall(table)
    assert len(rows) == len(re.findall(r"^\|.*`regard\.", table, re.MULTILINE)) > 10
    for number, unit, module, name in rows:
        value = int(number.replace(",", "")) * UNITS[unit]
        assert getattr(import_module(module), name) == value, f"{module}.{name} is not {value:,}"
