"""Languages are told apart after a few dozen sentences, and a damaged file is told from a good one."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.documents.language_detector import Languages
from regard.errors import InputError, ModelError

SAMPLES = {
    "en": """The train to the city leaves at noon from the second platform.
        I would like to know where you have put my keys.
        She has been working in this house for more than ten years.
        There was nothing that we could do about the weather.
        Do you think that they will come back before the winter?
        My brother wants to buy a new car, but he does not have the money.
        The children were playing with their friends in the garden.
        What are you going to do when you have finished your work?
        He told us that the shop was closed and went away.
        This is the best book which I have read this year.
        Could you please open the window? It is very hot in here.
        They should have asked someone who knows the way.
        Nobody knew why the old man was laughing.
        We don't have enough time to look at everything.
        It's not easy to learn how to write well.
        If I were you, I would say something to her.
        You can't just walk through the wall, can you?
        Her mother said that she was feeling much better today.
        Most of these things were made by hand a long time ago.
        Let me show you what happened while you were away.
        The light in the kitchen is still on.
        He must have thought it was a joke.
        Which of those houses is yours, the white or the green one?
        I've never seen so many birds on one tree.""",
    "de": """Der Zug in die Stadt fährt mittags vom zweiten Gleis ab.
        Ich möchte wissen, wohin du meine Schlüssel gelegt hast.
        Sie arbeitet schon seit mehr als zehn Jahren in diesem Haus.
        Gegen das Wetter konnten wir nichts machen.
        Glaubst du, dass sie vor dem Winter zurückkommen werden?
        Mein Bruder will ein neues Auto kaufen, aber er hat kein Geld.
        Die Kinder spielten mit ihren Freunden im Garten.
        Was machst du, wenn du mit deiner Arbeit fertig bist?
        Er sagte uns, dass das Geschäft geschlossen war, und ging weg.
        Das ist das beste Buch, das ich in diesem Jahr gelesen habe.
        Könnten Sie bitte das Fenster öffnen? Es ist sehr heiß hier.
        Sie hätten jemanden fragen sollen, der den Weg kennt.
        Niemand wusste, warum der alte Mann lachte.
        Wir haben nicht genug Zeit, um uns alles anzusehen.
        Es ist nicht leicht, gut schreiben zu lernen.
        An deiner Stelle würde ich ihr etwas sagen.
        Man kann doch nicht einfach durch die Wand gehen, oder?
        Ihre Mutter meinte, dass es ihr heute viel besser gehe.
        Die meisten dieser Sachen wurden vor langer Zeit von Hand gemacht.
        Lass mich dir zeigen, was geschah, während du fort warst.
        Das Licht in der Küche brennt noch.
        Er muss es für einen Scherz gehalten haben.
        Welches von den Häusern ist eures, das weiße oder das grüne?
        Ich habe noch nie so viele Vögel auf einem Baum gesehen.""",
    "fr": """Le train pour la ville part à midi du deuxième quai.
        J'aimerais savoir où tu as mis mes clés.
        Elle travaille dans cette maison depuis plus de dix ans.
        Nous ne pouvions rien faire contre le temps.
        Penses-tu qu'ils reviendront avant l'hiver ?
        Mon frère veut acheter une nouvelle voiture, mais il n'a pas d'argent.
        Les enfants jouaient avec leurs amis dans le jardin.
        Que vas-tu faire quand tu auras fini ton travail ?
        Il nous a dit que le magasin était fermé et il est parti.
        C'est le meilleur livre que j'ai lu cette année.
        Pourriez-vous ouvrir la fenêtre, s'il vous plaît ? Il fait très chaud ici.
        Ils auraient dû demander à quelqu'un qui connaît le chemin.
        Personne ne savait pourquoi le vieil homme riait.
        Nous n'avons pas assez de temps pour tout regarder.
        Ce n'est pas facile d'apprendre à bien écrire.
        À ta place, je lui dirais quelque chose.
        On ne peut pas traverser un mur, n'est-ce pas ?
        Sa mère a dit qu'elle allait beaucoup mieux aujourd'hui.
        La plupart de ces choses ont été faites à la main il y a longtemps.
        Laisse-moi te montrer ce qui s'est passé pendant que tu étais parti.
        La lumière de la cuisine est encore allumée.
        Il a dû croire que c'était une plaisanterie.
        Laquelle de ces maisons est la vôtre, la blanche ou la verte ?
        Je n'ai jamais vu autant d'oiseaux sur un seul arbre.""",
}
KNOWN = Languages.learn({language: text.splitlines() for language, text in SAMPLES.items()})
UNSEEN = [
    ("en", "Where is the station?"),
    ("en", "I have not seen him since yesterday."),
    ("en", "The cat sleeps on the chair."),
    ("en", "That's what I wanted to hear!"),
    ("en", "THEY DO NOT KNOW WHAT THEY WANT."),
    ("en", "See https://beispiel.example/der/die/das and write to wir.sind@das-haus.example, thank you."),
    ("en", "On 24.12.2023 at 18:30 there were 1,250 people."),
    ("de", "Wo ist der Bahnhof?"),
    ("de", "Ich habe ihn seit gestern nicht gesehen."),
    ("de", "Die Katze schläft auf dem Stuhl."),
    ("de", "Das wollte ich hören!"),
    ("de", "SIE WISSEN NICHT, WAS SIE WOLLEN."),
    ("de", "Siehe www.the-house-of-the-rising-sun.example/what/is/this oder frag mich."),
    ("de", "Am 24.12.2023 um 18:30 Uhr waren 1.250 Leute da."),
    ("de", "scho\u0308n fu\u0308r u\u0308ber"),
    ("fr", "Où est la gare ?"),
    ("fr", "Je ne l'ai pas vu depuis hier."),
    ("fr", "Le chat dort sur la chaise."),
    ("fr", "C’est ce que je voulais entendre !"),
    ("fr", "ILS NE SAVENT PAS CE QU'ILS VEULENT."),
    ("fr", "Voir http://the.example/with?what=that pour les autres."),
    ("fr", "Le 24/12/2023 à 18 h 30, il y avait 1 250 personnes."),
]


