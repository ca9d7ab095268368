"""regard evaluate"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options, output, score
from regard.errors import OutputError, UsageError, printable
from regard.plural import counted

if TYPE_CHECKING:
    from regard.decoding.settings import SearchSettings
    from regard.evaluation.bleu_doctor import Baseline, Diagnosis
    from regard.evaluation.likelihood import Perplexity
    from regard.evaluation.metrics import Casing, Comparison, MetricScore
    from regard.evaluation.translate_test_set import Outputs
    from regard.tasks import TranslationModel

SEARCH_OPTIONS = (
    "beam",
    "length_penalty",
    "length_form",
    "patience",
    "repetition_penalty",
    "no_repeat_ngram",
    "max_tokens",
)
"""Without sampling, which would give another score each time."""
SECONDS_PER_LINE = 10.0
"""Between two lines of progress, where there is no terminal for a bar."""

OnProgress = Callable[[str, int, int], None]
"""Called with the activity, the sentences done and all sentences."""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The parsed command line."""

    source: Path
    target: Path
    directory: Path | None
    device: str
    to: str | None
    hypotheses: Path | None
    output: Path | None
    lower: bool
    moses: str
    other_file: Path | None
    other_model: Path | None
    doctor: bool
    search: dict[str, Any]

    def __post_init__(self) -> None:
        """Check what can be checked before reading any file."""
        if self.directory is None and self.hypotheses is None:
            raise UsageError("give a model (-m), or translations to score (--hypotheses)")
        if self.other_file is not None and self.other_model is not None:
            raise UsageError("give --compare or --compare-model, not both")
        if self.hypotheses is not None:
            given = [
                options.option_name(name) for name, value in {**self.search, "to": self.to}.items() if value is not None
            ]
            if given and self.other_model is None:
                raise UsageError(f"{given[0]} needs a model that translates; it does not go with --hypotheses")
            if self.output is not None:
                raise UsageError("-o needs a model that translates; it does not go with --hypotheses")
        if self.output is not None and self.output.exists() and not self.output.is_file():
            raise OutputError(f"{self.output}: exists and is not a file")
        options.check_output(self.output, self.source, self.target, self.other_file)

    @property
    def casing(self) -> "Casing":
        return "lower" if self.lower else "mixed"


@dataclass
class Report:
    """All results, in the order of printing."""

    sentences: int
    settings: "SearchSettings | None" = None
    scores: list["MetricScore"] = field(default_factory=list)
    perplexity: "Perplexity | None" = None
    outputs: "Outputs | None" = None
    comparison: "Comparison | None" = None
    other: str = ""
    """The file or model compared with."""
    doctor: "Diagnosis | None" = None


@click.command(
    "evaluate",
    cls=options.Verb,
    epilog="""\b
Examples:
  regard evaluate test.en test.de -m en-de -o test.out
  regard evaluate test.en test.de -m runs/en-de/model --doctor --moses de
  regard evaluate test.en test.de --hypotheses ours.de --compare theirs.de
""",
)
@click.argument("source", type=options.PATH)
@click.argument("target", type=options.PATH)
@click.option("-m", "--model", "directory", type=options.PATH, metavar="DIR", help="Model directory.")
@options.device_option
@click.option("--to", metavar="LANGUAGE", help="Target language, for a model with several.")
@click.option(
    "--hypotheses", type=options.PATH, metavar="FILE", help="Score these translations instead of the model's."
)
@click.option("-o", "--output", type=options.PATH, metavar="FILE", help="Write the translations to this file.")
@click.option("--lower", is_flag=True, help="Ignore case.")
@click.option("--moses", default="", metavar="LANGUAGE", help="Add BLEU on Moses tokens, cased and lowercased.")
@click.option(
    "--compare", "other_file", type=options.PATH, metavar="FILE", help="Compare with another system's translations."
)
@click.option("--compare-model", "other_model", type=options.PATH, metavar="DIR", help="Compare with another model.")
@click.option(
    "--doctor", is_flag=True, help="Show what averaging, beam, length penalty, casing and tokenization change."
)
@options.json_option
@partial(options.search_options, names=SEARCH_OPTIONS)
def command(as_json: bool, **given: Any) -> None:
    """Score a model's translations of SOURCE against the references in TARGET, line by line.

    Prints BLEU, chrF and TER with their sacrebleu signatures, and the model's perplexity on TARGET. Files may be
    gzipped. An empty source line has an empty translation, and counts.
    """
    search = {name: given.pop(name) for name in SEARCH_OPTIONS}
    report = evaluate(Arguments(**given, search=search))
    if as_json:
        output.as_json(as_object(report))
    else:
        show(report)


