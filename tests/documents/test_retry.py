"""Candidates: which hypothesis is taken, with which confidence, and in which order its faults are listed."""

import pytest

import regard
from regard.decoding.settings import SearchSettings
from regard.documents.confidence import Confidence
from regard.documents.document_translator import DocumentTranslator
from regard.documents.passage import Passage
from regard.documents.retry import Candidate, search_candidate
from regard.documents.segments import segments
from regard.tasks.translation import Translation


@pytest.fixture(scope="module")
def box() -> DocumentTranslator:
    return regard.load_translator()


def candidate(text: str, calibration: Confidence | None = None) -> Candidate:
    (segment,) = segments(Passage(text), "en", None, lambda _: True)
    return Candidate(segment, "de", False, 0, calibration or Confidence())


def hypothesis(text: str, ids: list[int], source_ids: list[int], ended: bool = True) -> Translation:
    return Translation(text, -1.0, -1.0, ["a"] * len(ids), [-0.1] * len(ids), ended, None, source_ids, ids)


def test_faults_are_listed_by_severity() -> None:
    """The guard returns them as a set, whose order changes from process to process."""
    found = candidate("I see {x} here.")
    found.update([hypothesis("da " * 20, [5] * 20, [1, 2, 3, 4], ended=False)])
    assert found.faults == ("placeholders", "loop", "length")
    found.update([hypothesis("da ① " * 20, [5] * 20, [1, 2, 3, 4], ended=False)])
    sentence = found.sentence(found.segment, 0.0)
    assert sentence.notes == ("placeholders", "loop", "length", "kept")
    assert sentence.text == "I see {x} here."


def test_a_later_fault_may_be_the_worse_one() -> None:
    found = candidate("I see {x} here.")
    found.update([hypothesis("da ① " * 20, [5] * 20, [1, 2, 3, 4], ended=False)])
    found.update([hypothesis("da", [5, 6], [1, 2, 3, 4])])
    assert found.sentence(found.segment, 0.0).notes == ("placeholders", "loop", "length", "kept")


def test_confidence_counts_source_tokens_as_the_calibration_does(box: DocumentTranslator) -> None:
    """evaluation/calibration.py counts all source tokens, the language tag and the end token included."""
    found = candidate("I ate an apple.", box.confidence)
    searching = search_candidate(box.model, found, SearchSettings())
    (asked,) = [next(searching)]
    with pytest.raises(StopIteration):  # no fault: no other search
        searching.send(box.model.find([asked.text], asked.settings, to=asked.tag)[0])
    assert found.best is not None
    assert found.best.source_ids[0] == box.model.tokenizer.id_of(">>de<<")
    fitted = box.confidence.of_sentence(found.best.log_probs, len(found.best.source_ids))
    assert found.confidence == fitted


def test_sampling_searches_again_without_a_beam(box: DocumentTranslator) -> None:
    """A text with many placeholders needs a second search, which must sample, too."""
    text = "Ask {a}, {b} and {c} at {d} {e} {f}, or {g}."
    results = [box.translate(text, to="de", source="en", temperature=0.8, seed=3) for _ in range(2)]
    assert results[0].text == results[1].text
    assert "{g}" in results[0].text
