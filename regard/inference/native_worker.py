"""The engine's worker where the whole search is compiled: plain beam and greedy search on a CPU."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from regard.decoding.hypothesis import BROKEN, Hypothesis
from regard.decoding.settings import SearchSettings
from regard.errors import ModelError
from regard.inference.native.search import NativeSearch, NonFiniteLogits, RawHypothesis, SearchParams
from regard.inference.native_model import NativeModel
from regard.inference.scheduler import Found
from regard.weights.shortlist import Shortlist

TOKENS = 512
"""Tokens that are read at once: enough for good matrix products, and few enough to stay in the cache between them."""
TEXTS = 48
"""Texts that one worker has under way at most: rows of one text share its keys, other texts need room for theirs."""
WIDEST = 64
"""Beams up to here: the best of a row are kept sorted as they are found, which is for few."""


def is_plain(settings: SearchSettings) -> bool:
    """Whether the compiled search can do it: nothing is drawn, and no rule changes a logit."""
    return (
        settings.temperature == 0.0
        and settings.repetition_penalty == 1.0
        and settings.frequency_penalty == 0.0
        and settings.presence_penalty == 0.0
        and settings.no_repeat_ngram == 0
        and not settings.favour
        and settings.beam <= WIDEST
    )


class NativeWorker:
    """Sentences under way in a compiled search."""

    def __init__(
        self,
        compiled: NativeModel,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        settings: SearchSettings,
        *,
        start: int,
        ends: Sequence[int],
        never: Sequence[int],
        shortlist: Shortlist | None = None,
    ) -> None:
        self._sources, self._limits = sources, limits
        self._settings, self._ends = settings, ends
        s = settings
        plan = SearchParams(
            start=start,
            ends=ends,
            suppressed=never,
            min_new=s.min_new,
            beam=s.beam,
            n_best=s.n_best,
            length_penalty=s.length_penalty,
            paper_length_penalty=s.length_form == "paper",
            max_finished=s.enough,
        )
        words = () if shortlist is None else (shortlist.related_VC, shortlist.frequent_F)
        reader = compiled.reader(max(map(len, sources), default=1))
        self._searcher = NativeSearch(reader, compiled.writer(max(limits, default=1), *words), plan)

    @property
    def rows(self) -> int:
        return self._searcher.rows

    def begin(self, texts: Sequence[int]) -> Found:
        written = [text for text in texts if self._limits[text] > 0]
        while written:
            tokens = accumulate(len(self._sources[text]) for text in written)
            some = max(1, sum(total <= TOKENS for total in tokens))
            self._read(written[:some])
            written = written[some:]
        return [(text, [self._hypothesis(RawHypothesis([], [], 0.0))]) for text in texts if self._limits[text] <= 0]

    def _read(self, texts: Sequence[int]) -> None:
        self._searcher.add(texts, [self._limits[text] for text in texts], [self._sources[text] for text in texts])

    def go_on(self, most: int, wanted: int) -> Iterator[tuple[int, list[Hypothesis]]]:
        try:
            for text, found in self._searcher.step(most, wanted):
                yield text, [self._hypothesis(said) for said in found]
        except NonFiniteLogits:
            raise ModelError(BROKEN) from None

    def _hypothesis(self, said: RawHypothesis) -> Hypothesis:
        return Hypothesis.of(said.tokens, said.log_probs, said.total, self._settings, self._ends)

    def close(self) -> None:
        self._searcher.close()
