"""A kind whose cases go wrong in every way, run by test_workers.py in a process of its own."""

import json
import os
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from random import Random

from fuzz.case import Case
from fuzz.regard_calls import as_verb, nothing_left, regard
from fuzz.workers import Limits, outcomes


def leave(folder: Path) -> None:
    with nothing_left(folder):
        (folder / ".draft").write_text("half")


def abort() -> None:
    os.kill(os.getpid(), signal.SIGABRT)


def work() -> None:
    while True:
        pass


class Toy:
    name = "toy"
    cases_per_child = 20
    limits = Limits(seconds=0.5, idle_seconds=1.0, memory=200_000_000)

    def prepare(self, folder: Path) -> None:
        pass

    def make(self, luck: Random) -> Case:
        return Case(self.name)

    def run(self, case: Case, folder: Path) -> None:
        match case.options[0]:
            case "well":
                assert regard("help").code == 0
                assert regard("no-such-verb").code == 2
            case "abort":
                abort()
            case "working":
                work()
            case "waiting":
                time.sleep(60)
            case "memory":
                as_verb("toy", lambda: len(bytearray(500_000_000)))
            case "much":
                bytearray(50_000_000)
            case "bug":
                as_verb("toy", lambda: {}["key"])
            case "left":
                leave(folder)
            case "special":
                Case("toy", "", {"a": "fifo", "b": "link /dev/zero", "c": b"text"}).lay(folder / "in", None)
                assert (folder / "in" / "a").is_fifo()


if __name__ == "__main__":
    ways = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        cases = [Case("toy", options=(way,)) for way in ways]
        found = {
            ways[one.number]: asdict(one)
            for one in outcomes(Toy(), cases.__getitem__, iter([range(len(ways))]), Path(folder), 2)
        }
    json.dump(found, sys.stdout)
