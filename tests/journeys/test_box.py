"""The translator in the box from the command line, right after installation."""

import json
from pathlib import Path

from journeys_types import Folders, Run

SRT = """1
00:00:01,000 --> 00:00:03,500
<i>I am here.</i>

2
00:00:04,000 --> 00:00:06,000
- Where is Tom?
- I don't know.
"""
PO = """msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

#: a.c:1
#, c-format
msgid "I have %d dogs."
msgstr ""
"""


def test_a_first_sentence(regard: Run) -> None:
    assert regard("translate", "I ate an apple.", "--to", "de").stdout == "Ich habe einen Apfel gegessen.\n"
    lines = regard("translate", "--to", "fr", stdin="I am tired.\n\nWhere are you?\n").stdout.split("\n")
    assert len(lines) == 4
    assert lines[1] == ""


def test_all_that_is_known(regard: Run) -> None:
    said = regard("translate", "I am here. {x} is there.", "--to", "de", "--json", "--alternatives", "2").stdout
    found = json.loads(said)
    assert found["from"] == "en"
    assert 0 < found["confidence"] < 1
    assert len(found["sentences"]) == 2
    assert {"source", "text", "confidence", "words", "links", "alternatives", "notes"} == set(found["sentences"][0])
    assert "{x}" in found["text"]


def test_alignment(regard: Run) -> None:
    text, _, links = regard("translate", "Tom is here.", "--to", "de", "--align").stdout.strip().partition(" ||| ")
    assert text.startswith("Tom")
    assert "0-0" in links.split()

    long = "Tom is here. " * 300
    assert len(regard("translate", long, "--to", "de", "--align").stdout.split(" ||| ")[1].split()) >= 600
    assert " ||| " in regard("translate", "Guten Morgen.", "--from", "de", "--to", "fr", "--align").stdout
    assert "plain text" in regard("translate", "x", "--to", "de", "--format", "html", "--align", code=2).stderr


def test_lines_that_cannot_be_read(regard: Run, tmp_path: Path) -> None:
    assert "cannot be read" in regard("translate", "-i", tmp_path, "--to", "de", code=4).stderr
    if Path("/proc/self/mem").exists():  # which opens, and then cannot be read
        assert "cannot be read" in regard("translate", "-i", "/proc/self/mem", "--to", "de", code=4).stderr
    assert regard("translate", "--to", "de", "--format", "markdown", stdin="\ufeff# I am Tom\n").stdout.startswith("# ")


def test_markup(regard: Run) -> None:
    said = regard("translate", "<p>I am <b>Tom</b>.</p>", "--to", "de", "--format", "html").stdout
    assert "<b>Tom</b>" in said
    said = regard("translate", "# I am **Tom**", "--to", "de", "--format", "markdown").stdout
    assert said.startswith("# ")
    assert "**Tom**" in said


def test_files(regard: Run, tmp_path: Path) -> None:
    (tmp_path / "film.srt").write_text(SRT, encoding="utf-8")
    done = regard("translate-file", "film.srt", "-o", "film.de.srt", "--to", "de")
    assert "3 passages" in done.stderr
    said = (tmp_path / "film.de.srt").read_text(encoding="utf-8")
    assert [line for line in said.splitlines() if "-->" in line] == [line for line in SRT.splitlines() if "-->" in line]
    assert said.count("<i>") == 1 == said.count("</i>")
    assert "I am here" not in said
    (tmp_path / "a.po").write_text(PO, encoding="utf-8")
    regard("translate-file", "a.po", "-o", "de.po", "--to", "de", "--from", "en")
    said = (tmp_path / "de.po").read_text(encoding="utf-8")
    assert 'msgid "I have %d dogs."' in said
    assert said.count("%d") == 2


def test_a_format_for_any_name(regard: Run, tmp_path: Path) -> None:
    """The format also says how the file declares its encoding."""
    (tmp_path / "page").write_bytes("<meta charset='iso-8859-1'><p>I am <code>Zoé</code>.</p>".encode("iso-8859-1"))
    regard("translate-file", "page", "-o", "seite", "--to", "de", "--format", "html")
    assert "Zoé" in (tmp_path / "seite").read_bytes().decode("iso-8859-1")


