"""The door: settings -> greedy search, beam search or sampling."""

from collections.abc import Sequence

from regard.decoding.beam import beam
from regard.decoding.follow import follow
from regard.decoding.greedy import likeliest
from regard.decoding.interface import Hypothesis, Opening, Step
from regard.decoding.rules import Rule
from regard.decoding.sample import sample
from regard.decoding.settings import Search


def search(
    step: Step, opening: Opening, settings: Search, *, rules: Sequence[Rule] | None = None
) -> list[list[Hypothesis]]:
    """Each sentence's hypotheses: best first, samples as drawn. `rules` stand in for those that the settings make."""
    if settings.temperature:
        return sample(step, opening, settings, rules=rules)
    if settings.beam > 1:
        return beam(step, opening, settings, rules=rules)
    return [[hypothesis] for hypothesis in follow(step, opening, settings, likeliest, rules=rules)]
