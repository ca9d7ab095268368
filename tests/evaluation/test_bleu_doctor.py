"""One change at a time, none of them twice."""

from dataclasses import replace
from pathlib import Path

import pytest

from regard.decoding.settings import SearchSettings
from regard.errors import InputTooLong, TaskError, UsageError
from regard.evaluation import bleu_doctor
from regard.evaluation.bleu_doctor import Baseline, canonical, countings, examine, searches
from regard.evaluation.metrics import bleu
from regard.evaluation.translate_test_set import require_translation_model, translate
from regard.tasks import TranslationModel
from regard.tasks.base import Model

Pairs = list[tuple[str, str]]


def test_from_a_beam() -> None:
    base = SearchSettings(beam=4, length_penalty=0.6, length_form="paper", max_tokens=12)
    found = searches(base)
    assert [(about, change) for about, change, _ in found] == [
        ("beam", "beam 1"),
        ("beam", "beam 8"),
        ("length penalty", "none"),
        ("length penalty", "1 paper"),
        ("length penalty", "1 plain"),
    ]
    assert found[1][2] == replace(base, beam=8)
    assert found[4][2] == replace(base, length_penalty=1.0, length_form="plain")


def test_from_greedy_search() -> None:
    """A length penalty does nothing there, so it is shown with a beam; beam 4 as it is comes once only."""
    found = searches(SearchSettings(length_penalty=0.6, length_form="paper"))
    assert [change for _, change, _ in found] == [
        "beam 4",
        "beam 8",
        "beam 4, none",
        "beam 4, 1 paper",
        "beam 4, 1 plain",
    ]
    kinds = [canonical(settings) for _, _, settings in found]
    assert len(set(kinds)) == len(kinds)


def test_a_penalty_of_nothing_has_no_form() -> None:
    base = SearchSettings(beam=2, length_penalty=0.0, length_form="paper")
    assert "none" not in [change for _, change, _ in searches(base)]


def test_the_other_casing() -> None:
    assert countings("mixed", "")[0] == ("casing", "lower case", {"casing": "lower"})
    assert countings("lower", "")[0] == ("casing", "mixed case", {"casing": "mixed"})


def test_only_the_counting() -> None:
    outputs, references = ["ein U-Boot taucht unter dem Eis ."], ["Ein U-Boot taucht unter dem Eis."]
    found = examine(outputs, references, moses="de")
    assert [line.about for line in found.lines] == ["base line", "casing"] + 5 * ["tokens"]
    for line in found.lines:
        assert line.difference == pytest.approx(line.figure.value - found.lines[0].figure.value)
    assert len({line.figure.signature for line in found.lines}) == 7
    assert found.lines[1].figure.value == pytest.approx(100.0)
    assert len(found.notes) == 1
    assert len(examine(outputs, references).notes) == 2


def test_each_search_is_made_once(toy: TranslationModel, pairs: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[SearchSettings] = []

    def counted(
        model: TranslationModel, sources: list[str], settings: SearchSettings, *rest: object, **more: object
    ) -> object:
        made.append(canonical(settings))
        return translate(model, sources, settings, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(bleu_doctor, "translate", counted)
    sources, references = (list(side) for side in zip(*pairs, strict=True))
    base = SearchSettings(beam=2, max_tokens=6)
    outputs = translate(toy, sources, base).texts
    steps: list[tuple[int, int]] = []
    found = examine(
        outputs,
        references,
        baseline=Baseline(toy, sources, base),
        on_progress=lambda what, done, total: steps.append((done, total)),
    )
    assert len(made) == len(set(made)) == 6
    assert canonical(base) not in made
    assert steps[-1] == (24, 24)
    assert steps == sorted(steps)
    by_change = {line.change: line for line in found.lines}
    greedy = translate(toy, sources, SearchSettings(max_tokens=6)).texts
    assert by_change["beam 1"].figure == bleu(greedy, references)
    assert any(note.startswith("averaging") for note in found.notes)


def test_translations_are_those_of_the_model(toy: TranslationModel, pairs: Pairs) -> None:
    sources = [pairs[0][0], "", pairs[2][0], "  ", *[source for source, _ in pairs] * 10]
    ticks: list[int] = []
    found = translate(toy, sources, SearchSettings(beam=2, max_tokens=6), ticks.append)
    expected = [toy.translate(source, beam=2, max_tokens=6) if source.strip() else "" for source in sources]
    assert found.texts == [text.replace("\n", " ").replace("\r", " ") for text in expected]
    assert ticks[-1] == len(sources)
    assert found.tokens <= 42 * 6
    assert found.sentences_per_second == pytest.approx(len(sources) / found.seconds)


def test_too_long_is_said_first(toy: TranslationModel) -> None:
    with pytest.raises(InputTooLong, match=r"test\.en:2: has .* at most 40"):
        translate(toy, ["Fish!", "Fish! " * 50], SearchSettings(), name="test.en")


def test_the_language_that_is_asked_for(toy: TranslationModel) -> None:
    with pytest.raises(UsageError, match="does not translate into 'fr'"):
        translate(toy, ["Fish!"], SearchSettings(), to="fr")
    tag = toy.tokenizer.id_of(">>de<<")
    assert toy.source_ids("Fish!", "de") == [tag, *toy.tokenizer.encode("Fish!")]
    found = translate(toy, ["Fish!", ""], SearchSettings(max_tokens=6), to="de")
    assert found.texts == [toy.translate("Fish!", max_tokens=6, to="de").replace("\n", " ").replace("\r", " "), ""]


def test_not_every_model_translates(toy: TranslationModel) -> None:
    assert require_translation_model(toy) is toy
    with pytest.raises(TaskError, match="is a seq2seq model, not a translation model"):
        require_translation_model(Model(toy.network, toy.generation, None, Path("other")))
