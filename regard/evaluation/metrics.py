"""BLEU, chrF and TER from sacrebleu, with their signatures; and significance tests.

BLEU without its signature says little: the same output of a good English-German model on a well-known test set scores
28.6 with sacrebleu's own tokenization and 29.3 with the compound splitting of an old paper.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

from regard.errors import InputError, UsageError
from regard.plural import counted

Casing = Literal["mixed", "lower"]


@dataclass(frozen=True)
class MetricScore:
    """One metric of a whole test set."""

    name: str
    value: float
    signature: str
    detail: str = ""
    """BLEU only: n-gram precisions, brevity penalty, lengths."""


def corpus_scores(outputs: Sequence[str], references: Sequence[str], *, casing: Casing = "mixed") -> list[MetricScore]:
    """BLEU, chrF and TER as the command `sacrebleu` computes them from plain text.

    TER always ignores case, as it does there; its signature says so.
    """
    _same_length(outputs, references)
    lower = casing == "lower"
    scores = []
    for metric in (BLEU(lowercase=lower), CHRF(lowercase=lower), TER()):
        result = metric.corpus_score(outputs, [references])
        detail = str(result).split("= ", 1)[-1].partition(" ")[2] if isinstance(metric, BLEU) else ""
        scores.append(MetricScore(result.name, result.score, str(metric.get_signature()), detail))
    return scores


def bleu(
    outputs: Sequence[str],
    references: Sequence[str],
    *,
    casing: Casing = "mixed",
    tokens: str = "13a",
    moses: str = "",
    compounds: bool = False,
) -> MetricScore:
    """BLEU with a choice of tokenization.

    With `moses` (a language) the Moses tokenizer splits both sides first, as papers on Multi30k do; sacrebleu's own
    tokenization is then "none", and the signature says so. `compounds` then splits compounds at their hyphens.
    """
    _same_length(outputs, references)
    if compounds and not moses:
        raise UsageError("splitting compounds needs Moses tokens; give their language (moses)")
    if moses:
        outputs, references = (moses_tokens(side, moses, casing) for side in (outputs, references))
        tokens = "none"
    if compounds:
        outputs, references = split_compounds(outputs), split_compounds(references)
    # force: sacrebleu rightly warns about text with spaces before its full stops
    metric = BLEU(lowercase=casing == "lower", tokenize=tokens, force=True)
    result = metric.corpus_score(outputs, [references])
    note = (f"|moses:{moses}" if moses else "") + ("|compounds:atat" if compounds else "")
    detail = str(result).split("= ", 1)[-1].partition(" ")[2]
    return MetricScore("BLEU", result.score, f"{metric.get_signature()}{note}", detail)


def moses_tokens(lines: Sequence[str], language: str, casing: Casing) -> list[str]:
    """Split lines with the Moses tokenizer, after lowercasing them if `casing` is "lower".

    The order follows the published scores: Moses takes "Bart." at the end of a German line for an abbreviation, but
    not "bart.". (So Multi30k's test set of 2016 has its 12,103 German tokens.)
    """
    from sacremoses import MosesTokenizer  # half a second, and seldom needed
    from sacremoses.corpus import NonbreakingPrefixes

    known = set(NonbreakingPrefixes().available_langs.values()) | {"ja", "ko", "cjk"}
    if language not in known:  # sacremoses would silently use English abbreviations
        raise UsageError(
            f"the Moses tokenizer does not know the language '{language}'; choose one of {', '.join(sorted(known))}"
        )
    tokenizer = MosesTokenizer(lang=language)
    cased = (line.lower() if casing == "lower" else line for line in lines)
    return [tokenizer.tokenize(line, return_str=True, escape=False) for line in cased]


def split_compounds(lines: Sequence[str]) -> list[str]:
    """Split "U-Boot" into three words, "U ##AT##-##AT## Boot", as Google's papers on English-German and others do.

    Each correct hyphen then is a correct word, which is worth half a point of BLEU or more.
    """
    return [re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line) for line in lines]


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same test set: their BLEU, and the p-value of the difference."""

    first: float
    second: float
    p_value: float
    signature: str
    first_interval: float = 0.0
    """Half of the interval that has 95 % of the resampled tests."""
    second_interval: float = 0.0

    @property
    def significant(self) -> bool:
        return self.p_value < SIGNIFICANT

    def in_words(self, first: str = "the first system", second: str = "the second system") -> str:
        gap = abs(self.first - self.second)
        if not gap:
            return f"{first} and {second} have the same BLEU on this test: there is no difference to explain."
        chance = f"{100 * self.p_value:.1f} % of such tests"
        if not self.significant:
            return (
                f"No winner: if {first} and {second} were equally good, chance would still show a difference of more "
                f"than {gap:.2f} BLEU in about {chance}. A larger test may tell them apart."
            )
        better, worse = (first, second) if self.first > self.second else (second, first)
        return (
            f"{better} is better than {worse} on this kind of text: if they were equally good, chance would show a "
            f"difference of more than {gap:.2f} BLEU in only {chance}."
        )


SIGNIFICANT = 0.05
"""p-values below this are significant, here and in most papers."""


def compare(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[str],
    samples: int = 1000,
    *,
    casing: Casing = "mixed",
) -> Comparison:
    """Paired bootstrap resampling: the same resampled sentences for both systems."""
    _same_length(first, references)
    _same_length(second, references)
    metric = BLEU(lowercase=casing == "lower")
    test = PairedTest(
        [("first", list(first)), ("second", list(second))],
        {"BLEU": metric},
        [list(references)],
        test_type="bs",
        n_samples=samples,
    )
    signatures, results = test()
    one, two = results["BLEU"]
    assert isinstance(one, Result)
    assert isinstance(two, Result)
    assert two.p_value is not None
    # sacrebleu counts resampled differences larger than the observed one: with equal BLEU, none is, and p would be
    # small. Resampling one sentence always gives the same test set, so it proves nothing.
    p_value = 1.0 if one.score == two.score or len(references) == 1 else two.p_value
    return Comparison(one.score, two.score, p_value, str(signatures["BLEU"]), one.ci or 0.0, two.ci or 0.0)


def _same_length(outputs: Sequence[str], references: Sequence[str]) -> None:
    if len(outputs) != len(references):
        raise InputError(f"{counted(len(outputs), 'translation')}, but {counted(len(references), 'reference')}")
    if not references:
        raise InputError("there are no translations to score")
