"""Explain a BLEU score: change one thing at a time and report the new score with its signature.

Some changes need another search (beam, length penalty), some another model (averaging), and some only score the same
translations differently (casing, tokenization). No search runs twice.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from regard.decoding.settings import LengthForm, SearchSettings
from regard.evaluation.metrics import Casing, MetricScore, bleu
from regard.evaluation.translate_test_set import require_translation_model, translate
from regard.tasks import TranslationModel, load
from regard.training import checkpoint
from regard.training.export import write_mean
from regard.training.run_directory import RECIPE, STATE, read_recipe

BEAMS = (1, 4, 8)
LENGTH_PENALTIES: tuple[tuple[float, LengthForm], ...] = (
    (0.0, "plain"),
    (0.6, "paper"),
    (1.0, "paper"),
    (1.0, "plain"),
)
"""None; that of "Attention is all you need"; its form with exponent 1; the mean log-probability."""
TOKENIZERS = ("13a", "intl", "char", "none")

OnProgress = Callable[[str, int, int], None]
"""Called with the change being tried, the sentences done, and their total number."""


@dataclass(frozen=True)
class Line:
    about: str
    change: str
    figure: MetricScore
    difference: float
    """Compared with the baseline."""


@dataclass
class Diagnosis:
    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What could not be tried, and what it needs."""

    def add(self, about: str, change: str, figure: MetricScore) -> None:
        base = self.lines[0].figure.value if self.lines else figure.value
        self.lines.append(Line(about, change, figure, figure.value - base))


@dataclass(frozen=True)
class Baseline:
    """The model and search that made the translations, to make others with."""

    model: TranslationModel
    sources: Sequence[str]
    settings: SearchSettings
    device: str = "auto"
    to: str | None = None
    """The target language, for a model with several."""


def examine(
    outputs: Sequence[str],
    references: Sequence[str],
    *,
    casing: Casing = "mixed",
    moses: str = "",
    baseline: Baseline | None = None,
    on_progress: OnProgress | None = None,
) -> Diagnosis:
    """Change one thing at a time. Without a baseline model, only the scoring can change."""
    found = Diagnosis()
    how = in_words(baseline.settings) if baseline else "the translations as given"
    found.add("base line", how, bleu(outputs, references, casing=casing))
    if baseline is None:
        found.notes.append("beam, length penalty and averaging: need a translation model (-m, without --hypotheses)")
    else:
        for about, change, texts in _retranslated(baseline, outputs, found.notes, on_progress):
            found.add(about, change, bleu(texts, references, casing=casing))
    for about, change, kind in countings(casing, moses):
        found.add(about, change, bleu(outputs, references, **kind))
    if not moses:
        found.notes.append("Moses tokenization and compound splitting: need the target language (--moses de)")
    return found


def in_words(settings: SearchSettings) -> str:
    if settings.beam == 1:
        return "greedy search"
    return f"beam {settings.beam}, length penalty {settings.length_penalty:g} {settings.length_form}"


def canonical(settings: SearchSettings) -> SearchSettings:
    """One form for settings with the same result: greedy search ignores the length penalty."""
    if settings.beam == 1:
        return replace(settings, length_penalty=1.0, length_form="plain", patience=None)
    return replace(settings, length_form="plain") if settings.length_penalty == 0 else settings


def searches(base: SearchSettings) -> list[tuple[str, str, SearchSettings]]:
    """Other searches, all different from the baseline and from each other. A length penalty needs a beam."""
    beams = [("beam", f"beam {beam}", replace(base, beam=beam)) for beam in BEAMS]
    wide = base if base.beam > 1 else replace(base, beam=BEAMS[1])
    needed = "" if base.beam > 1 else f"beam {wide.beam}, "
    lengths = [
        (
            "length penalty",
            f"{needed}{'none' if exponent == 0 else f'{exponent:g} {form}'}",
            replace(wide, length_penalty=exponent, length_form=form),
        )
        for exponent, form in LENGTH_PENALTIES
    ]
    seen, kept = {canonical(base)}, []
    for about, change, settings in beams + lengths:
        if canonical(settings) not in seen:
            seen.add(canonical(settings))
            kept.append((about, change, settings))
    return kept


def means(run: Path) -> list[tuple[str, tuple[Path, ...]]]:
    """The models that the checkpoints of a run can make: single checkpoints and means of several."""
    valid = {path: score for path, score in checkpoint.validated(run / STATE) if checkpoint.damage(path) is None}
    if not valid:
        return []
    last, best = list(valid), sorted(valid, key=valid.__getitem__)
    moving = " (its moving average)" if (last[-1] / checkpoint.AVERAGE).exists() else ""
    made: dict[tuple[Path, ...], str] = {(last[-1],): f"the newest checkpoint alone{moving}"}
    made.setdefault((best[-1],), f"the best checkpoint alone{moving}")
    train = read_recipe(run).train
    for count in sorted({min(train.average, len(last)), len(last)}):
        made.setdefault(tuple(last[-count:]), f"the mean of the last {count}")
        if train.average_best:
            made.setdefault(tuple(sorted(best[-count:])), f"the mean of the best {count}")
    return [(change, paths) for paths, change in made.items()]


def countings(casing: Casing, moses: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Other ways to score the same translations."""
    other: Casing = "mixed" if casing == "lower" else "lower"
    kinds: list[tuple[str, str, dict[str, Any]]] = [("casing", f"{other} case", {"casing": other})]
    kinds += [("tokens", tokens, {"casing": casing, "tokens": tokens}) for tokens in TOKENIZERS if tokens != "13a"]
    if moses:
        options = {"casing": casing, "moses": moses}
        kinds.append(("tokens", f"Moses ({moses})", options))
        kinds.append(("tokens", f"Moses ({moses}), compounds split", options | {"compounds": True}))
    return kinds


def _retranslated(
    baseline: Baseline, outputs: Sequence[str], notes: list[str], on_progress: OnProgress | None
) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Every change that needs the model, with its translations."""
    run = baseline.model.source.absolute().parent
    in_run = (run / STATE).is_dir() and (run / RECIPE).is_file()
    models = means(run) if in_run else []
    if not in_run:
        notes.append("averaging: needs the checkpoints of a run, so a model inside one (-m RUN/model)")
    elif not models:
        notes.append(f"averaging: {run / 'state'} has no valid checkpoint that was validated")
    plans = searches(baseline.settings)
    sentences, rounds = len(baseline.sources), len(plans) + len(models)

    def again(number: int, change: str, model: TranslationModel, settings: SearchSettings) -> list[str]:
        def tick(done: int) -> None:
            if on_progress is not None:
                on_progress(change, number * sentences + done, rounds * sentences)

        return translate(model, baseline.sources, settings, tick, to=baseline.to).texts

    for number, (about, change, settings) in enumerate(plans):
        yield about, change, again(number, change, baseline.model, settings)
    for number, (change, paths) in enumerate(models, len(plans)):
        with _mean(run, paths, baseline.device) as model:
            if _same_weights(model, baseline.model):
                yield "averaging", f"{change}, as it is", outputs
            else:
                yield "averaging", change, again(number, change, model, baseline.settings)


@contextmanager
def _mean(run: Path, paths: Sequence[Path], device: str) -> Iterator[TranslationModel]:
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        write_mean(Path(folder) / "model", read_recipe(run), run, list(paths))
        yield require_translation_model(load(Path(folder) / "model", device=device))


def _same_weights(one: TranslationModel, other: TranslationModel) -> bool:
    ours, theirs = (dict(model.network.named_parameters()) for model in (one, other))
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
