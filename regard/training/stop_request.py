"""Ctrl-C and SIGTERM as a wish that the loop looks at, not as an end in the middle of something."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Asked:
    """The signal that asked us to stop, if one did."""

    signal: int | None = None


@contextmanager
def asked_to_stop() -> Iterator[Asked]:
    """SIGINT and SIGTERM end the run after the update that is under way, with a checkpoint."""
    asked = Asked()

    def note(number: int, frame: FrameType | None) -> None:
        asked.signal = number

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
