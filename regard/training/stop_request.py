"""Ctrl-C, SIGTERM and SIGHUP as a request that the loop checks after every update, instead of an abrupt end."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
REPEAT_SECONDS = 1.0
"""Signals this close together are one request: torchrun passes on a Ctrl-C that its processes have received already."""


class StopRequest:
    """The signal that asked the run to stop, if any."""

    signal: int | None = None
    _repeats_from = 0.0
    """When a further signal is no longer the same request, on the monotonic clock."""

    def ask(self, number: int) -> None:
        if self.signal is None:
            self.signal, self._repeats_from = number, time.monotonic() + REPEAT_SECONDS
        elif time.monotonic() >= self._repeats_from:
            raise KeyboardInterrupt


@contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """Catch the signals: the run then finishes the current update, saves a checkpoint and stops.

    A second signal, at least a second later, stops it at once. Ignored signals, under nohup for example, stay
    ignored.
    """
    request = StopRequest()

    def record(number: int, frame: FrameType | None) -> None:
        request.ask(number)

    caught = [number for number in SIGNALS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, record) for number in caught}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
