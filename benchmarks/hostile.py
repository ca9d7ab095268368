"""Translates thousands of hostile inputs and checks the output, the time and the memory.

    python benchmarks/hostile.py [--count 10000] [--seed 1] [-m DIR]

Inputs are single words, one letter a thousand times, emoji, scripts and languages that the model does not know, lines
of 100 kB, control characters, unclosed markup, and placeholders of every kind. For each: no crash, no loop that the
source does not have, and everything that must survive is there as often as before. The exit code is 1 after a failure.
"""

import argparse
import random
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from regard.cpu import capabilities, threads
from regard.decoding.hypothesis import LOOP_REPEATS, repeats
from regard.documents.document_translator import DocumentTranslator, load_translator
from regard.documents.formats.files import Format, parse
from regard.documents.options import TranslationOptions
from regard.documents.passage import Passage
from regard.documents.protect import spans

SENTENCES = {
    "en": "the cat sat on a mat and I ate an apple because Tom said it would rain tomorrow in Boston",
    "de": "die Katze saß auf einer Matte und ich aß einen Apfel weil Tom sagte dass es morgen regnet",
    "fr": "le chat était assis et j'ai mangé une pomme parce que Tom a dit qu'il pleuvrait demain à Paris",
}
WORDS = {language: sentence.split() for language, sentence in SENTENCES.items()}
FOREIGN = [
    "Я съел яблоко сегодня утром",
    "我今天早上吃了一个苹果",
    "أكلت تفاحة هذا الصباح",
    "Olen syönyt omenan",
    "ฉันกินแอปเปิ้ล",
]
EMOJI = "😀🎉👨‍👩‍👧‍👦❤️🏳️‍🌈👍🏽🇩🇪"
KEPT = [
    "%s",
    "%1$s",
    "{name}",
    "${x}",
    "https://a.org/b?c=d",
    "me@example.org",
    "`rm -rf /`",
    "5 km",
    "%d",
    "{{x}}",
    "12:30",
]
TAGS = ["<b>", "</b>", "<a href='x'>", "</a>", "<br/>", "<i", "&amp;", "<p>", "</div>", "<!--", "<script>"]
LONG = 100_000

console = Console(highlight=False)


def words(luck: random.Random) -> str:
    return " ".join(luck.choices(WORDS[luck.choice(list(WORDS))], k=luck.randint(1, 12)))


def one_word(luck: random.Random) -> str:
    return luck.choice(WORDS[luck.choice(list(WORDS))])


def one_letter(luck: random.Random) -> str:
    return luck.choice("aZ.!ß-0 ") * luck.choice([1, 50, 1000])


def one_word_again(luck: random.Random) -> str:
    return " ".join([one_word(luck)] * luck.choice([5, 40, 200]))


def emoji(luck: random.Random) -> str:
    return " ".join(luck.choices([*EMOJI, *WORDS["en"]], k=luck.randint(1, 30)))


def scripts(luck: random.Random) -> str:
    return " ".join(luck.choices([*FOREIGN, *WORDS["en"]], k=luck.randint(1, 8)))


def controls(luck: random.Random) -> str:
    return "".join(
        luck.choices([chr(i) for i in range(32) if i != 10] + ["\u202e", "\ufeff", "\x7f", " a", "b "], k=60)
    )


def any_characters(luck: random.Random) -> str:
    return "".join(chr(luck.randrange(0x20, 0xD000)) for _ in range(luck.randint(1, 60)))


def placeholders(luck: random.Random) -> str:
    return " ".join(luck.choices([*KEPT, *WORDS["en"]], k=luck.randint(2, 25)))


def markup(luck: random.Random) -> str:
    return " ".join(luck.choices([*TAGS, *KEPT, *WORDS["en"]], k=luck.randint(2, 25)))


def capitals(luck: random.Random) -> str:
    return words(luck).upper()


