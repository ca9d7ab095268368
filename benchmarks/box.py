"""Turns a run of recipes/box-further.toml into the model in the box, with its card and calibration.

    python benchmarks/box.py runs/box-further regard/box [--examples 5]

Writes the run's model in int8, the language detector (from the training pairs), the calibrated confidence (from the
validation pairs), and a card with the figures of the test pairs, float32 beside int8. Prints the figures, and a few
examples of each direction's test, evenly spread, not chosen.
"""

import argparse
import shutil
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from regard.config import to_table
from regard.cpu import capabilities, threads
from regard.documents.confidence import FILE as CONFIDENCE
from regard.documents.language_detector import FILE as LANGUAGES
from regard.documents.language_detector import Languages
from regard.evaluation.aligned_files import aligned
from regard.evaluation.calibration import ParallelTexts, calibrate
from regard.evaluation.metrics import corpus_scores
from regard.io import write_json
from regard.tasks import TranslationModel, load
from regard.weights.checksums import refresh
from regard.weights.model_directory import CARD, Card
from regard.weights.quantize import quantize

PUBLISHED = {"en-de": "44.7", "de-en": "52.7", "en-fr": "53.2", "fr-en": "59.8"}
"""BLEU of the best OPUS-MT models on tatoeba-test-v2021-08-07: other sentences of the same kind."""
DETECTOR_SENTENCES = 20_000
"""Sentences of each language from which the language detector learns."""

console = Console(highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--examples", type=int, default=5)
    arguments = parser.parse_args()
    capabilities.prepare()
    threads.set_threads()
    model = load(arguments.run / "model")
    assert isinstance(model, TranslationModel)
    known = {pair: read(arguments.run, "test", pair) for pair in pairs(arguments.run)}
    full = {pair: measured(model, part)[0] for pair, part in known.items()}
    quantize(model.network)
    if arguments.directory.exists():
        shutil.rmtree(arguments.directory)
    model.save(arguments.directory)
    learn_languages(arguments.run).save(arguments.directory / LANGUAGES)
    confidence = calibrate(model, [read(arguments.run, "valid", pair) for pair in known])
    write_json(arguments.directory / CONFIDENCE, to_table(confidence))
    small = {pair: measured(model, part) for pair, part in known.items()}
    rows = [
        {
            "pair": pair,
            "sentences": f"{len(part.sources):,}",
            "BLEU": f"{small[pair][0]['BLEU']:.1f}",
            "chrF": f"{small[pair][0]['chrF2']:.1f}",
            "BLEU float32": f"{full[pair]['BLEU']:.1f}",
            "sentences/s": f"{small[pair][1]:.0f}",
            "OPUS-MT": PUBLISHED.get(pair, ""),
        }
        for pair, part in known.items()
    ]
    write_json(arguments.directory / CARD, to_table(card(rows, confidence.error or {})))
    for name in (LANGUAGES, CONFIDENCE, CARD):
        refresh(arguments.directory, name)
    show(rows, confidence.error or {})
    for pair, part in known.items():
        examples(model, pair, part, arguments.examples)


def pairs(run: Path) -> list[str]:
    return list(dict.fromkeys(path.name.split(".")[1] for path in sorted((run / "data").glob("test.*"))))


def read(run: Path, part: str, pair: str) -> ParallelTexts:
    source, target = pair.split("-")
    found = list(aligned(*(run / "data" / f"{part}.{pair}.{side}" for side in (source, target))))
    return ParallelTexts([one for one, _ in found], [other for _, other in found], target)


def measured(model: TranslationModel, known: ParallelTexts) -> tuple[dict[str, float], float]:
    """BLEU and chrF, and sentences per second."""
    started = time.perf_counter()
    outputs = model.translate(list(known.sources), to=known.to)
    seconds = time.perf_counter() - started
    return {one.name: one.value for one in corpus_scores(outputs, known.references)}, len(outputs) / seconds


def learn_languages(run: Path) -> Languages:
    texts: dict[str, list[str]] = {}
    for path in sorted((run / "data").glob("train.*")):
        lines = path.read_text(encoding="utf-8").splitlines()
        texts.setdefault(path.suffix[1:], []).extend(lines[:: max(1, 2 * len(lines) // DETECTOR_SENTENCES)])
    return Languages.learn(texts)


def card(rows: list[dict[str, str]], errors: dict[str, float]) -> Card:
    return Card(
        name="box",
        about="English to and from German and French, for everyday sentences: one small Transformer, int8.",
        pairs=tuple(row["pair"] for row in rows),
        data=(
            "Sentence pairs of Tatoeba (tatoeba.org) by its contributors, CC-BY 2.0 FR, packed by manythings.org/anki",
            "divided by English sentence; no sentence of the test is on either side of training (recipes/box.toml)",
        ),
        licence="Apache-2.0 for the weights; the data is CC-BY 2.0 FR, attribution above",
        figures=tuple(rows),
        limits=(
            "It has seen short everyday sentences and nothing else: letters, news, law and poetry are beyond it.",
            "One sentence at a time: it does not know what was said before.",
            f"Its confidence is off by {errors.get('sentence', 0):.3f} for sentences and {errors.get('word', 0):.3f} "
            "for words on average, on sentences of the same kind; on others it is a guess.",
            "German and French are translated into each other by way of English.",
        ),
    )


def show(rows: list[dict[str, str]], errors: dict[str, float]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in rows[0]:
        table.add_column(name, justify="left" if name == "pair" else "right")
    for row in rows:
        table.add_row(*row.values())
    console.print(table)
    for name, error in errors.items():
        console.print(f"calibration error of a {name}: {error:.3f}")


def examples(model: TranslationModel, pair: str, known: ParallelTexts, count: int) -> None:
    """Evenly spread over the test, which is sorted by length."""
    step = max(1, len(known.sources) // max(count, 1))
    places = range(step // 2, len(known.sources), step)[:count]
    found = model.translate([known.sources[i] for i in places], to=known.to)
    console.print(f"\n{pair}")
    for i, text in zip(places, found, strict=True):
        console.print(f"  {known.sources[i]}\n    → {text}\n    = {known.references[i]}", markup=False)


if __name__ == "__main__":
    main()
