"""The door: settings -> greedy search, beam search or sampling."""

from collections.abc import Sequence

from regard.decoding.beam import beam_asking
from regard.decoding.greedy import greedy_asking
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.request import Asking, Opening, Step, answered
from regard.decoding.rules import Rule
from regard.decoding.sample import sample_asking
from regard.decoding.settings import Search


def search(
    step: Step, opening: Opening, settings: Search, *, rules: Sequence[Rule] | None = None
) -> list[list[Hypothesis]]:
    """Each sentence's hypotheses: best first, samples as drawn. `rules` stand in for those that the settings make."""
    return answered(asking(opening, settings, rules=rules), step)


def asking(opening: Opening, settings: Search, *, rules: Sequence[Rule] | None = None) -> Asking:
    """The same search, which asks for its logits and waits until someone answers."""
    if settings.temperature:
        return sample_asking(opening, settings, rules=rules)
    if settings.beam > 1:
        return beam_asking(opening, settings, rules=rules)
    return greedy_asking(opening, settings, rules=rules)
