"""Help texts, shell completion, and how arguments are told from options."""

import os
import re
import subprocess
import sys
from dataclasses import fields

import pytest
from journeys_types import Folders, Run

from regard.cli.main import VERBS
from regard.cli.options import SEARCH_OPTIONS
from regard.decoding.settings import SearchSettings

LIST = "- Buy milk"


def complete(*words: str) -> tuple[list[str], str]:
    """Complete the last word as bash does -> the completions, stderr. Fails if torch is imported."""
    program = (
        "import sys\n"
        "from regard.cli.main import main\n"
        "try:\n"
        "    main([])\n"
        "finally:\n"
        "    assert 'torch' not in sys.modules\n"
    )
    line = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_REGARD_COMPLETE": "bash_complete"}
    done = subprocess.run([sys.executable, "-c", program], env=os.environ | line, capture_output=True, text=True)
    return [item.partition(",")[2] for item in done.stdout.splitlines() if item], done.stderr


def test_help_is_a_verb(regard: Run) -> None:
    assert regard("help").stdout == regard("--help").stdout == regard().stdout
    for verb in VERBS:
        assert regard("help", verb).stdout == regard(verb, "--help").stdout
    assert "did you mean 'translate'?" in regard("help", "translte", code=2).stderr


def test_every_verb_is_listed_with_its_options(regard: Run) -> None:
    shown = regard("help").stdout
    assert all(f"  {verb} " in shown for verb in VERBS)
    shown = regard("help", "generate").stdout
    assert shown.index("Options:") < shown.index("--model") < shown.index("Search (") < shown.index("--beam")


def test_every_search_setting_is_an_option() -> None:
    internal = {"boost"}
    assert set(SEARCH_OPTIONS) == {field.name for field in fields(SearchSettings)} - internal


# ---- texts that begin with a dash ----


def test_a_text_may_begin_with_a_dash(regard: Run, folders: Folders) -> None:
    translator = ("--as-is", "-m", folders["translator"])
    expected = regard("translate", *translator, stdin=f"I ate.\n{LIST}\n").stdout
    assert regard("translate", "I ate.", LIST, *translator).stdout == expected
    assert regard("translate", *translator, "I ate.", LIST).stdout == expected
    assert regard("translate", *translator, "I ate.", "--", LIST).stdout == expected
    model = ("-m", folders["writer"], "--max-tokens", "3")
    assert regard("generate", LIST, *model).stdout.startswith(LIST)
    assert regard("generate", *model, "--", "--beam").stdout.startswith("--beam")


@pytest.mark.parametrize("text", [LIST, "-5 degrees", "--- a line ---", "--> there = here", "-[MASK]"])
def test_what_is_not_an_option_is_a_text(regard: Run, folders: Folders, text: str) -> None:
    assert regard("embed", text, "-m", folders["reader"]).stdout.startswith("[")
    assert regard("classify", text, "-m", folders["judge"]).stdout
    assert regard("trace", text, "--top", "2", "-m", folders["judge"]).stdout
    assert regard("fill", f"{text} [MASK]", f"-m{folders['filler']}", "--top=2").stdout


def test_a_misspelt_option_is_an_error(regard: Run, folders: Folders) -> None:
    model = ("-m", folders["translator"])
    assert "--beam" in regard("translate", "I ate.", *model, "--beem", "4", code=2).stderr
    assert "--beam" in regard("translate", "I ate.", *model, "--beem=4", code=2).stderr
    assert "Put -- before a text" in regard("translate", "-x", *model, code=2).stderr
    assert "requires an argument" in regard("translate", "I ate.", "-m", code=2).stderr


# ---- completion ----


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_printed(regard: Run, shell: str) -> None:
    script = regard("completion", shell).stdout
    assert f"_REGARD_COMPLETE={shell}_complete" in script
    assert "regard" in script


def test_verbs_and_options_complete_without_torch() -> None:
    assert complete("regard", "tra") == (["translate", "translate-file", "train", "trace"], "")
    assert complete("regard", "") == (list(VERBS), "")
    found, errors = complete("regard", "translate", "--len")
    assert (found, errors) == (["--length-penalty", "--length-form"], "")
    assert complete("regard", "translate", "--length-form", "pa") == (["paper"], "")
    assert complete("regard", "nonsense", "x") == ([], "")


def test_bash_runs_the_script(regard: Run) -> None:
    check = "source /dev/stdin; complete -p regard"
    script = regard("completion", "bash").stdout
    done = subprocess.run(["bash", "-c", check], input=script, text=True, check=True, capture_output=True)
    assert re.search(r"-F \w+ regard", done.stdout)
