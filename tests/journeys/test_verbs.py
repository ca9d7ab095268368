"""The verbs: arguments and pipes in, text and JSON out."""

import json
from pathlib import Path

from journeys_types import Folders, Run


def test_translate_keeps_lines(regard: Run, folders: Folders) -> None:
    lines = regard(
        "translate", "--as-is", "-m", folders["translator"], stdin="I ate an apple.\n\nThe bank.\n"
    ).stdout.split("\n")
    assert len(lines) == 4
    assert lines[1] == ""
    once = regard("translate", "--as-is", "I ate an apple.", "The bank.", "-m", folders["translator"]).stdout.split(
        "\n"
    )
    assert once == [lines[0], lines[2], ""]


def test_generate_begins_with_the_prompt(regard: Run, folders: Folders) -> None:
    out = regard("generate", "I ate", "-m", folders["writer"], "--max-tokens", "5").stdout
    assert out.startswith("I ate")
    assert len(out.strip()) > len("I ate")


def test_generate_from_nothing(regard: Run, folders: Folders) -> None:
    assert regard("generate", "-m", folders["writer"], "--max-tokens", "5").stdout.strip()


def test_generate_prints_all_of_the_n_best(regard: Run, folders: Folders) -> None:
    model = ("-m", folders["writer"], "--max-tokens", "5")
    one = regard("generate", "I ate", *model, "--beam", "3").stdout
    lines = regard("generate", "I ate", *model, "--beam", "3", "--n-best", "3").stdout.splitlines()
    assert len(lines) == 3
    assert lines[0] == f"1 ||| {' '.join(one.splitlines())}"
    assert all(line.startswith(f"{number} ||| I ate") for number, line in enumerate(lines, 1))
    samples = ("--temperature", "2", "--seed", "1", "--n-best", "4", "--json")
    texts = json.loads(regard("generate", "I ate", *model, *samples).stdout)
    assert len(set(texts)) == len(texts) == 4
    assert regard("generate", "I ate", "-m", folders["translator"], code=2).stderr.count("cannot generate") == 1


def test_fill(regard: Run, folders: Folders) -> None:
    (gap,) = json.loads(regard("fill", "I ate an [MASK].", "-m", folders["filler"], "--json", "--top", "3").stdout)
    assert len(gap) == 3
    assert gap == sorted(gap, key=lambda candidate: -candidate["probability"])
    assert "%" in regard("fill", "I [MASK] an [MASK].", "-m", folders["filler"]).stdout


def test_classify(regard: Run, folders: Folders) -> None:
    labels = json.loads(regard("classify", "The bank.", "-m", folders["judge"], "--json").stdout)
    assert set(labels) == {"bad", "good"}
    assert abs(sum(labels.values()) - 1) < 1e-6


def test_embed(regard: Run, folders: Folders) -> None:
    lines = regard("embed", "-m", folders["reader"], stdin="I ate.\nThe bank.\n").stdout.splitlines()
    assert [len(json.loads(line)) for line in lines] == [32, 32]


def test_info(regard: Run, folders: Folders) -> None:
    about = json.loads(regard("info", folders["translator"], "--json").stdout)
    assert about["family"] == "seq2seq"
    assert about["tasks"] == ["translate"]
    assert about["parameters"]["in all"] == sum(v for k, v in about["parameters"].items() if k != "in all")
    assert "encoder_layers" in regard("info", folders["translator"]).stdout


def test_trace_of_every_family(regard: Run, folders: Folders) -> None:
    for name, stacks in {"translator": ["encoder", "decoder"], "writer": ["stack"], "judge": ["stack"]}.items():
        trace = json.loads(regard("trace", "I ate an apple.", "-m", folders[name], "--json").stdout)
        assert {block["stack"] for block in trace["blocks"]} == set(stacks)
        assert len(trace["blocks"]) == 2 * len(stacks)
        assert len(trace["blocks"][0]["attention"]) == 4
        for tokens, embedded in zip(trace["tokens"], trace["embeddings"], strict=True):
            assert len(tokens["pieces"]) == len(tokens["ids"]) == len(embedded["output_norms"])
        assert bool(trace["labels"]) == (name == "judge")
        assert bool(trace["next"]) == (name != "judge")