def evaluate(arguments: Arguments) -> Report:
    from regard.evaluation import aligned_files, bleu_doctor
    from regard.evaluation.metrics import bleu, compare, corpus_scores, moses_tokens

    sources, references = aligned_files.read(arguments.source, arguments.target)
    given, other = (
        aligned_files.read(path, arguments.target)[0] if path is not None else None
        for path in (arguments.hypotheses, arguments.other_file)
    )
    if arguments.moses:
        moses_tokens([], arguments.moses, arguments.casing)  # fail now for an unknown language
    report, baseline = Report(sentences=len(references)), None
    if arguments.directory is not None:
        baseline = run_model(arguments, load(arguments.directory, arguments), sources, references, report)
    outputs = report.outputs.texts if report.outputs is not None else given
    assert outputs is not None, "checked"
    report.scores = corpus_scores(outputs, references, casing=arguments.casing)
    if arguments.moses:
        kinds: tuple[Casing, ...] = ("mixed", "lower")
        report.scores += [bleu(outputs, references, casing=casing, moses=arguments.moses) for casing in kinds]
    if arguments.other_model is not None:
        other = translations(load(arguments.other_model, arguments), sources, arguments).texts
    if other is not None:
        report.other = str(arguments.other_file or arguments.other_model)
        report.comparison = compare(outputs, other, references, casing=arguments.casing)
    if arguments.doctor:
        with progress() as on_progress:
            report.doctor = bleu_doctor.examine(
                outputs,
                references,
                casing=arguments.casing,
                moses=arguments.moses,
                baseline=baseline,
                on_progress=on_progress,
            )
    return report


def run_model(
    arguments: Arguments, model: "TranslationModel", sources: list[str], references: list[str], report: Report
) -> "Baseline | None":
    """Add the perplexity of the references to the report and, without --hypotheses, the model's translations."""
    from regard.evaluation.bleu_doctor import Baseline
    from regard.evaluation.likelihood import likelihoods, perplexity

    report.perplexity = perplexity(likelihoods(model, zip(sources, references, strict=True), to=arguments.to))
    if arguments.hypotheses is not None:
        return None
    report.settings = search_settings(model, arguments)
    with (
        output.line_writer(arguments.output)
        if arguments.output is not None
        else nullcontext(lambda text: None) as write
    ):
        report.outputs = translations(model, sources, arguments)
        for text in report.outputs.texts:
            write(text)
    return Baseline(model, sources, report.settings, arguments.device, arguments.to)


def load(directory: Path, arguments: Arguments) -> "TranslationModel":
    from regard.evaluation.translate_test_set import require_translation_model

    model = require_translation_model(options.load(directory, arguments.device))
    model.require_target_language(arguments.to)
    return model


def search_settings(model: "TranslationModel", arguments: Arguments) -> "SearchSettings":
    return options.search_settings(arguments.search, model)


def translations(model: "TranslationModel", sources: list[str], arguments: Arguments) -> "Outputs":
    from regard.evaluation.translate_test_set import translate

    with progress() as on_progress:
        return translate(
            model,
            sources,
            search_settings(model, arguments),
            lambda done: on_progress("translating", done, len(sources)),
            to=arguments.to,
            name=str(arguments.source),
        )


