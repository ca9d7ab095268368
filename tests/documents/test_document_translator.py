"""The translator in the box, as a person uses it: what must hold of every text, whatever its sentences become."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from survival import intact

import regard
from regard.documents import document_translator
from regard.documents.document_translator import DocumentTranslator
from regard.documents.formats import html
from regard.documents.glossary import Glossary, Term
from regard.documents.options import TranslationOptions
from regard.documents.passage import Passage
from regard.documents.protect import spans
from regard.errors import ConfigError, InputError, UsageError
from regard.inference.requests import Handle
from regard.tasks.translation import Translation


@pytest.fixture(scope="module")
def box() -> Iterator[DocumentTranslator]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield regard.load_translator()
    torch.set_num_threads(threads)


def test_the_sentences_of_the_lectures(box: DocumentTranslator) -> None:
    assert box.translate("I ate an apple.", to="de").text == "Ich habe einen Apfel gegessen."
    assert box.translate("Je suis étudiant.", to="en").text in ("I am a student.", "I'm a student.")


def test_the_language_is_told_by_its_looks(box: DocumentTranslator) -> None:
    for text, language in (("Where are you?", "en"), ("Wo bist du?", "de"), ("Où es-tu ?", "fr")):
        to = "de" if language == "en" else "en"
        assert box.translate(text, to=to).language == language


def test_paragraphs_and_blank_lines_stay(box: DocumentTranslator) -> None:
    text = "\n  I am here. You are there.\n\n\tTom left.  \n"
    found = box.translate(text, to="de").text
    assert found.startswith("\n  ")
    assert "\n\n\t" in found
    assert found.endswith("  \n")
    assert len(box.translate(text, to="de").sentences) == 3


def test_one_text_does_not_depend_on_its_neighbours(box: DocumentTranslator) -> None:
    texts = ["I am tired.", "Where is {name}?", "Tom has 3 dogs. He likes them.", "I am tired."]
    together = box.translate_passages([Passage(text) for text in texts], TranslationOptions(to="de"))
    assert [one.text for one in together] == [box.translate(text, to="de").text for text in texts]


def test_what_must_survive_does(box: DocumentTranslator) -> None:
    text = "Hello {name}, see https://a.org/x?y=1 or write to me@a.org: %s costs 5.99 $, %1$s costs ${x}."
    found = box.translate(text, to="de")
    assert intact([text[start:end] for start, end in spans(text)], found.text)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(max_size=40)
    | st.lists(st.sampled_from(["I", "am", "Tom", "{x}", "%s", "5 km", "😀", "a.b@c.org", "."])).map(" ".join)
)
def test_whatever_it_is_it_survives(box: DocumentTranslator, text: str) -> None:
    try:
        found = box.translate(text, to="fr", source="en")
    except InputError:  # half of a surrogate pair
        return
    assert intact([text[start:end] for start, end in spans(text)], found.text)
    assert 0 <= found.confidence <= 1


def test_markup_goes_where_its_words_go(box: DocumentTranslator) -> None:
    document = html.parse("<p>I am <b>Tom</b>.</p><ul><li>Where is <a href='x'>Mary</a>?</ul>")
    found = box.translate_passages(document.passages, TranslationOptions(to="de"))
    written = document.render([one.passage for one in found])
    assert "<b>Tom</b>" in written
    assert written.count("<a href='x'>") == 1 == written.count("</a>")
    assert written.startswith("<p>")
    assert written.endswith("</ul>")


def test_terms_are_kept_to(box: DocumentTranslator) -> None:
    glossary = Glossary([Term("station", "Haltepunkt"), Term("Mary", "Mary")])
    found = box.translate("Where is the station? Mary is here.", to="de", glossary=glossary).text
    assert "Haltepunkt" in found
    assert "Mary" in found


def test_terms_may_be_bent(box: DocumentTranslator) -> None:
    glossary = Glossary([Term("dogs", "Köter", inflect=True)])
    assert "Köter" in box.translate("I like dogs.", to="de", glossary=glossary).text


def test_it_abstains_when_it_is_not_sure(box: DocumentTranslator) -> None:
    text = "I am here. Colorless green ideas sleep furiously nevertheless."
    found = box.translate(text, to="de", min_confidence=1.0)
    assert found.text == text
    assert set(found.notes) == {"abstained"}
    sure = box.translate(text, to="de")
    assert sure.sentences[0].confidence > sure.sentences[1].confidence


def test_alternatives_are_others(box: DocumentTranslator) -> None:
    (sentence,) = box.translate("I like dogs.", to="de", alternatives=3).sentences
    assert 1 <= len(sentence.alternatives) <= 3
    assert sentence.text not in sentence.alternatives


def test_words_and_links(box: DocumentTranslator) -> None:
    (sentence,) = box.translate("Tom likes Boston.", to="de", align=True).sentences
    assert " ".join(word.text for word in sentence.words) == sentence.text
    linked = {sentence.source[a:b]: sentence.text[c:d] for (a, b), (c, d) in sentence.links}
    assert linked["Tom"] == "Tom"


def test_german_to_french_goes_by_way_of_english(box: DocumentTranslator) -> None:
    found = box.translate("Ich bin müde. Siehe https://a.org.", to="fr")
    assert "pivot" in found.notes
    assert "https://a.org" in found.text


def said(text: str, like: Translation) -> Translation:
    """A translation with these words, one piece each."""
    words = text.split()
    return Translation(text, like.score, -1.0, words, [-0.1] * len(words), True, None, like.source_ids, like.ids)


def test_what_is_fixed_survives_both_halves_of_the_way(box: DocumentTranslator) -> None:
    document = html.parse("<p>Der Befehl <code>a</code> ist gut.</p>")
    (found,) = box.translate_passages(document.passages, TranslationOptions(to="fr"))
    assert "<code>a</code>" in document.render([found.passage])


def test_where_half_of_the_way_fails_the_source_stays(box: DocumentTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not what is half-way, which is English."""
    translations_of = box.model.translations_of
    french = box.model.tokenizer.id_of(">>fr<<")

    def forgets(handle: Handle, *, align: bool = False) -> list[Translation]:
        found = translations_of(handle, align=align)
        return [said("Rien.", one) for one in found] if handle.request.ids[0] == french else found

    text = "Ich sehe {x}."
    monkeypatch.setattr(box.model, "translations_of", forgets)
    found = box.translate(text, to="fr", source="de")
    assert found.text == text == found.sentences[0].source
    assert {"pivot", "placeholders", "kept"} <= set(found.notes)
    monkeypatch.undo()
    found = box.translate("Ich bin sehr müde.", to="fr", source="de", min_confidence=1.0)
    assert found.text == "Ich bin sehr müde."
    assert {"pivot", "abstained"} <= set(found.notes)


