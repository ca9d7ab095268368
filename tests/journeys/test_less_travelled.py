"""Paths of the program that few users take, and its errors there."""

import gzip
from pathlib import Path

import pytest
from journeys_types import Folders, Run, error_line

import regard as package
from regard.cli.main import VERBS
from regard.tasks import LanguageModel, TranslationModel
from regard.weights.model_directory import SHORTLIST

ROOT = Path(__file__).parent.parent.parent
SAMPLE = ROOT / "recipes/sample"
RECIPE = """
[data]
train = [{ source = "train.en", target = "train.de" }]
[tokenizer]
vocab = 300
[model]
preset = "transformer-small"
[train]
updates = 1
"""


@pytest.mark.parametrize(
    ("error", "code", "expected"),
    [
        (KeyboardInterrupt(), 130, "stopped"),
        (OSError(28, "No space left on device"), 6, "the output: No space left on device"),
        (OSError(28, "No space left on device", "out.txt"), 6, "out.txt: No space left on device"),
        (
            ZeroDivisionError("one\ntwo"),
            70,
            "this is a bug in regard: ZeroDivisionError: one two (REGARD_DEBUG=1 prints",
        ),
    ],
)
def test_what_no_verb_expects(
    regard: Run, folders: Folders, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, expected: str
) -> None:
    def fail(*given: object) -> None:
        raise error

    monkeypatch.setattr("regard.cli.options.load", fail)
    monkeypatch.delenv("REGARD_DEBUG", raising=False)
    shown = regard("generate", "a", "-m", folders["writer"], code=code).stderr
    assert shown.strip().startswith(f"regard: {expected}")  # click begins a new line after ^C
    assert "Traceback" not in shown
    monkeypatch.setenv("REGARD_DEBUG", "1")
    shown = regard("generate", "a", "-m", folders["writer"], code=code).stderr
    assert ("Traceback" in shown) == (code == 70)


def test_a_shortlist_from_files(regard: Run, folders: Folders, tmp_path: Path) -> None:
    files = [SAMPLE / "valid.en", SAMPLE / "valid.de"]
    (source := tmp_path / "translator").mkdir()
    for path in folders["translator"].iterdir():
        (source / path.name).write_bytes(path.read_bytes())
    (source / "confidence.json").write_text("{}")
    regard("convert", source, "quick", "--int8", "--shortlist", *files)
    assert (tmp_path / "quick" / SHORTLIST).is_file()
    assert (tmp_path / "quick" / "confidence.json").read_text() == "{}"
    assert regard("translate", "--as-is", "I ate.", "-m", "quick").stdout
    done = regard("convert", folders["writer"], "no", "--shortlist", *files, code=2)
    assert error_line(done) == "regard: --shortlist is for translation models"
    assert not (tmp_path / "no").exists()


def test_a_new_shortlist_reaches_the_next_translation(folders: Folders) -> None:
    """The native model is built with the shortlist, so a new one replaces the native model."""
    model, plain = package.load(folders["translator"]), package.load(folders["translator"])
    assert isinstance(model, TranslationModel)
    assert isinstance(plain, TranslationModel)
    before = model.translate("I ate an apple.")
    model.learn_shortlist([("I ate an apple.", "I ate an apple.")])
    allowed = {*model.shortlist.frequent_F.tolist(), *model.shortlist.related_VC.ravel().tolist()}  # type: ignore[union-attr]
    (found,) = model.translations(["I ate an apple."])
    assert {*found[0].ids} <= allowed
    assert plain.translate("I ate an apple.") == before


def test_texts_as_they_are_generated(folders: Folders) -> None:
    """The pieces of a stream add up to the text, and no piece ends within a character."""
    model = package.load(folders["writer"])
    assert isinstance(model, LanguageModel)
    for prompt in ("I ate", "", "Ä"):
        whole = model.generate(prompt, max_tokens=12)
        pieces = list(model.stream(prompt, max_tokens=12))
        assert "".join(pieces) == whole
        assert not any(piece.endswith("\ufffd") for piece in pieces[:-1])


def test_several_new_texts(regard: Run, folders: Folders) -> None:
    lines = regard("generate", "-m", folders["writer"], "--n-best", "2", "--beam", "2", "--max-tokens", "4").stdout
    assert [line.split(" ||| ")[0] for line in lines.splitlines()] == ["1", "2"]


def test_alignments_of_several_translations(regard: Run, folders: Folders) -> None:
    shown = regard("translate", "I ate.", "-m", folders["translator"], "--n-best", "2", "--beam", "2", "--align").stdout
    assert len(shown.splitlines()) == 2
    assert all(line.count(" ||| ") == 3 for line in shown.splitlines())


@pytest.mark.parametrize(
    ("code", "change", "expected"),
    [
        (3, "model.preset=gpt2", "[model] 'gpt2' is not a translation preset; choose one of transformer-"),
        (3, "model.vocab=9", "[model] vocab comes from the tokenizer; set it in [tokenizer] instead"),
        (2, "seed.more=1", "--set seed.more=1: 'seed' is not a table"),
        (3, "data.placeholders=2", "placeholders must be a fraction from 0 to 1, not 2"),
        (3, "data.bad_lines=drop", "'bad_lines' must be one of error, skip, not 'drop'"),
        (2, "data.train=[]", "the recipe names no training data: [data] train = …"),
    ],
)
def test_recipes_that_contradict_themselves(regard: Run, tmp_path: Path, code: int, change: str, expected: str) -> None:
    (tmp_path / "recipe.toml").write_text(f"seed = 1\n{RECIPE}")
    given = ("--set", f"data.dir={SAMPLE}", "--set", change)
    assert expected in error_line(regard("train", "recipe.toml", "run", *given, code=code))


def test_a_corpus_is_split_by_the_run(regard: Run, tmp_path: Path) -> None:
    lines = [(SAMPLE / f"train.{side}").read_text().splitlines()[:400] for side in ("en", "de")]
    with gzip.open(tmp_path / "pairs.tsv.gz", "wt") as file:
        file.writelines(f"{source}\t{target}\n" for source, target in zip(*lines, strict=True))
    (tmp_path / "recipe.toml").write_text(
        RECIPE.replace(
            '[{ source = "train.en", target = "train.de" }]',
            '[{ tsv = "pairs.tsv.gz" }]\n[data.split]\nvalid = 0.05\ntest = 0.05',
        )
    )
    regard("train", "recipe.toml", "run", "--set", "model.width=16", "--set", "model.inner=16")
    assert (tmp_path / "run" / "model").is_dir()
    assert len(list((tmp_path / "run" / "data").iterdir())) >= 3


def test_options_that_exclude_each_other(regard: Run, folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert "run: has no log.jsonl, or an empty one" in error_line(regard("plot", "run", code=2))
    assert "give either --last N or --best N" in error_line(regard("average", "run", "mean", code=2))
    both = ("average", "run", "mean", "--last", "1", "--best", "1")
    assert "give either --last N or --best N" in error_line(regard(*both, code=2))


def test_the_list_of_verbs_is_the_help(regard: Run) -> None:
    shown = regard("help").stdout
    assert all(f"  {verb} " in shown for verb in VERBS)
