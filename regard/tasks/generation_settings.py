"""What the families that write share: how to search, and what never to say."""

from collections.abc import Mapping, Sequence
from typing import Any

from regard.config import from_table
from regard.decoding.settings import SearchSettings
from regard.errors import UsageError
from regard.models.generation_config import GenerationConfig
from regard.tasks.base import Model


def search_settings(generation: GenerationConfig, options: Mapping[str, Any]) -> SearchSettings:
    """How to search: as the caller says, and else as the model says."""
    asked = {key: value for key, value in options.items() if value is not None}
    if asked.get("max_new", 1) < 1:
        raise UsageError(f"max_new must be at least 1, not {asked['max_new']}")
    own = {
        "beam": 1 if asked.get("temperature") else generation.beam,
        "length_penalty": generation.length_penalty,
        "length_form": generation.length_form,
        "max_new": generation.max_tokens,
        # To wait until nothing can win any more takes nearly twice as long where a score is a mean over the tokens: a
        # row could gain by going on to the limit. Measured on Multi30k, the BLEU is the same.
        "patience": 1.0,
    }
    if asked.get("n_best", 1) > own["beam"] and not asked.get("temperature"):
        own["beam"] = asked["n_best"]
    return from_table(SearchSettings, own | asked, "search")


def not_to_write(model: Model, vocab: int) -> Sequence[int]:
    """What the model says, and what its tokenizer has no piece for: vocabularies are often rounded up."""
    pieces = model.tokenizer.vocab_target if model.has_tokenizer else vocab
    return (*model.generation.suppressed, *range(pieces, vocab))
