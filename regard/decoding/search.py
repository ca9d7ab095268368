"""Settings -> greedy search, beam search or sampling."""

from collections.abc import Sequence

from regard.decoding.beam import beam_loop
from regard.decoding.greedy import greedy_loop
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.rules import Rule
from regard.decoding.sample import sample_loop
from regard.decoding.search_protocol import Prompts, SearchLoop, Step, run_search
from regard.decoding.settings import SearchSettings


def search(
    step: Step, prompts: Prompts, settings: SearchSettings, *, rules: Sequence[Rule] | None = None
) -> list[list[Hypothesis]]:
    """Each text's hypotheses: best first, or samples as drawn. `rules` replace those that the settings make."""
    return run_search(search_loop(prompts, settings, rules=rules), step)


def search_loop(prompts: Prompts, settings: SearchSettings, *, rules: Sequence[Rule] | None = None) -> SearchLoop:
    """The same search as a generator of step requests."""
    if settings.temperature:
        return sample_loop(prompts, settings, rules=rules)
    if settings.beam > 1:
        return beam_loop(prompts, settings, rules=rules)
    return greedy_loop(prompts, settings, rules=rules)
