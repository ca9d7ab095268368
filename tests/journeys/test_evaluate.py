"""regard evaluate and regard score: a test set in, scores and log-probabilities out."""

import gzip
import json
from pathlib import Path

import pytest
import sacrebleu
import torch
from journeys_types import Folders, Run, error_line
from safetensors.torch import load_file

from regard.cli.main import main

SAMPLE = Path(__file__).parents[2] / "recipes" / "sample"
ENGLISH = ["I ate an apple.", "", "The bank on the other side.", "The animal was tired."]
GERMAN = ["Ich habe einen Apfel gegessen.", "Nichts.", "Die Bank am anderen Ufer.", "Das Tier war müde."]


@pytest.fixture
def test_set(tmp_path: Path) -> tuple[str, str]:
    write(tmp_path / "test.en", ENGLISH)
    write(tmp_path / "test.de", GERMAN)
    return "test.en", "test.de"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run with three checkpoints; the model is the average of the last two."""
    path = tmp_path_factory.mktemp("runs") / "sample"
    settings = {
        "data.dir": path.parent,
        "data.valid": "[{source='small.en', target='small.de'}]",
        "train.updates": 9,
        "train.validate_every": 3,
        "train.batch_tokens": 256,
        "train.warmup": 3,
        "train.average": 2,
        "decode.max_tokens": 8,
        "tokenizer.vocab": 400,
    }
    for side in ("en", "de"):  # validation decodes all of it, and an untrained model does not end its sentences
        lines = (SAMPLE / f"valid.{side}").read_text(encoding="utf-8").splitlines()[:6]
        write(path.parent / f"small.{side}", lines)
        (path.parent / f"train.{side}").symlink_to(SAMPLE / f"train.{side}")
    sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    assert main(["train", str(SAMPLE.with_suffix(".toml")), str(path), "--device", "cpu", *sets]) == 0
    return path


def write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_scores_of_a_model(regard: Run, folders: Folders, test_set: tuple[str, str], tmp_path: Path) -> None:
    done = regard("evaluate", *test_set, "-m", folders["translator"], "-o", "out", "--json")
    found = json.loads(done.stdout)
    assert done.stderr == ""
    assert found["sentences"] == 4
    outputs = (tmp_path / "out").read_text(encoding="utf-8").split("\n")
    assert len(outputs) == 5
    assert outputs[1] == ""
    shown = regard("translate", "--as-is", "-m", folders["translator"], stdin="\n".join(ENGLISH) + "\n").stdout
    assert shown == (tmp_path / "out").read_text(encoding="utf-8")
    assert found["figures"][0]["value"] == sacrebleu.corpus_bleu(outputs[:4], [GERMAN]).score
    assert found["figures"][1]["value"] == sacrebleu.corpus_chrf(outputs[:4], [GERMAN]).score
    assert found["figures"][2]["value"] == sacrebleu.corpus_ter(outputs[:4], [GERMAN]).score
    assert found["perplexity"]["pairs"] == 3
    assert found["perplexity"]["left_out"] == 1
    assert found["speed"]["tokens_per_second"] > 0
    again = json.loads(regard("evaluate", *test_set, "--hypotheses", "out", "--json").stdout)
    assert again == {"sentences": 4, "figures": found["figures"]}


def test_as_text(regard: Run, folders: Folders, test_set: tuple[str, str]) -> None:
    options = ("--beam", "3", "--length-penalty", "0.6", "--length-form", "paper", "--moses", "de", "--lower")
    shown = regard("evaluate", *test_set, "-m", folders["translator"], *options).stdout
    lines = shown.splitlines()
    assert lines[0] == "4 sentences, beam 3, length penalty 0.6 paper"
    for expected in ("BP = ", "chrF2", "TER", "case:lc", "|moses:de", "per word", "tokens/s"):
        assert expected in shown
    assert sum("|moses:de" in line for line in lines) == 2


def test_singular_nouns(regard: Run, folders: Folders, tmp_path: Path) -> None:
    write(tmp_path / "one", ["Ich"])
    shown = regard("evaluate", "one", "one", "-m", folders["translator"], "--max-tokens", "1").stdout
    assert shown.startswith("1 sentence, ")
    assert "(1 pair, " in shown
    assert "1 word)" in shown
    assert "cut off by the length limit: 1 translation\n" in shown


def test_gzipped(regard: Run, test_set: tuple[str, str], tmp_path: Path) -> None:
    plain = regard("evaluate", *test_set, "--hypotheses", "test.en").stdout
    for name in test_set:
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    assert regard("evaluate", "test.en.gz", "test.de.gz", "--hypotheses", "test.en.gz").stdout == plain


def test_comparison(regard: Run, folders: Folders, test_set: tuple[str, str]) -> None:
    other = ("--compare", "test.de")
    worse = json.loads(regard("evaluate", *test_set, "-m", folders["translator"], *other, "--json").stdout)
    assert worse["comparison"]["second"] == pytest.approx(100)
    assert worse["comparison"]["p_value"] < 0.05
    assert worse["comparison"]["in_words"].startswith("test.de is better than this one")
    itself = ("--compare-model", folders["translator"])
    same = regard("evaluate", *test_set, "-m", folders["translator"], *itself).stdout
    assert "same BLEU" in same
    assert "bs:1000" in same


def test_doctor_of_a_model_alone(regard: Run, folders: Folders, test_set: tuple[str, str]) -> None:
    done = regard("evaluate", *test_set, "-m", folders["translator"], "--doctor", "--moses", "de", "--json")
    found = json.loads(done.stdout)["doctor"]
    changes = [line["change"] for line in found["lines"]]
    assert changes[:6] == ["greedy search", "beam 4", "beam 8", "beam 4, none", "beam 4, 0.6 paper", "beam 4, 1 paper"]
    assert changes[6:] == ["lower case", "intl", "char", "none", "Moses (de)", "Moses (de), compounds split"]
    assert all(line["figure"]["signature"].startswith("nrefs:1|case:") for line in found["lines"])
    (note,) = found["notes"]
    assert note.startswith("averaging")
    shown = regard("evaluate", *test_set, "-m", folders["translator"], "--doctor").stdout
    assert "not tried: averaging" in shown
    assert "not tried: Moses" in shown
    assert "…" not in shown  # signatures are not cut


def test_doctor_of_a_run(regard: Run, run: Path) -> None:
    test_set = (run.parent / "small.en", run.parent / "small.de")
    done = regard("evaluate", *test_set, "-m", run / "model", "--doctor", "--json")
    found = json.loads(done.stdout)["doctor"]
    averaging = {line["change"]: line for line in found["lines"] if line["about"] == "averaging"}
    assert "the newest checkpoint alone" in averaging
    assert averaging["the mean of the last 2, as it is"]["difference"] == 0
    assert not any(note.startswith("averaging") for note in found["notes"])
    regard("average", run, "newest", "--last", "1")
    alone = json.loads(regard("evaluate", *test_set, "-m", "newest", "--json").stdout)
    assert averaging["the newest checkpoint alone"]["figure"] == alone["figures"][0]
    assert sorted(path.name for path in run.parent.iterdir() if path.name.startswith(".")) == []


def test_more_checkpoints_than_there_are(regard: Run, run: Path, tmp_path: Path) -> None:
    for option in ("--last", "--best"):
        shown = error_line(regard("average", run, "mean", option, "99", code=2))
        assert shown == f"regard: {option} 99: {run} has only 2 validated checkpoints"
    assert not (tmp_path / "mean").exists()


def test_the_mean_of_several_models(regard: Run, run: Path, folders: Folders, tmp_path: Path) -> None:
    regard("average", run, "newest", "--last", "1")
    shown = regard("average", run / "model", "newest", "newest", "mean").stdout
    assert shown.splitlines() == [str(run / "model"), "newest", "newest"]
    one, other, mean = (load_file(tmp_path / path / "model.safetensors") for path in (run / "model", "newest", "mean"))
    assert not all(torch.equal(one[name], other[name]) for name in one)
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, (one[name] + 2 * other[name]) / 3)
    assert regard("translate", "The dog sees a red house.", "-m", "mean").stdout.strip()
    shown = error_line(regard("average", "newest", folders["translator"], "none", code=5))
    assert shown.startswith(f"regard: {folders['translator']}: differs from newest in ")
    regard("convert", "newest", "renamed")
    path = tmp_path / "renamed" / "tokenizer.json"
    tokens = json.loads(path.read_text())
    vocab = tokens["model"]["vocab"]
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
    path.write_text(json.dumps(tokens))
    assert "its tokenizer differs" in error_line(regard("average", "newest", "renamed", "none", code=5))
    assert "--last" in error_line(regard("average", "newest", "renamed", "none", "--last", "2", code=2))
    assert not (tmp_path / "none").exists()


def test_doctor_of_a_damaged_run(regard: Run, run: Path, folders: Folders) -> None:
    for path in (run / "state").iterdir():
        (path / "manifest.json").write_text("{}")
    test_set = (run.parent / "small.en", run.parent / "small.de")
    found = json.loads(regard("evaluate", *test_set, "-m", run / "model", "--doctor", "--json").stdout)["doctor"]
    assert "no valid checkpoint that was validated" in found["notes"][0]


# ---- score ----


def test_score(regard: Run, folders: Folders, test_set: tuple[str, str]) -> None:
    done = regard("score", *test_set, "-m", folders["translator"])
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows[1] == ["nan", "nan"]
    objects = [
        json.loads(line)
        for line in regard("score", *test_set, "-m", folders["translator"], "--tokens", "--json").stdout.splitlines()
    ]
    assert objects[1] == {
        "log_prob": None,
        "mean": None,
        "tokens": 0,
        "fault": "the source is empty",
        "pieces": [],
        "log_probs": [],
    }
    for i in (0, 2, 3):
        assert float(rows[i][0]) == pytest.approx(objects[i]["log_prob"], abs=1e-5)
        assert float(rows[i][0]) == pytest.approx(sum(objects[i]["log_probs"]), abs=1e-4)
        assert float(rows[i][1]) == pytest.approx(float(rows[i][0]) / objects[i]["tokens"], abs=1e-5)
        assert objects[i]["pieces"][-1] == "</s>"
    assert "1 without a score: the source is empty (first: test.en:2)" in done.stderr
    assert "per token" in done.stderr
    assert "(3 pairs, 1 left out, " in done.stderr
    with_tokens = regard("score", *test_set, "-m", folders["translator"], "--tokens").stdout.splitlines()[0]
    assert with_tokens.split("\t")[2].split()[-1].startswith("</s>=-")


def test_score_agrees_with_the_search(regard: Run, folders: Folders, tmp_path: Path) -> None:
    """Beam search and `score` agree where the text has the same pieces as the hypothesis."""
    full = [line for line in ENGLISH if line] * 3
    options = ("--beam", "4", "--n-best", "4", "--json")
    shown = regard("translate", "--as-is", *full, "-m", folders["translator"], *options).stdout.splitlines()
    found = [(json.loads(line)["source"], one) for line in shown for one in json.loads(line)["translations"]]
    write(tmp_path / "a", [source for source, _ in found])
    write(tmp_path / "b", [one["text"] for _, one in found])
    scores = regard("score", "a", "b", "-m", folders["translator"], "--tokens", "--json").stdout.splitlines()
    agreed = 0
    for (_, one), line in zip(found, scores, strict=True):
        score = json.loads(line)
        length = len(one["pieces"])
        if score["pieces"][:length] == one["pieces"]:
            agreed += 1
            assert score["log_probs"][:length] == pytest.approx(one["log_probs"][:length], abs=1e-4)
            if one["ended"]:
                assert score["log_prob"] == pytest.approx(one["log_prob"], abs=1e-3)
    assert agreed


# ---- bad input ----


def test_unequal_files(regard: Run, folders: Folders, test_set: tuple[str, str], tmp_path: Path) -> None:
    write(tmp_path / "short", GERMAN[:3])
    expected = "line 4 has no partner"
    assert expected in error_line(regard("evaluate", "test.en", "short", "-m", folders["translator"], code=4))
    assert expected in error_line(regard("evaluate", *test_set, "--hypotheses", "short", code=4))
    given = ("--hypotheses", "test.de", "--compare", "short")
    assert expected in error_line(regard("evaluate", *test_set, *given, code=4))
    assert expected in regard("score", "test.en", "short", "-m", folders["translator"], code=4).stderr


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is empty"),
        (b"good\ncaf\xe9\n", "bad:2: is not UTF-8 (byte 4"),
        (b"x" * 100_001, "bad:1: has more than 100,000 characters"),
        (gzip.compress(b"I ate.\n" * 500)[:30], "bad:1: the gzip file is truncated or damaged"),
    ],
    ids=["empty", "bytes", "long", "gzip"],
)
@pytest.mark.parametrize("verb", ["evaluate", "score"])
def test_hostile_files(regard: Run, folders: Folders, tmp_path: Path, verb: str, content: bytes, expected: str) -> None:
    (tmp_path / "bad").write_bytes(content)
    assert expected in error_line(regard(verb, "bad", "bad", "-m", folders["translator"], code=4))
    assert "cannot be read" in error_line(regard(verb, "nowhere", "bad", "-m", folders["translator"], code=4))


def test_too_long_names_the_line(regard: Run, folders: Folders, tmp_path: Path) -> None:
    write(tmp_path / "a", ["The bank.", "apple " * 60])
    done = regard("evaluate", "a", "a", "-m", folders["translator"], "-o", "out", code=4)
    assert "a:2: has" in error_line(done)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]
    assert regard("score", "a", "a", "-m", folders["translator"]).stdout.splitlines()[1] == "nan\tnan"


def test_contradictions(regard: Run, folders: Folders, test_set: tuple[str, str], tmp_path: Path) -> None:
    model = ("-m", folders["translator"])
    given = ("--hypotheses", "test.de")
    for options, expected in [
        ((), "give a model"),
        ((*given, "--beam", "4"), "--beam needs a model"),
        ((*given, "-o", "out"), "-o needs a model"),
        ((*given, "--compare", "test.de", "--compare-model", "x"), "not both"),
        ((*model, "-o", "test.de"), "input and output are the same file"),
        ((*given, "--moses", "klingon"), "does not know the language 'klingon'"),
        (("-m", folders["writer"]), "not a translation model"),
        ((*model, "--beam", "0"), "beam must be"),
        ((*model, "-o", "."), "is not a file"),
        ((*model, "-o", "nowhere/out"), "nowhere does not exist; create it first"),
        ((*given, "--to", "fr"), "--to needs a model"),
        (("-m", "nowhere"), "no such directory"),
    ]:
        done = regard("evaluate", *test_set, *options, code=pytest.approx(4, abs=2))
        assert expected in error_line(done)
    assert "not a translation model" in error_line(regard("score", *test_set, "-m", folders["writer"], code=2))
    assert (tmp_path / "test.de").read_text(encoding="utf-8").splitlines() == GERMAN


def test_comparing_with_a_classifier(regard: Run, folders: Folders, test_set: tuple[str, str]) -> None:
    done = regard("evaluate", *test_set, "-m", folders["translator"], "--compare-model", folders["judge"], code=2)
    assert "not a translation model" in error_line(done)
