"""The outside surface: what is public, and how fast the door opens."""

import dataclasses
import importlib.metadata
import inspect
import re
import subprocess
import sys
import time
import typing
from collections.abc import Callable

import pytest

import regard
from regard.decoding.settings import SearchOptions, SearchSettings
from regard.tasks.translation import Translation, TranslationModel


def test_public_names() -> None:
    assert set(regard.__all__) <= set(dir(regard))
    for name in regard.__all__:
        assert getattr(regard, name).__name__ == name
        assert inspect.getdoc(getattr(regard, name)), f"{name} has no docstring"


def test_one_sentence_describes_the_package() -> None:
    description = importlib.metadata.metadata("regard")["Summary"]
    shown = " ".join(run("-m", "regard", "--help").stdout.split())
    assert (regard.__doc__ or "").splitlines()[0] == description
    assert description in shown


def test_one_line_translates() -> None:
    assert regard.translate("I am here.", to="de") == "Ich bin hier."
    assert regard.translate(["I am here."], to="fr") == ["Je suis ici."]


def test_the_box_loads_by_name() -> None:
    model = regard.load("box")
    assert repr(model) == "<TranslationModel 'box': seq2seq, translate>"
    assert model.translate("I am here.", to="de") == "Ich bin hier."


def test_help_of_load_teaches() -> None:
    text = inspect.getdoc(regard.load) or ""
    assert all(word in text for word in ("box", "device", "dtype", "Hugging Face", "TranslationModel", ">>> "))


def test_help_of_translations_says_what_it_returns() -> None:
    text = inspect.getdoc(TranslationModel.translations) or ""
    fields = [field.name for field in dataclasses.fields(Translation) if field.repr]
    assert all(word in text for word in ("to:", "align:", "Returns:", "best first", ">>> ", *fields))


def test_help_explains_every_search_setting() -> None:
    text = inspect.getdoc(SearchSettings) or ""
    for field in dataclasses.fields(SearchSettings):
        assert re.search(rf"^{field.name} +[A-Z]", text, re.MULTILINE), field.name


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: regard.load(7), "a model directory must be a path, not int"),  # type: ignore[arg-type]
        (lambda: regard.load(""), "the path of the model directory is empty"),
        (lambda: regard.load("box").translate(7, to="de"), "texts must be a list of strings, not int"),
        (lambda: regard.load("box").translate(["a", None], to="de"), "text 1 must be a string, not NoneType"),
        (lambda: regard.load("box").translate("Yes.", to="de", beams=4), "unknown key 'beams' - did you mean 'beam'"),
        (lambda: regard.load("box").translate("Yes.", to="de", beam="4"), "'beam' must be a whole number"),
        (lambda: regard.translate(7, to="de"), "texts must be a str or a list of str, not int"),  # type: ignore[call-overload]
    ],
)
def test_wrong_types_get_a_clear_error(call: Callable[[], object], said: str) -> None:
    with pytest.raises(regard.RegardError, match=re.escape(said)):
        call()


def test_the_typed_keywords_are_the_settings() -> None:
    """`SearchOptions` types the keywords of translate and generate: the same names and types as SearchSettings."""
    settings = {field.name: field.type for field in dataclasses.fields(SearchSettings)}
    options = typing.get_type_hints(SearchOptions)
    assert options.keys() == settings.keys()
    for name, hint in options.items():
        assert hint in (settings[name] | None, settings[name]), name


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