@pytest.mark.parametrize(("language", "text"), UNSEEN)
def test_unseen_sentences(language: str, text: str) -> None:
    (best, probability), *others = KNOWN.detect(text)
    assert best == language
    assert probability > 0.6
    assert {best, *(name for name, _ in others)} == set(KNOWN.known)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n",
        "12345 67.8 %",
        "?!… — «»",
        "https://the.example/house a@the.example",
        "日本語です",
        "Привет, мир!",
        "😀",
    ],
)
def test_what_says_nothing_leaves_all_as_likely(text: str) -> None:
    assert KNOWN.detect(text) == [(language, pytest.approx(1 / 3)) for language in ("en", "de", "fr")]


@given(st.text())
def test_probabilities(text: str) -> None:
    found = KNOWN.detect(text)
    assert sum(probability for _, probability in found) == pytest.approx(1.0)
    assert found == sorted(found, key=lambda pair: -pair[1])
    assert all(0.0 <= probability <= 1.0 for _, probability in found)


def test_only_the_first_characters_of_a_long_text_count() -> None:
    text = "Wo ist denn der Hund geblieben? " * 200
    assert KNOWN.detect(text + "Where is the dog? " * 100_000) == KNOWN.detect(text)


def test_one_language_is_all_there_is() -> None:
    assert Languages.learn({"en": ["the house"]}).detect("das Haus") == [("en", 1.0)]


@pytest.mark.parametrize("texts", [{}, {"en": []}, {"en": ["the house"], "de": ["123"]}])
def test_nothing_to_learn_from(texts: dict[str, list[str]]) -> None:
    with pytest.raises(InputError, match=r"no languages to learn|have no words"):
        Languages.learn(texts)


def test_a_file_gives_the_same_answers(tmp_path: Path) -> None:
    path = tmp_path / "new" / "languages.json"
    KNOWN.save(path)
    assert path.stat().st_size < 150_000
    loaded = Languages.load(path)
    assert loaded.known == KNOWN.known == ("en", "de", "fr")
    assert [loaded.detect(text) for _, text in UNSEEN] == [KNOWN.detect(text) for _, text in UNSEEN]
    content = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "change",
    [
        {"format": "another"},
        {"known": []},
        {"known": "en"},
        {"known": ["en", "en"]},
        {"known": ["en", 3]},
        {"known": ["en", "de", ""]},
        {"scores": []},
        {"scores": {"a": 1}},
        {"scores": {"a": [1]}},
        {"scores": {"a": [1, 2.5]}},
        {"scores": {"a": [1, True]}},
        {"scores": {"a": [1, 10**30]}},
    ],
)
def test_damaged_files(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "languages.json"
    good = {"format": "regard languages 1", "known": ["en", "de"], "scores": {"a": [1, -1]}}
    path.write_text(json.dumps(good))
    assert Languages.load(path).known == ("en", "de")
    path.write_text(json.dumps(good | change))
    with pytest.raises(ModelError, match=r"languages\.json: [^\n]+$"):
        Languages.load(path)


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{", b"\xff\xfe", b"[" * 200_000, b'{"format": NaN}'])
def test_files_of_something_else(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "languages.json"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"languages\.json: [^\n]+$"):
        Languages.load(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"languages\.json: cannot be read"):
        Languages.load(tmp_path / "languages.json")
    with pytest.raises(ModelError, match=r"cannot be read"):
        Languages.load(tmp_path)


def test_many_languages_take_no_time(tmp_path: Path) -> None:
    known = [f"l{i}" for i in range(1000)]
    row = [0] * 999 + [100]
    (tmp_path / "languages.json").write_text(
        json.dumps({"format": "regard languages 1", "known": known, "scores": {"tra": row}})
    )
    begin = time.process_time()
    found = Languages.load(tmp_path / "languages.json").detect("train " * 100)
    assert found[0][0] == "l999"
    assert time.process_time() - begin < 5
    known = [f"l{i}" for i in range(40_000)]
    (tmp_path / "languages.json").write_text(json.dumps({"format": "regard languages 1", "known": known, "scores": {}}))
    with pytest.raises(ModelError, match=r"^[^\n]*languages\.json: 'known' has 40,000 languages, more than 1,000$"):
        Languages.load(tmp_path / "languages.json")


def test_a_language_file_that_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "languages.json")
    with pytest.raises(ModelError, match=r"languages\.json: cannot be read \(it is not a regular file\)$"):
        Languages.load(tmp_path / "languages.json")