@contextmanager
def progress() -> Iterator[OnProgress]:
    """Show a progress bar on a terminal, a line every few seconds elsewhere."""
    with output.progress(0) as bar:
        started = last = time.perf_counter()

        def on_progress(activity: str, done: int, total: int) -> None:
            nonlocal last
            now = time.perf_counter()
            if bar.live or now - last >= SECONDS_PER_LINE:
                last, bar.total = now, total
                bar.rich.update(bar.task, total=total)
                bar.update(done, f"{activity}, {done / (now - started):.1f} sentences/s")

        yield on_progress


# ---- printing ----


def show(report: Report) -> None:
    from regard.evaluation.bleu_doctor import in_words

    how = f", {in_words(report.settings)}" if report.settings else ""
    output.echo(f"{counted(report.sentences, 'sentence')}{how}")
    rows = []
    for metric in report.scores:
        rows.append((metric.name, f"{metric.value:.2f}", metric.signature))
        if metric.detail:
            rows.append(("", "", metric.detail))
    columns(rows, right=(1,))
    if report.perplexity is not None:
        output.echo(score.in_words(report.perplexity))
    if (outputs := report.outputs) is not None:
        output.echo(f"{outputs.sentences_per_second:.1f} sentences/s, {outputs.tokens_per_second:,.0f} tokens/s")
        if outputs.cut:
            output.echo(f"cut off by the length limit: {counted(outputs.cut, 'translation')}")
    if report.comparison is not None:
        show_comparison(report.comparison, report.other)
    if report.doctor is not None:
        show_doctor(report.doctor)


def show_comparison(comparison: "Comparison", other: str) -> None:
    output.echo("\npaired bootstrap")
    rows = [
        ("BLEU", f"{comparison.first:.2f} ± {comparison.first_interval:.2f}", "this one"),
        ("BLEU", f"{comparison.second:.2f} ± {comparison.second_interval:.2f}", other),
        ("p", f"{comparison.p_value:.4f}", comparison.signature),
    ]
    columns(rows, right=(1,))
    output.echo(printable(comparison.in_words("this one", other)))


def show_doctor(diagnosis: "Diagnosis") -> None:
    output.echo("\nwhat each change does")
    rows = [("", "change", "BLEU", "", "signature")]
    for line in diagnosis.lines:
        gap = (
            "" if line is diagnosis.lines[0] else f"{round(line.difference, 2) + 0.0:+.2f}"
        )  # + 0.0: there is no -0.00
        rows.append((line.about, line.change, f"{line.figure.value:.2f}", gap, line.figure.signature))
    columns(rows, right=(2, 3))
    for text in diagnosis.notes:
        output.echo(printable(f"not tried: {text}"))


def columns(rows: Sequence[Sequence[str]], right: Sequence[int]) -> None:
    """Print columns, those in `right` right-aligned. Signatures are never cut, however narrow the terminal."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.rjust(widths[i]) if i in right else cell.ljust(widths[i]) for i, cell in enumerate(row)]
        output.echo(printable("  ".join(cells).rstrip()))


def as_object(report: Report) -> dict[str, Any]:
    fields: dict[str, Any] = {"sentences": report.sentences, "figures": [asdict(one) for one in report.scores]}
    if report.settings is not None:
        fields["search"] = asdict(report.settings)
    if (measured := report.perplexity) is not None:
        ratios = {"per_token": score.finite(measured.per_token), "per_word": score.finite(measured.per_word)}
        fields["perplexity"] = ratios | asdict(measured)
    if (outputs := report.outputs) is not None:
        fields["speed"] = {
            "seconds": outputs.seconds,
            "tokens": outputs.tokens,
            "sentences_per_second": outputs.sentences_per_second,
            "tokens_per_second": outputs.tokens_per_second,
        }
        fields["cut"] = outputs.cut
    if report.comparison is not None:
        words = {"other": report.other, "in_words": report.comparison.in_words("this one", report.other)}
        fields["comparison"] = asdict(report.comparison) | words
    if report.doctor is not None:
        fields["doctor"] = asdict(report.doctor)
    return fields
