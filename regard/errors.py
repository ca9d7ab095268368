"""The errors that users can see, as one tree.

    RegardError                                                      exit  HTTP
    ├── UsageError      wrong arguments or options                      2   400
    │   └── TaskError   this model family does not have the task        2   400
    ├── ConfigError     an unknown setting, or a contradiction          3   400
    ├── InputError      the text or the ids cannot be used              4   400
    │   └── InputTooLong   more tokens than the model's context         4   413
    ├── ModelError      a model directory cannot be used                5   500
    │   ├── WeightsError   the tensors do not fit the model             5   500
    │   └── TokenizerError the tokenizer files are missing or broken    5   500
    ├── OutputError     a result cannot be written                      6   500
    ├── TrainingError   training cannot continue                        7   500
    └── RequestError    a scheduler gave a request up                   8   500
        ├── OutOfMemory        its search needs more memory         8   503
        ├── QueueFull          too many requests are waiting            8   503
        ├── DeadlineExceeded   it took longer than it may               8   504
        └── Cancelled          its submitter cancelled it               8   499

Each message is one line: what is wrong and where, what was expected, what to do. It may quote a file of a stranger:
control characters are escaped, and of a long message the middle is left out.
Bugs are `assert`s, not part of this tree.
"""

import re

MAX_MESSAGE = 1000
"""Characters."""
CONTROL = "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
"""What moves the cursor, ends a line, reverses the reading order, or does not stand for a character."""


def printable(text: str, most: int = MAX_MESSAGE) -> str:
    """Text that is safe to show in a terminal: control characters escaped, the middle of a long one left out."""
    if len(text) > most:
        text = f"{text[: most * 3 // 4]} … {text[-(most // 4) :]}"
    return re.sub(CONTROL, lambda found: ascii(found.group())[1:-1], text)


def one_line(error: BaseException) -> str:
    """The message of another library's error, to quote in one of ours: on one line, and not longer than it."""
    return " ".join(str(error).split())[:200] or type(error).__name__


class RegardError(Exception):
    """The root of all errors that regard raises on purpose."""

    exit_code = 1
    http_status = 500

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class UsageError(RegardError):
    """Wrong arguments or options."""

    exit_code = 2
    http_status = 400


class TaskError(UsageError):
    """This model family does not have the task."""


class ConfigError(RegardError):
    """A setting is unknown, out of range, or contradicts another."""

    exit_code = 3
    http_status = 400


class InputError(RegardError):
    """The text, the ids or the image cannot be used."""

    exit_code = 4
    http_status = 400
    index: int | None = None
    """Index of the text, if there were several."""


class InputTooLong(InputError):
    """More tokens than the model's context."""

    http_status = 413


class ModelError(RegardError):
    """A model directory is missing, incomplete or broken."""

    exit_code = 5


class WeightsError(ModelError):
    """The tensors on disk do not fit the model."""


class TokenizerError(ModelError):
    """The tokenizer's files are missing or broken."""


class OutputError(RegardError):
    """A result cannot be written."""

    exit_code = 6


class TrainingError(RegardError):
    """Training cannot continue: the loss is not finite, a process is lost, no checkpoint to resume from."""

    exit_code = 7


class RequestError(RegardError):
    """A scheduler gave a request up."""

    exit_code = 8


class OutOfMemory(RequestError, MemoryError):
    """The search needs more memory than there is."""

    http_status = 503


class QueueFull(RequestError):
    """Too many requests are waiting."""

    http_status = 503


class DeadlineExceeded(RequestError):
    """The request took longer than it may."""

    http_status = 504


class Cancelled(RequestError):
    """The request was cancelled."""

    http_status = 499
