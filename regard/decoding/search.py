"""The door: settings -> greedy search, beam search or sampling."""

from collections.abc import Sequence

from regard.decoding.beam import beam_loop
from regard.decoding.greedy import greedy_loop
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.request import Prompts, SearchLoop, Step, run_search
from regard.decoding.rules import Rule
from regard.decoding.sample import sample_loop
from regard.decoding.settings import SearchSettings


def search(
    step: Step, opening: Prompts, settings: SearchSettings, *, rules: Sequence[Rule] | None = None
) -> list[list[Hypothesis]]:
    """Each sentence's hypotheses: best first, samples as drawn. `rules` stand in for those that the settings make."""
    return run_search(search_loop(opening, settings, rules=rules), step)


def search_loop(opening: Prompts, settings: SearchSettings, *, rules: Sequence[Rule] | None = None) -> SearchLoop:
    """The same search, which asks for its logits and waits until someone answers."""
    if settings.temperature:
        return sample_loop(opening, settings, rules=rules)
    if settings.beam > 1:
        return beam_loop(opening, settings, rules=rules)
    return greedy_loop(opening, settings, rules=rules)
