"""regard evaluate"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options, output, score
from regard.errors import OutputError, UsageError
from regard.plural import counted

if TYPE_CHECKING:
    from regard.decoding.settings import SearchSettings
    from regard.evaluation.decode import Outputs
    from regard.evaluation.doctor import Diagnosis, Patient
    from regard.evaluation.likelihood import Perplexity
    from regard.evaluation.translation import Casing, Comparison, Figure
    from regard.tasks import TranslationModel

SEARCH = ("beam", "length_penalty", "length_form", "patience", "repetition_penalty", "no_repeat_ngram", "max_new")
"""Settings that make sense for a test: what was sampled would be another figure each time."""
QUIET_SECONDS = 10.0
"""Between two lines about progress, where there is no terminal to draw a bar on."""

Watch = Callable[[str, int, int], None]


def search_options(command: options.Command) -> options.Command:
    for name, kind, text in reversed(options.SEARCH):
        if name[2:].replace("-", "_") in SEARCH:
            command = click.option(name, type=kind, help=text)(command)
    return command


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The command line."""

    source: Path
    target: Path
    directory: Path | None
    device: str
    to: str | None
    hypotheses: Path | None
    written: Path | None
    lower: bool
    moses: str
    other_file: Path | None
    other_model: Path | None
    doctor: bool
    search: dict[str, Any]

    def __post_init__(self) -> None:
        """What cannot work is said before anything is read."""
        if self.directory is None and self.hypotheses is None:
            raise UsageError("give a model to translate with (-m), or translations to score (--hypotheses)")
        if self.other_file is not None and self.other_model is not None:
            raise UsageError("compare with --compare or with --compare-model, not with both")
        if self.hypotheses is not None:
            named = [f"--{name.replace('_', '-')}" for name, value in self.search.items() if value is not None]
            if named and self.other_model is None:
                raise UsageError(f"{named[0]} is for translating, but the translations are given (--hypotheses)")
            if self.written is not None:
                raise UsageError("-o writes what was translated, but the translations are given (--hypotheses)")
        if self.written is not None and self.written.exists() and not self.written.is_file():
            raise OutputError(f"{self.written}: is there already, and is no file")
        options.check_output(self.written, self.source, self.target, self.other_file)

    @property
    def casing(self) -> "Casing":
        return "lower" if self.lower else "mixed"


@dataclass
class Report:
    """All that is found out, in the order in which it is shown."""

    sentences: int
    settings: "SearchSettings | None" = None
    figures: list["Figure"] = field(default_factory=list)
    perplexity: "Perplexity | None" = None
    outputs: "Outputs | None" = None
    comparison: "Comparison | None" = None
    other: str = ""
    """What it was compared with."""
    doctor: "Diagnosis | None" = None


@click.command(
    "evaluate",
    epilog="""\b
Examples:
  regard evaluate test.en test.de -m en-de -o test.out
  regard evaluate test.en test.de -m runs/en-de/model --doctor --moses de
  regard evaluate test.en test.de --hypotheses ours.de --compare theirs.de
""",
)
@click.argument("source", type=options.PATH)
@click.argument("target", type=options.PATH)
@click.option("-m", "--model", "directory", type=options.PATH, help="The model's directory.")
@options.device_option
@click.option("--to", metavar="LANGUAGE", help="The language to translate into, for a model that has several.")
@click.option("--hypotheses", type=options.PATH, help="Translations to score, instead of the model's.")
@click.option(
    "-o", "--output", "written", type=options.PATH, help="Write the translations to this file, when all is done."
)
@click.option("--lower", is_flag=True, help="Do not tell upper from lower case.")
@click.option("--moses", default="", metavar="LANG", help="Add BLEU on what the Moses tokenizer makes, cased and not.")
@click.option("--compare", "other_file", type=options.PATH, help="Another system's translations: who is better?")
@click.option("--compare-model", "other_model", type=options.PATH, help="Another model's directory: which is better?")
@click.option("--doctor", is_flag=True, help="Show what averaging, beam, length penalty, casing and tokens change.")
@options.json_option
@search_options
def command(as_json: bool, **given: Any) -> None:
    """Measure how well a model translates SOURCE, line by line, with TARGET as the reference.

    BLEU, chrF and TER come with the signatures that say how they were made, and with them how surprised the model is
    by TARGET (perplexity). Files may be gzipped. An empty line of SOURCE stays empty, and counts.
    """
    search = {name: given.pop(name) for name in SEARCH}
    report = measure(Asked(**given, search=search))
    if as_json:
        output.as_json(as_object(report))
    else:
        show(report)


def measure(asked: Asked) -> Report:
    from regard.evaluation import doctor, test_set
    from regard.evaluation.translation import bleu, compare, figures, moses_tokens

    sources, references = test_set.read(asked.source, asked.target)
    given, other = (
        test_set.read(path, asked.target)[0] if path is not None else None
        for path in (asked.hypotheses, asked.other_file)
    )
    if asked.moses:
        moses_tokens([], asked.moses, asked.casing)  # an unknown language is complained of before the work
    report, patient = Report(sentences=len(references)), None
    if asked.directory is not None:
        patient = translate(asked, load(asked.directory, asked.device), sources, references, report)
    outputs = report.outputs.texts if report.outputs is not None else given
    assert outputs is not None, "checked"
    report.figures = figures(outputs, references, casing=asked.casing)
    if asked.moses:
        kinds: tuple[Casing, ...] = ("mixed", "lower")
        report.figures += [bleu(outputs, references, casing=casing, moses=asked.moses) for casing in kinds]
    if asked.other_model is not None:
        other = translations(load(asked.other_model, asked.device), sources, asked).texts
    if other is not None:
        report.other = str(asked.other_file or asked.other_model)
        report.comparison = compare(outputs, other, references, casing=asked.casing)
    if asked.doctor:
        with watched() as watch:
            report.doctor = doctor.examine(
                outputs, references, casing=asked.casing, moses=asked.moses, patient=patient, watch=watch
            )
    return report


