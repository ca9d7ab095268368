"""Messages quote files of strangers, and stay one harmless line of bounded length."""

import copy

import pytest

from regard.errors import MAX_MESSAGE, ConfigError, InputTooLong, RegardError, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("key 'Größe' 😀 – fine", "key 'Größe' 😀 – fine"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("two\nlines\r\tand \x00", r"two\nlines\r\tand \x00"),
        ("\x7f \x9b31m", r"\x7f \x9b31m"),
        ("a\u2028b\u2029c", r"a\u2028b\u2029c"),
        ("\u202egpj.exe\u2066", r"\u202egpj.exe\u2066"),
        ("\udcff \ud800", r"\udcff \ud800"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(printable(text)) == shown
    assert str(ConfigError(text)) == shown


def test_a_long_message_keeps_its_beginning_and_its_end() -> None:
    message = str(InputTooLong(f"config.json: unknown key '{'x' * 5_000_000}'; remove it"))
    assert message.startswith("config.json: unknown key 'xxx")
    assert message.endswith("xxx'; remove it")
    assert " … " in message
    assert len(message) < MAX_MESSAGE + 10
    assert len(str(RegardError("\x1b" * 5_000_000))) < 5 * MAX_MESSAGE


def test_an_error_can_be_copied() -> None:
    again = copy.copy(ConfigError("a\x1bb"))  # as pickle does it
    assert (type(again), str(again)) == (ConfigError, r"a\x1bb")
