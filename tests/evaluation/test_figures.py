"""Scores equal sacrebleu's to the last digit; significance tests."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu

from regard.errors import InputError, UsageError
from regard.evaluation.metrics import Comparison, bleu, compare, corpus_scores, moses_tokens, split_compounds

REFERENCES = [
    "Der alte Wärter zählt am Abend die Boote im Hafen.",
    "Ein U-Boot-Kapitän liest z.B. ein Buch über den 2. Weltkrieg.",
    "",
    "Die Katze sucht eine kleine, rote Blume auf der Straße!",
    "„Was ist das?“, fragte sie; niemand wusste es.",
]
OUTPUTS = [
    "Der Wärter zählt am Abend alle Boote im Hafen.",
    "Ein U-Boot-Kapitän liest zum Beispiel ein Buch über den 2. Weltkrieg.",
    "",
    "Eine Katze sucht auf der Straße eine kleine rote Blume!",
    "„Was ist das?“ fragte Sie, aber niemand wusste es.",
]


def test_scores_equal_the_sacrebleu_command(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("\n".join(OUTPUTS) + "\n", encoding="utf-8")
    (tmp_path / "ref").write_text("\n".join(REFERENCES) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "out", "-m", "bleu", "chrf", "ter", "-w", "6"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    theirs = json.loads(done.stdout)
    ours = corpus_scores(OUTPUTS, REFERENCES)
    assert [figure.name for figure in ours] == ["BLEU", "chrF2", "TER"] == [one["name"] for one in theirs]
    assert [round(figure.value, 6) for figure in ours] == [one["score"] for one in theirs]
    for figure, one in zip(ours, theirs, strict=True):
        assert figure.signature == one["signature"]
    assert ours[0].detail == theirs[0]["verbose_score"]


@pytest.mark.parametrize("tokens", ["13a", "intl", "none", "char"])
def test_each_tokenization(tokens: str) -> None:
    theirs = sacrebleu.corpus_bleu(OUTPUTS, [REFERENCES], tokenize=tokens, lowercase=True)
    ours = bleu(OUTPUTS, REFERENCES, tokens=tokens, casing="lower")
    assert ours.value == theirs.score
    assert f"|tok:{tokens}|" in ours.signature
    assert "|case:lc|" in ours.signature


def test_moses_and_compounds() -> None:
    cut = [moses_tokens(side, "de", "mixed") for side in (OUTPUTS, REFERENCES)]
    assert cut[1][0] == "Der alte Wärter zählt am Abend die Boote im Hafen ."
    plain = bleu(OUTPUTS, REFERENCES, moses="de")
    assert plain.value == sacrebleu.corpus_bleu(cut[0], [cut[1]], tokenize="none").score
    assert plain.signature.endswith("|moses:de")
    split = [split_compounds(side) for side in cut]
    assert split[1][1].startswith("Ein U ##AT##-##AT## Boot ##AT##-##AT## Kapitän liest")
    figure = bleu(OUTPUTS, REFERENCES, moses="de", compounds=True)
    assert figure.value == sacrebleu.corpus_bleu(split[0], [split[1]], tokenize="none").score
    assert figure.value > plain.value
    assert figure.signature.endswith("|moses:de|compounds:atat")


def test_only_hyphens_inside_words_are_split() -> None:
    # the result of perl -ple 's{(\S)-(\S)}{$1 ##AT##-##AT## $2}g', as in the published scores
    assert split_compounds(["a-b - c- -d", "x-y-z", "ab-cd-ef"]) == [
        "a ##AT##-##AT## b - c- -d",
        "x ##AT##-##AT## y-z",
        "ab ##AT##-##AT## cd ##AT##-##AT## ef",
    ]


def test_unusable_input() -> None:
    with pytest.raises(InputError, match="1 translation, but 2 references"):
        corpus_scores(["a"], ["a", "b"])
    with pytest.raises(InputError, match="no translations"):
        corpus_scores([], [])
    with pytest.raises(UsageError, match="klingon"):
        bleu(["a"], ["a"], moses="klingon")
    with pytest.raises(UsageError, match="Moses tokens"):
        bleu(["a"], ["a"], compounds=True)


# ---- two systems ----


def damaged(lines: list[str], share: float, seed: int) -> list[str]:
    luck = random.Random(seed)
    return [" ".join(word if luck.random() > share else "falsch" for word in line.split()) for line in lines]


MANY = [f"Satz {i} hat {i * 7} Wörter, und {i % 5} davon sind neu." for i in range(200)]


def test_equal_systems_are_not_different() -> None:
    system = damaged(MANY, 0.2, seed=1)
    found = compare(system, list(system), MANY)
    assert found.p_value == 1.0  # sacrebleu gives 0.001 here
    assert not found.significant
    assert "same BLEU" in found.in_words()


def test_a_much_worse_system_is_worse() -> None:
    found = compare(damaged(MANY, 0.1, seed=1), damaged(MANY, 0.4, seed=2), MANY)
    assert found.p_value < 0.01
    assert found.significant
    assert found.first - found.first_interval > found.second + found.second_interval
    assert found.in_words("ours", "theirs").startswith("ours is better than theirs")
    assert "bs:1000" in found.signature
    assert "seed:12345" in found.signature
    turned = compare(damaged(MANY, 0.4, seed=2), damaged(MANY, 0.1, seed=1), MANY)
    assert turned.in_words("ours", "theirs").startswith("theirs is better than ours")


def test_equally_damaged_systems_have_no_winner() -> None:
    found = compare(damaged(MANY, 0.2, seed=1), damaged(MANY, 0.2, seed=2), MANY, casing="lower")
    assert found.first != found.second
    assert not found.significant
    assert "case:lc" in found.signature
    assert found.in_words().startswith("No winner")


def test_the_significance_level() -> None:
    assert Comparison(10.0, 11.0, 0.0499, "").significant
    assert not Comparison(10.0, 11.0, 0.05, "").significant


def test_one_sentence_proves_nothing() -> None:
    found = compare(["a b c d e"], ["a b c d x"], ["a b c d e"])
    assert found.first > found.second
    assert found.p_value == 1.0
