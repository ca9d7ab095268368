"""Translate a test set: one translation per line, and the speed."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from regard.decoding.settings import SearchSettings
from regard.errors import InputTooLong, TaskError
from regard.plural import with_article
from regard.tasks import TranslationModel
from regard.tasks.base import Model, in_batches

OnProgress = Callable[[int], None]
"""Called with the number of sentences done."""


@dataclass(frozen=True)
class Outputs:
    """The translations of a test set."""

    texts: list[str]
    tokens: int
    """Generated tokens, end tokens included."""
    seconds: float
    cut: int
    """Translations cut off by the length limit."""

    @property
    def sentences_per_second(self) -> float:
        return len(self.texts) / self.seconds

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


def require_translation_model(model: Model) -> TranslationModel:
    if not isinstance(model, TranslationModel):
        raise TaskError(f"{model.source}: is {with_article(model.family)} model, not a translation model")
    return model


def translate(
    model: TranslationModel,
    sources: Sequence[str],
    settings: SearchSettings,
    on_progress: OnProgress | None = None,
    *,
    to: str | None = None,
    name: str = "line",
) -> Outputs:
    """Translate every line; an empty line stays empty. `name` is the file that error messages name."""
    rows = [model.source_ids(source, to) if source.strip() else [] for source in sources]
    context = model.config.context
    for number, row in enumerate(rows, 1):  # fail now, not after an hour
        if len(row) > context:
            raise InputTooLong(f"{name}:{number}: has {len(row):,} tokens; this model reads at most {context:,}")
    texts, tokens, cut, done = [""] * len(rows), 0, 0, 0
    started = time.perf_counter()
    for batch in reversed(list(in_batches(rows))):  # longest first: the time left is never underestimated
        nonempty = [i for i in batch if rows[i]]
        translations = model.translations([sources[i] for i in nonempty], to=to, **asdict(settings))
        for i, (best, *_) in zip(nonempty, translations, strict=True):
            texts[i] = best.text.replace("\r", " ").replace("\n", " ")  # one line in, one line out
            tokens += len(best.log_probs)
            cut += not best.ended
        done += len(batch)
        if on_progress is not None:
            on_progress(done)
    return Outputs(texts, tokens, max(time.perf_counter() - started, 1e-9), cut)