def test_a_file_without_text(regard: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    done = regard("translate-file", "empty.txt", "-o", "leer.txt", "--to", "de")
    assert "leer.txt: nothing to translate" in done.stderr
    assert "confidence" not in done.stderr
    assert (tmp_path / "leer.txt").read_text() == ""


def test_a_file_may_be_sampled(regard: Run, tmp_path: Path) -> None:
    """Also where a sentence needs a second search."""
    (tmp_path / "a.txt").write_text("Ask {a}, {b} and {c} at {d} {e} {f}, or {g}.\n", encoding="utf-8")
    for name in ("b.txt", "c.txt"):
        regard("translate-file", "a.txt", "-o", name, "--to", "de", "--temperature", "0.8", "--seed", "3")
    assert (tmp_path / "b.txt").read_text(encoding="utf-8") == (tmp_path / "c.txt").read_text(encoding="utf-8")


def test_the_help_of_translate_file(regard: Run) -> None:
    text = regard("translate-file", "--help").stdout
    assert "[plain|subtitles|po|tmx|tsv|html|markdown]" in text
    assert "--json" not in text


def test_a_named_source_language(regard: Run) -> None:
    """German is not translated into English because it was called English."""
    assert regard("translate", "Der Hund schläft.", "--from", "en", "--to", "de").stdout == "Der Hund schläft.\n"
    assert regard("translate", "The dog sleeps.", "--from", "en", "--to", "de").stdout == "Der Hund schläft.\n"


def test_a_target_language_that_cannot_be_chosen(regard: Run, folders: Folders, tmp_path: Path) -> None:
    """A model without languages must not translate into its only one when asked for another."""
    message = "does not translate into 'fr'; it has only one target language"
    assert message in regard("translate", "I ate.", "-m", folders["translator"], "--to", "fr", code=2).stderr
    (tmp_path / "a.txt").write_text("I ate.\n")
    arguments = ("translate-file", "a.txt", "-o", "b.txt", "-m", folders["translator"], "--to", "fr")
    assert message in regard(*arguments, code=2).stderr
    assert not (tmp_path / "b.txt").exists()


def test_a_translation_memory_names_its_languages(regard: Run, folders: Folders, tmp_path: Path) -> None:
    """For any model: the file needs the name of the target language even if the model has only one."""
    unit = '<tu><tuv xml:lang="en"><seg>I ate an apple.</seg></tuv></tu>'
    (tmp_path / "a.tmx").write_text(f'<tmx version="1.4"><body>{unit}</body></tmx>')
    regard("translate-file", "a.tmx", "-o", "b.tmx", "-m", folders["translator"], "--from", "en", "--to", "de")
    assert '<tuv xml:lang="de">' in (tmp_path / "b.tmx").read_text()


def test_a_glossary(regard: Run, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("station\tHaltepunkt\nfoo bar\n", encoding="utf-8")
    said = regard("translate", "Where is the station?", "--to", "de", "--glossary", "terms.tsv").stdout
    assert "Haltepunkt" in said


def test_what_cannot_be(regard: Run, folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "x.srt").write_text("no subtitles")
    (tmp_path / "x.doc").write_text("no")
    for code, said, *arguments in (
        (2, "no target language; choose de, en, fr", "translate", "I am here."),
        (2, "de, en, fr", "translate", "I am here.", "--to", "es"),
        (2, "at least 0 and at most 1", "translate", "x", "--to", "de", "--min-confidence", "7"),
        (2, "does not work with", "translate", "x", "--to", "de", "--min-confidence", "0.5", "--as-is"),
        (4, "x.srt", "translate-file", "x.srt", "-o", "y.srt", "--to", "de"),
        (2, "x.doc", "translate-file", "x.doc", "-o", "y.doc", "--to", "de"),
        (2, "'subtitles'", "translate-file", "x.srt", "-o", "y.srt", "--to", "de", "--format", "subtitle"),
        (2, "--n-best", "translate-file", "x.srt", "-o", "y.srt", "--to", "de", "--n-best", "2"),
        (2, "--alternatives", "translate-file", "x.srt", "-o", "y.srt", "--to", "de", "--alternatives", "2"),
        (2, "-confidence must", "translate-file", "x.srt", "-o", "y.srt", "--to", "de", "--min-confidence", "2"),
        (4, "missing", "translate-file", "missing.srt", "-o", "y.srt", "--to", "de"),
        (2, "input and output are the same file", "translate-file", "x.srt", "-o", "x.srt", "--to", "de"),
        (2, "cannot translate", "translate", "x", "-m", folders["writer"]),
    ):
        assert said in regard(*arguments, code=code).stderr
    assert not list(tmp_path.glob("y.*"))


def test_its_card(regard: Run) -> None:
    said = regard("info", "box").stdout
    assert "tatoeba.org" in said
    assert "CC-BY 2.0 FR" in said
    assert "BLEU" in said
    assert json.loads(regard("info", "box", "--json").stdout)["card"]["pairs"]


def test_other_models_are_interpreted_too(regard: Run, folders: Folders) -> None:
    """A model without a card, without tags, without training: nothing breaks, and what it cannot do stays as it is."""
    said = regard("translate", "See https://a.org/x. It was too tired.", "-m", folders["translator"]).stdout
    assert "https://a.org/x" in said


def test_calibrate(regard: Run, folders: Folders, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(folders["translator"], tmp_path / "mine")
    (tmp_path / "a").write_text("I ate an apple.\n" * 100)
    (tmp_path / "few").write_text("I ate an apple.\n" * 9)
    assert "calibration" in regard("calibrate", "mine", "a", "a").stdout
    assert set(json.loads((tmp_path / "mine" / "confidence.json").read_text())["error"]) == {"sentence", "word"}
    assert "too few" in regard("calibrate", "mine", "few", "few", code=2).stderr
