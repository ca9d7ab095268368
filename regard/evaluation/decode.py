"""Sources -> translations, as a test wants them: one for each line, and how fast they came."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from regard.decoding.settings import SearchSettings
from regard.errors import InputTooLong, TaskError
from regard.tasks import TranslationModel
from regard.tasks.base import Model, in_batches

Tick = Callable[[int], None]
"""Is told how many sentences are done."""


@dataclass(frozen=True)
class Outputs:
    """The translations of a test set."""

    texts: list[str]
    tokens: int
    """That were written, ends included."""
    seconds: float
    cut: int
    """Translations that the length limit cut off."""

    @property
    def sentences_per_second(self) -> float:
        return len(self.texts) / self.seconds

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


def translator(model: Model) -> TranslationModel:
    if not isinstance(model, TranslationModel):
        raise TaskError(f"{model.source}: is a model of family {model.family}, but this takes one that translates")
    return model


def translate(
    model: TranslationModel,
    sources: Sequence[str],
    settings: SearchSettings,
    tick: Tick | None = None,
    *,
    to: str | None = None,
    name: str = "line",
) -> Outputs:
    """Translate every line; an empty one stays empty. `name` is what a complaint calls the lines' file."""
    rows = [model.source_ids(source, to) if source.strip() else [] for source in sources]
    context = model.config.context
    for number, row in enumerate(rows, 1):  # now, rather than after an hour
        if len(row) > context:
            raise InputTooLong(f"{name}:{number}: has {len(row):,} tokens, but this model reads at most {context:,}")
    texts, tokens, cut, done = [""] * len(rows), 0, 0, 0
    started = time.perf_counter()
    for batch in reversed(list(in_batches(rows))):  # the longest first: what is left never takes longer than it seems
        full = [i for i in batch if rows[i]]
        found = model.translations([sources[i] for i in full], to=to, **asdict(settings))
        for i, (best, *_) in zip(full, found, strict=True):
            texts[i] = best.text.replace("\r", " ").replace("\n", " ")  # one line in is one line out
            tokens += len(best.piece_log_probabilities)
            cut += not best.ended
        done += len(batch)
        if tick is not None:
            tick(done)
    return Outputs(texts, tokens, max(time.perf_counter() - started, 1e-9), cut)
