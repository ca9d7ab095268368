"""The outside surface: what is public, and how fast the door opens."""

import subprocess
import sys
import time

import regard


def test_public_names() -> None:
    assert sorted(regard.__all__) == ["DocumentTranslator", "Model", "RegardError", "Trace", "load", "load_translator"]
    assert set(regard.__all__) <= set(dir(regard))
    for name in regard.__all__:
        assert getattr(regard, name).__name__ == name


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60)


def test_import_and_help_do_not_import_torch() -> None:
    program = (
        "import sys, regard\n"
        "from regard.cli.main import main\n"
        "for words in (['--help'], ['--version'], ['trace', '--help'], ['no-such-verb'], []):\n"
        "    main(words)\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    done = run("-c", program)
    assert done.returncode == 0, done.stderr


def test_help_answers_at_once() -> None:
    """Under 200 ms on an idle machine; the tests share theirs, so the best of several tries counts."""
    best = 1.0
    for _ in range(8):
        start = time.perf_counter()
        assert run("-m", "regard", "--help").returncode == 0
        best = min(best, time.perf_counter() - start)
    assert best < 0.2


def test_unknown_attribute() -> None:
    assert not hasattr(regard, "no_such_name")
