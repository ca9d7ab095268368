"""Writes the sample corpus beside it: a few English sentences of few words, and their German.

    python recipes/sample/make.py

Small, but not a toy of word-for-word copying: genders, cases, verbs that move to the end, subjects that move behind the
verb. No sentence of the validation part is in the training part.
"""

import itertools
import random
from pathlib import Path

HERE = Path(__file__).parent

WHO = [  # English, German, gender
    ("man", "Mann", "m"),
    ("dog", "Hund", "m"),
    ("teacher", "Lehrer", "m"),
    ("woman", "Frau", "f"),
    ("cat", "Katze", "f"),
    ("sister", "Schwester", "f"),
    ("child", "Kind", "n"),
    ("girl", "Mädchen", "n"),
]
WHAT = [
    ("apple", "Apfel", "m"),
    ("tree", "Baum", "m"),
    ("ball", "Ball", "m"),
    ("flower", "Blume", "f"),
    ("street", "Straße", "f"),
    ("lamp", "Lampe", "f"),
    ("house", "Haus", "n"),
    ("book", "Buch", "n"),
]
HOW = [("small", "klein"), ("old", "alt"), ("red", "rot"), ("new", "neu"), ("beautiful", "schön")]
DO = [  # sees, saw, sieht, gesehen
    ("sees", "saw", "sieht", "gesehen"),
    ("finds", "found", "findet", "gefunden"),
    ("buys", "bought", "kauft", "gekauft"),
    ("paints", "painted", "malt", "gemalt"),
    ("looks for", "looked for", "sucht", "gesucht"),
]
WHEN = [("today", "heute"), ("on Monday", "am Montag"), ("in the evening", "am Abend")]

THE = {"m": "der", "f": "die", "n": "das"}
A_OBJECT = {"m": "einen", "f": "eine", "n": "ein"}
ENDING = {"m": "en", "f": "e", "n": "es"}


def pair(who: tuple, how: tuple, do: tuple, what: tuple, when: tuple | None, past: bool) -> tuple[str, str]:  # type: ignore[type-arg]
    article = "an" if how[0][0] in "aeio" else "a"
    english = f"the {who[0]} {do[1 if past else 0]} {article} {how[0]} {what[0]}"
    subject = f"{THE[who[2]]} {who[1]}"
    thing = f"{A_OBJECT[what[2]]} {how[1]}{ENDING[what[2]]} {what[1]}"
    verb, last = ("hat", f" {do[3]}") if past else (do[2], "")
    if when is None:
        german = f"{subject} {verb} {thing}{last}"
    else:  # what stands first in German sends the subject behind the verb
        english, german = f"{when[0]} {english}", f"{when[1]} {verb} {subject} {thing}{last}"
    return sentence(english), sentence(german)


def sentence(words: str) -> str:
    return words[0].upper() + words[1:] + "."


def main() -> None:
    everything = [pair(*parts) for parts in itertools.product(WHO, HOW, DO, WHAT, [None, *WHEN], [False, True])]
    random.Random(7).shuffle(everything)
    for part, pairs in (("train", everything[:2000]), ("valid", everything[2000:2100])):
        for side, language in enumerate(("en", "de")):
            lines = "".join(f"{one[side]}\n" for one in pairs)
            (HERE / f"{part}.{language}").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