def long_line(luck: random.Random) -> str:
    filler = luck.choice(["a", "ab ", "the cat ", "{", "<b>", "😀", "1", "Tom said so. "])
    return (filler * (LONG // len(filler) + 1))[:LONG]


KINDS: list[Callable[[random.Random], str]] = [
    words,
    one_word,
    one_letter,
    one_word_again,
    emoji,
    scripts,
    controls,
    any_characters,
    placeholders,
    markup,
    capitals,
]
LONG_EVERY = 500
"""Every n-th input is a long line, which costs as much as a thousand others."""


def inputs(count: int, seed: int) -> list[tuple[str, str]]:
    """The kind and the text of each input."""
    luck = random.Random(seed)
    chosen = [long_line if i % LONG_EVERY == LONG_EVERY - 1 else KINDS[i % len(KINDS)] for i in range(count)]
    return [(kind.__name__, kind(luck)) for kind in chosen]


def failures_of(translator: DocumentTranslator, text: str, to: str, form: Format) -> list[str]:
    """What is wrong with the translation of one text."""
    document = parse(text, form, source=None, target=to)
    results = translator.translate_passages(document.passages, TranslationOptions(to=to))
    written = document.render([one.passage for one in results])
    wrong = []
    encode = translator.model.tokenizer.encode
    for passage, one in zip(document.passages, results, strict=True):
        if repeats(encode(one.text)[:2000]) > max(LOOP_REPEATS, repeats(encode(passage.text)[:2000]) + 2):
            wrong.append("loop")
        if not intact(kept(passage), one.text):
            wrong.append("placeholders")
        if sorted(mark.raw for mark in passage.marks) != sorted(mark.raw for mark in one.passage.marks):
            wrong.append("marks")
    if form == "plain" and len(written.split("\n")) != len(text.split("\n")):
        wrong.append("lines")
    return wrong


def intact(source_kept: Sequence[str], text: str) -> bool:
    """Whether the text has each kept string at least as often as all kept strings together, in any order.

    Of "%s" and "%s)", the text must have "%s" twice: the one in "%s)" cannot stand for the other. A digit at the edge
    of a kept string must not touch another digit: "5" is not in "15", nor in "5" and "7" that became "57".
    """
    together = "".join(source_kept)
    border = next(chr(code) for code in range(0xE000, 0x110000) if chr(code) not in together)
    together = border.join(source_kept)
    for kept in set(source_kept) - {""}:
        before, after = (r"(?<!\d)" if kept[0].isdecimal() else ""), (r"(?!\d)" if kept[-1].isdecimal() else "")
        pattern = re.compile(before + re.escape(kept) + after)
        if len(pattern.findall(text)) < len(pattern.findall(together)):
            return False
    return True


def kept(passage: Passage) -> list[str]:
    return [passage.text[start:end] for start, end in spans(passage.text, passage.fixed)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-m", "--model", type=Path)
    arguments = parser.parse_args()
    capabilities.prepare()
    threads.set_threads()
    translator = load_translator(arguments.model)
    failures: Counter[str] = Counter()
    slowest: dict[str, float] = {}
    started = time.perf_counter()
    for number, (kind, text) in enumerate(inputs(arguments.count, arguments.seed)):
        before = time.perf_counter()
        form: Format = "html" if kind == "markup" and number % 2 else "plain"
        for wrong in failures_of(translator, text, ["de", "en", "fr"][number % 3], form):
            failures[f"{kind}: {wrong}"] += 1
            console.print(f"{number} {kind} {wrong}: {text[:100]!r}", markup=False)
        slowest[kind] = max(slowest.get(kind, 0.0), time.perf_counter() - before)
    for kind, seconds in sorted(slowest.items(), key=lambda pair: -pair[1]):
        console.print(f"{kind:16} {seconds:6.2f} s at most")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    took = time.perf_counter() - started
    console.print(
        f"{arguments.count:,} inputs in {took:.0f} s, {peak:.0f} MB at most, {sum(failures.values())} failures"
    )
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