def test_trace_of_a_given_translation(regard: Run, folders: Folders) -> None:
    shown = regard("trace", "I ate an apple.", "--target", "Ich habe gegessen.", "-m", folders["translator"]).stdout
    for expected in ("source -> tokens", "target -> tokens", "encoder block 1", "decoder block 2", "cross 4", "logits"):
        assert expected in shown


def test_a_model_with_several_target_languages_needs_one(regard: Run, tmp_path: Path) -> None:
    """Without one, the translator in the box mixed two languages in one sentence."""
    (tmp_path / "a").write_text("I am a student.\n")
    for arguments in (("trace", "I am a student."), ("score", "a", "a"), ("evaluate", "a", "a")):
        done = regard(*arguments, "-m", "box", code=2)
        assert done.stderr == "regard: no target language: this model translates into de, en, fr\n"
    trace = json.loads(regard("trace", "I am a student.", "-m", "box", "--to", "de", "--json").stdout)
    assert trace["tokens"][0]["pieces"][0] == ">>de<<"


def test_options_without_effect_are_refused(regard: Run) -> None:
    for option, *given in (
        ("--from", "en", "--as-is"),
        ("--format", "html", "--n-best", "2"),
        ("--from", "en", "--temperature", "1"),
    ):
        done = regard("translate", "I am here.", "--to", "de", option, *given, code=2)
        assert done.stderr == f"regard: {option} does not work with --as-is, --n-best or --temperature\n"


def test_a_missing_output_folder_is_reported_before_work_begins(regard: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("I am here.\n")
    for verb in (
        ("translate", "-i", "a.txt"),
        ("translate-file", "a.txt"),
        ("evaluate", "a.txt", "a.txt", "-m", "nowhere"),
    ):
        done = regard(*verb, "--to", "de", "-o", "no/b.txt", code=6)
        assert done.stderr == "regard: no/b.txt: the folder no does not exist; create it first\n"


def test_kept_source_text_is_counted(regard: Run) -> None:
    done = regard("translate", "I sing.", "--to", "de", "--max-tokens", "2")
    assert done.stdout == "I sing.\n"
    assert done.stderr == "source text kept for 1 sentence; --json tells which and why\n"


def test_advice_about_dashes_is_given_where_there_are_texts(regard: Run) -> None:
    assert "Put --" in regard("translate", "--zzz", code=2).stderr
    assert "Put --" not in regard("translate-file", "a.txt", "-o", "b.txt", "--zzz", code=2).stderr


def test_no_line_ends_with_spaces(regard: Run, folders: Folders) -> None:
    for arguments in (
        ("info", folders["translator"]),
        ("fill", "I [MASK] an [MASK].", "-m", folders["filler"]),
        ("classify", "The bank.", "-m", folders["judge"]),
        ("trace", "I ate an apple.", "-m", folders["translator"], "--device", "cpu"),
    ):
        lines = regard(*arguments).stdout.splitlines()
        assert [line for line in lines if line != line.rstrip()] == []
        assert any("  " in line.strip() for line in lines), "columns are still aligned"


def test_convert_there_and_back(regard: Run, folders: Folders, tmp_path: Path) -> None:
    for name, task in {"translator": "translate", "writer": "generate"}.items():
        there, back = tmp_path / f"{name}-there", tmp_path / f"{name}-back"
        if name == "translator":  # no Hugging Face family has the settings of the small decoder
            regard("convert", folders[name], there, "--to", "huggingface")
            regard("convert", there, back)
        else:
            regard("convert", folders[name], back)
        assert {path.name for path in back.iterdir()} >= {"config.json", "model.safetensors", "generation_config.json"}
        outputs = [
            regard(task, "The bank.", "-m", folder, "--max-tokens", "8").stdout for folder in (folders[name], back)
        ]
        assert outputs[0] == outputs[1]
