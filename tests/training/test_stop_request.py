"""Signals that ask a run to stop."""

import os
import signal

import pytest

from regard.training import stop_request
from regard.training.stop_request import stop_on_signal


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_signal_is_a_request_and_the_handlers_come_back(number: int) -> None:
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with stop_on_signal() as stop:
            os.kill(os.getpid(), number)
            assert stop.signal == number
            os.kill(os.getpid(), number)  # torchrun passes on what its processes have received already
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_a_second_signal_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_request, "REPEAT_SECONDS", 0.0)
    with stop_on_signal() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signal == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_request_of_another_worker_is_the_first_of_the_same_kind() -> None:
    with stop_on_signal() as stop:
        stop.ask(signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.signal == signal.SIGTERM


def test_nohup_is_respected() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signal() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.signal is None
    finally:
        signal.signal(signal.SIGHUP, before)
