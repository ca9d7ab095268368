"""Checks that what must survive a translation did."""

import re
from collections.abc import Sequence


def intact(source_kept: Sequence[str], text: str) -> bool:
    """Whether the text has each kept string at least as often as all kept strings together, in any order.

    Of "%s" and "%s)", the text must have "%s" twice: the one in "%s)" cannot stand for the other. A digit at the edge
    of a kept string must not touch another digit: "5" is not in "15", nor in "5" and "7" that became "57".
    """
    together = "".join(source_kept)
    border = next(chr(code) for code in range(0xE000, 0x110000) if chr(code) not in together)
    together = border.join(source_kept)
    for kept in set(source_kept) - {""}:
        before, after = (r"(?<!\d)" if kept[0].isdecimal() else ""), (r"(?!\d)" if kept[-1].isdecimal() else "")
        pattern = re.compile(before + re.escape(kept) + after)
        if len(pattern.findall(text)) < len(pattern.findall(together)):
            return False
    return True
