"""What happened, line by line: log.jsonl, and TensorBoard's files where it is installed."""

import json
import math
from pathlib import Path
from typing import Any

from regard.io import write_text

LOG = "log.jsonl"
Record = dict[str, Any]


class MetricsLog:
    """One JSON object a line, flushed: whatever kills the run, the story up to then is there."""

    def __init__(self, run: Path, update: int) -> None:
        """Go on after `update`: lines of updates that will be done again are dropped."""
        self._path = run / LOG
        kept = [record for record in read_log(run) if record.get("update", 0) <= update]
        write_text(self._path, "".join(json.dumps(record) + "\n" for record in kept))
        self._file = self._path.open("a", encoding="utf-8")
        self._board = _tensorboard(run, update)

    def write(self, record: Record) -> None:
        # JSON has no NaN; and only ASCII, so that a line is a line to everyone
        finite = {name: None if _is_odd(value) else value for name, value in record.items()}
        self._file.write(json.dumps(finite) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in record.items():
                if isinstance(value, float):
                    self._board.add_scalar(f"{record['kind']}/{name}", value, record["update"])

    def close(self) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_log(run: Path) -> list[Record]:
    """The lines of a run's log; a last line that was cut off by a kill is left out."""
    try:
        lines = (run / LOG).read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    records = []
    for line in lines:
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


def _is_odd(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _tensorboard(run: Path, update: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:  # it comes with the extra `plot`
        return None
    return SummaryWriter(str(run / "tensorboard"), purge_step=update + 1)
