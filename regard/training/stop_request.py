"""Ctrl-C and SIGTERM as a request that the loop checks after every update, instead of an abrupt end."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """The signal that asked the run to stop, if any."""

    signal: int | None = None


@contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """Catch SIGINT and SIGTERM: the run then finishes the current update, saves a checkpoint and stops."""
    request = StopRequest()

    def record(number: int, frame: FrameType | None) -> None:
        request.signal = number

    before = {number: signal.signal(number, record) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