def translate(
    asked: Asked, model: "TranslationModel", sources: list[str], references: list[str], report: Report
) -> "Patient | None":
    """What the model has to say: about the references, and unless translations are given, its own."""
    from regard.evaluation.doctor import Patient
    from regard.evaluation.likelihood import likelihoods, perplexity

    report.perplexity = perplexity(likelihoods(model, zip(sources, references, strict=True), to=asked.to))
    if asked.hypotheses is not None:
        return None
    report.settings = settings_of(model, asked)
    with output.lines_to(asked.written) if asked.written is not None else nullcontext(lambda text: None) as say:
        report.outputs = translations(model, sources, asked)
        for text in report.outputs.texts:
            say(text)
    return Patient(model, sources, report.settings, asked.device, asked.to)


def load(directory: Path, device: str) -> "TranslationModel":
    from regard.evaluation.decode import translator

    return translator(options.load(directory, device))


def settings_of(model: "TranslationModel", asked: Asked) -> "SearchSettings":
    return options.search_settings(model, asked.search)


def translations(model: "TranslationModel", sources: list[str], asked: Asked) -> "Outputs":
    from regard.evaluation.decode import translate

    with watched() as watch:
        return translate(
            model,
            sources,
            settings_of(model, asked),
            lambda done: watch("translating", done, len(sources)),
            to=asked.to,
            name=str(asked.source),
        )


@contextmanager
def watched() -> Iterator[Watch]:
    """A progress bar, or elsewhere than on a terminal a line now and then."""
    with output.progress(0) as bar:
        started = last = time.perf_counter()

        def watch(what: str, done: int, total: int) -> None:
            nonlocal last
            now = time.perf_counter()
            if bar.live or now - last >= QUIET_SECONDS:
                last, bar.total = now, total
                bar.rich.update(bar.task, total=total)
                bar.update(done, f"{what}, {done / (now - started):.1f} sentences/s")

        yield watch


# ---- what is shown ----


def show(report: Report) -> None:
    from regard.evaluation.doctor import in_words

    how = f", {in_words(report.settings)}" if report.settings else ""
    output.say(f"{counted(report.sentences, 'sentence')}{how}")
    rows = []
    for figure in report.figures:
        rows.append((figure.name, f"{figure.value:.2f}", figure.signature))
        if figure.detail:
            rows.append(("", "", figure.detail))
    lines(rows, right=(1,))
    if report.perplexity is not None:
        output.say(score.in_words(report.perplexity))
    if (made := report.outputs) is not None:
        output.say(f"{made.sentences_per_second:.1f} sentences/s, {made.tokens_per_second:,.0f} tokens/s")
        if made.cut:
            output.say(f"cut off by the length limit: {counted(made.cut, 'translation')}")
    if report.comparison is not None:
        show_comparison(report.comparison, report.other)
    if report.doctor is not None:
        show_doctor(report.doctor)


def show_comparison(found: "Comparison", other: str) -> None:
    output.say("\npaired bootstrap")
    rows = [
        ("BLEU", f"{found.first:.2f} ± {found.first_interval:.2f}", "this one"),
        ("BLEU", f"{found.second:.2f} ± {found.second_interval:.2f}", other),
        ("p", f"{found.p_value:.4f}", found.signature),
    ]
    lines(rows, right=(1,))
    output.say(found.in_words("this one", other))


def show_doctor(found: "Diagnosis") -> None:
    output.say("\nwhat each change does")
    rows = [("", "change", "BLEU", "", "signature")]
    for line in found.lines:
        gap = "" if line is found.lines[0] else f"{round(line.difference, 2) + 0.0:+.2f}"  # + 0.0: there is no -0.00
        rows.append((line.about, line.change, f"{line.figure.value:.2f}", gap, line.figure.signature))
    lines(rows, right=(2, 3))
    for text in found.notes:
        output.say(f"not tried: {text}")


def lines(rows: Sequence[Sequence[str]], right: Sequence[int]) -> None:
    """Columns, of which some are lined up on their right. A signature is never cut, however narrow the terminal."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.rjust(widths[i]) if i in right else cell.ljust(widths[i]) for i, cell in enumerate(row)]
        output.say("  ".join(cells).rstrip())


def as_object(report: Report) -> dict[str, Any]:
    shown: dict[str, Any] = {"sentences": report.sentences, "figures": [asdict(one) for one in report.figures]}
    if report.settings is not None:
        shown["search"] = asdict(report.settings)
    if (measured := report.perplexity) is not None:
        own = {"per_token": score.finite(measured.per_token), "per_word": score.finite(measured.per_word)}
        shown["perplexity"] = own | asdict(measured)
    if (made := report.outputs) is not None:
        shown["speed"] = {
            "seconds": made.seconds,
            "tokens": made.tokens,
            "sentences_per_second": made.sentences_per_second,
            "tokens_per_second": made.tokens_per_second,
        }
        shown["cut"] = made.cut
    if report.comparison is not None:
        words = {"other": report.other, "in_words": report.comparison.in_words("this one", report.other)}
        shown["comparison"] = asdict(report.comparison) | words
    if report.doctor is not None:
        shown["doctor"] = asdict(report.doctor)
    return shown
