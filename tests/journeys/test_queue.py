"""Many lines, long lines, empty lines, wide beams."""

import resource

import pytest
from journeys_types import Folders, Run


@pytest.mark.parametrize("options", [[], ["--beam", "4"]], ids=["greedy", "beam"])
def test_ten_thousand_words_one_a_line(regard: Run, folders: Folders, options: list[str]) -> None:
    words = ["dog", "river", "account", "lunch"]
    first = regard(
        "translate", "--as-is", "-m", folders["translator"], *options, stdin="\n".join(words)
    ).stdout.splitlines()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = regard(
        "translate", "--as-is", "-m", folders["translator"], *options, stdin="\n".join(words * 2500)
    ).stdout.splitlines()
    assert lines == first * 2500
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


def test_empty_lines_stay_where_they_are(regard: Run, folders: Folders) -> None:
    one = regard("translate", "--as-is", "-m", folders["translator"], stdin="dog").stdout
    lines = regard("translate", "--as-is", "-m", folders["translator"], stdin="\n\ndog\n   \n\ndog\n\n").stdout
    assert lines == f"\n\n{one}\n\n{one}\n"


def test_a_line_of_ten_thousand_tokens_is_one_clear_line(regard: Run, folders: Folders) -> None:
    done = regard("translate", "--as-is", "-m", folders["translator"], stdin="dog\n" + "river " * 10_000, code=4)
    (message,) = done.stderr.splitlines()
    assert "line 2" in message
    assert "reads at most 40" in message


@pytest.mark.parametrize("beam", ["64", "65", "500"])
def test_a_beam_wider_than_the_vocabulary(regard: Run, folders: Folders, beam: str) -> None:
    options = ("--beam", beam, "--n-best", "3", "--max-tokens", "3")
    lines = regard(
        "translate", "--as-is", "-m", folders["translator"], *options, stdin="dog\nriver"
    ).stdout.splitlines()
    assert len(lines) == 6


@pytest.mark.parametrize("length", ["0", "-3"])
def test_a_length_below_one_is_one_clear_line(regard: Run, folders: Folders, length: str) -> None:
    done = regard("translate", "--as-is", "-m", folders["translator"], "--max-tokens", length, stdin="dog", code=2)
    assert done.stderr == f"regard: --max-tokens must be at least 1, not {length}\n"