def test_nothing_is_no_translation(box: DocumentTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    translations_of = box.model.translations_of
    monkeypatch.setattr(
        box.model,
        "translations_of",
        lambda handle, *, align: [said("…", one) for one in translations_of(handle, align=align)],
    )
    found = box.translate("I am here.", to="de")
    assert found.text == "I am here."
    assert "length" in found.notes


def test_marks_stay_around_what_is_not_translated(box: DocumentTranslator) -> None:
    for page in (
        "<p>Tom is here. <a href='x'>https://x.org/a</a> <b>12:30</b></p>",
        "<p>Good morning. <code>a b</code>: <code>c d</code></p>",
    ):
        document = html.parse(page)
        (found,) = box.translate_passages(document.passages, TranslationOptions(to="de"))
        written = document.render([found.passage])
        assert page.split(". ", 1)[1] in written


def test_what_is_there_already_stays(box: DocumentTranslator) -> None:
    found = box.translate("Ich bin heute sehr müde.", to="de")
    assert found.text == "Ich bin heute sehr müde."
    assert found.notes == ("same language",)


def test_a_loop_is_seen_and_tried_again(box: DocumentTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is made to go in circles, unless it is forbidden to."""
    translations_of = box.model.translations_of

    def looping(handle: Handle, *, align: bool = False, always: bool = False) -> list[Translation]:
        found = translations_of(handle, align=align)
        if handle.request.settings.no_repeat_ngram and not always:
            return found
        one = found[0]
        return [Translation("da " * 9, one.score, -1.0, ["Ġda"] * 9, [-0.1] * 9, True, None, one.source_ids, [5] * 9)]

    monkeypatch.setattr(box.model, "translations_of", looping)
    found = box.translate("I am very tired today.", to="de")
    assert set(found.notes) == {"loop", "tried again"}
    assert "da da" not in found.text

    monkeypatch.setattr(box.model, "translations_of", partial(looping, always=True))
    found = box.translate("I am very tired today.", to="de")
    assert set(found.notes) == {"loop", "kept"}
    assert found.text == "I am very tired today."
    assert found.confidence == 0


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"to": None}, "no target language; choose de, en, fr"),
        ({"to": "es"}, "de, en, fr"),
        ({"to": "de", "source": "es"}, "does not know"),
    ],
)
def test_what_it_cannot_do(box: DocumentTranslator, wishes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        box.translate("I am here.", **wishes)


@pytest.mark.parametrize("text", [5, None, b"I am here.", ["I am here."]])
def test_a_text_must_be_a_str(box: DocumentTranslator, text: Any) -> None:
    with pytest.raises(UsageError, match=f"text must be a str, not {type(text).__name__}"):
        box.translate(text, to="de")


def test_wrong_keywords(box: DocumentTranslator) -> None:
    keywords: dict[str, Any] = {"beem": 4}
    with pytest.raises(UsageError, match="unknown search setting 'beem'"):
        box.translate("I am here.", to="de", **keywords)
    with pytest.raises(ConfigError, match="beam must be at least 1"):
        box.translate("I am here.", to="de", beam=0)


def test_search_settings_are_keywords(box: DocumentTranslator) -> None:
    assert len(box.translate("I am very tired today.", to="de", max_tokens=2, min_tokens=1).text.split()) <= 5
    assert box.translate("I am here.", to="de", beam=4, length_penalty=0.6).text


def test_reprs(box: DocumentTranslator) -> None:
    assert repr(box) == "<DocumentTranslator box: de-en, en-de, en-fr, fr-en>"
    result = box.translate("I ate an apple.", to="de")
    assert repr(result).startswith("TranslationResult('Ich habe einen Apfel gegessen.', en-de, confidence=0.")
    assert str(result) == "Ich habe einen Apfel gegessen."


def test_a_function_for_texts_and_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = []
    load = document_translator.load_translator

    def counted() -> DocumentTranslator:
        loads.append(1)
        return load()

    document_translator._box.cache_clear()
    monkeypatch.setattr(document_translator, "load_translator", counted)
    assert document_translator.translate("I ate an apple.", to="de") == "Ich habe einen Apfel gegessen."
    assert document_translator.translate(["I ate an apple.", ""], to="de") == ["Ich habe einen Apfel gegessen.", ""]
    assert document_translator.translate([], to="de") == []
    assert len(loads) == 1, "the box is loaded once"
    wrong: Any
    for wrong in (5, None, ("I",), [5], b"I"):
        with pytest.raises(UsageError, match="texts must be a str or a list of str, not "):
            document_translator.translate(wrong, to="de")
    document_translator._box.cache_clear()


def test_translate_in_one_line() -> None:
    assert regard.translate("I ate an apple.", to="de") == "Ich habe einen Apfel gegessen."


def test_a_named_source_language_that_the_text_is_not_in(box: DocumentTranslator) -> None:
    """German, called English, to be translated into German: the model writes English, which nobody asked for."""
    result = box.translate("Der Hund schläft.", source="en", to="de")
    assert result.text == "Der Hund schläft."
    assert result.notes == ("wrong language", "kept")
    assert result.confidence == 0
    assert box.translate("The dog sleeps.", source="en", to="de").text == "Der Hund schläft."
