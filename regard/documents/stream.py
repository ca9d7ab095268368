"""Passages in, results out, in order, while the searches of many passages run side by side.

    stream = TranslationStream(translator, options)
    stream.add(passage)              # from a file, a pipe, a request
    for result in stream.results():  # what is ready, in the order in which it was added

There is no batch: a finished segment makes room for the next one in the scheduler, and a segment that needs
another search does not hold up the others.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from queue import SimpleQueue
from typing import TYPE_CHECKING

from regard.cpu import threads
from regard.documents.passage import Passage
from regard.documents.result import Sentence, TranslationResult, joined
from regard.documents.retry import Candidate, PivotCandidate, Search, Searching, without_words
from regard.documents.segments import Segment, parts
from regard.inference.requests import Handle
from regard.inference.scheduler import Scheduler
from regard.text.tokenizer import check_text

if TYPE_CHECKING:
    from regard.decoding.settings import SearchSettings
    from regard.documents.document_translator import DocumentTranslator
    from regard.documents.options import TranslationOptions
    from regard.tasks.translation import Translation, TranslationModel

MAX_AHEAD = 1024
"""Segments under way: enough to keep every core busy, few enough for memory to stay flat."""
REMEMBERED = 2048
"""Segments whose outcome is kept, since texts repeat themselves: buttons, headings, names."""
MAX_PARTS = 4
"""Parts of a long passage under way: one has more segments than keep every core busy."""
THREADS_FROM = 8
"""Searches under way from which on the scheduler gets threads of its own."""


class Work:
    """A segment, or several with the same text, and the searches that it takes."""

    def __init__(self, searching: Searching[Candidate | PivotCandidate]) -> None:
        self.searching = searching
        self.search: Search | None = None
        self.outcome: Candidate | PivotCandidate | None = None
        self.sentence: Sentence | None = None


class Part:
    """A passage, or a part of a long one, whose searches were begun."""

    def __init__(self, passage: Passage) -> None:
        self.passage = passage
        self.segments: list[tuple[Segment, Work | None]] = []
        """Each segment with its work; None where it has no words to translate."""

    @property
    def ready(self) -> bool:
        return all(work is None or work.outcome for _, work in self.segments)


class Entry:
    """A passage that was added: parts not begun, parts under way, and the results of those before them."""

    def __init__(self, passage: Passage, language: str | None) -> None:
        self.passage, self.language = passage, language
        self.pivot: str | None = None
        self.parts: Iterator[Passage] = iter(())
        self.begun_all = False
        self.begun: deque[Part] = deque()
        self.results: list[TranslationResult] = []
        self.lengths: list[int] = []
        """Of the source text of each."""


class Searches:
    """Searches under way in a model's scheduler, which gets threads of its own when there are many."""

    def __init__(self, model: TranslationModel) -> None:
        self.model = model
        self._under_way: set[Handle] = set()
        self._done: SimpleQueue[Handle] = SimpleQueue()
        self._threads = False

    def __len__(self) -> int:
        return len(self._under_way)

    @cached_property
    def _scheduler(self) -> Scheduler:
        """One scheduler from the first search to the last: the model's own changes when somebody uses the network."""
        return self.model.scheduler()

    def begin(self, text: str, settings: SearchSettings, to: str | None) -> Handle:
        handle = self._scheduler.submit(self.model.sentence_request(text, settings, to=to))
        self._under_way.add(handle)
        handle.add_done_callback(self._done.put)
        return handle

    def ended(self) -> Iterator[Handle]:
        """Wait until a search ends, if one is under way; all that have ended."""
        if not self._under_way:
            return
        many = len(self._under_way) >= THREADS_FROM and threads.current_threads() > 1
        if many and not self._scheduler.has_threads:
            self._scheduler.start()
            self._threads = True
        if self._done.empty():
            self._scheduler.wait_for(lambda: not self._done.empty())
        while not self._done.empty():
            handle = self._done.get()
            self._under_way.remove(handle)
            yield handle

    def close(self) -> None:
        """Cancel what is under way, and end the scheduler's threads."""
        for handle in self._under_way:
            handle.cancel()
        if self._threads:
            self._scheduler.close()
        self._under_way, self._threads = set(), False


class SentenceStream:
    """Sentences in, their translations out, in order: one search each, without documents around them."""

    def __init__(self, model: TranslationModel, settings: SearchSettings, *, to: str | None, align: bool) -> None:
        self._settings, self._to, self._align = settings, to, align
        self._searches = Searches(model)
        self._handles: deque[Handle] = deque()

    @property
    def full(self) -> bool:
        """Whether results should be taken before more is added."""
        return len(self._handles) >= MAX_AHEAD

    def add(self, text: str) -> None:
        self._handles.append(self._searches.begin(text, self._settings, self._to))

    def results(self) -> list[list[Translation]]:
        """Wait until a search ends, if one is under way; the finished sentences, in order."""
        for _ in self._searches.ended():
            pass
        ready = []
        while self._handles and self._handles[0].done:
            ready.append(self._searches.model.translations_of(self._handles.popleft(), align=self._align))
        return ready

    def __enter__(self) -> SentenceStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._searches.close()


class TranslationStream:
    """Passages in, results out, in order."""

    def __init__(self, translator: DocumentTranslator, options: TranslationOptions) -> None:
        self._translator, self._options = translator, options
        self._settings = translator.check(options)
        self._searches = Searches(translator.model)
        self._entries: deque[Entry] = deque()
        self._later: deque[Entry] = deque()
        """Those of the entries that are not all begun."""
        self._works: OrderedDict[object, Work] = OrderedDict()
        self._waiting: dict[Handle, Work] = {}

    @property
    def full(self) -> bool:
        """Whether results should be taken before more is added."""
        return bool(self._later) or len(self._searches) >= MAX_AHEAD or len(self._entries) >= 4 * MAX_AHEAD

    def add(self, passage: Passage, *, language: str | None = None) -> None:
        """Begin a passage. `language` is its source language where the caller has detected it."""
        check_text(passage.text)
        translator, options = self._translator, self._options
        entry = Entry(passage, language or translator.source_language(passage.text, options))
        result, entry.pivot = translator.route(passage, entry.language, options)
        if result is None:
            entry.parts = parts(passage, entry.language)
            self._later.append(entry)
        else:
            entry.results.append(result)
            entry.begun_all = True
        self._entries.append(entry)
        self._begin()

    def _begin(self) -> None:
        """Begin what was added, as long as there is room."""
        while self._later and len(self._searches) < MAX_AHEAD:
            entry = self._later[0]
            self._settle(entry)
            if len(entry.begun) >= MAX_PARTS:
                return
            if passage := next(entry.parts, None):
                entry.begun.append(self._part(passage, entry))
            else:
                entry.begun_all = True
                self._later.popleft()

    def _part(self, passage: Passage, entry: Entry) -> Part:
        part = Part(passage)
        align = self._align(passage)
        for segment in self._translator.segments(passage, entry.language, self._options, entry.pivot):
            part.segments.append((segment, self._work(segment, align, entry.pivot)))
        return part

    def _work(self, segment: Segment, align: bool, pivot: str | None) -> Work | None:
        if not segment.has_words:
            return None
        key = (segment.readable, segment.protected, segment.inflectable, align, pivot)
        if key not in self._works:
            self._works[key] = work = Work(
                self._translator.searching(segment, align, self._options, pivot, self._settings)
            )
            self._advance(work, None)
            if len(self._works) > REMEMBERED:
                self._works.popitem(last=False)
        return self._works[key]

    def _advance(self, work: Work, handle: Handle | None) -> None:
        """Give a search its translations, and begin the next one that it asks for."""
        model = self._translator.model
        try:
            if handle is None:
                work.search = next(work.searching)
            else:
                assert work.search is not None
                work.search = work.searching.send(model.translations_of(handle, align=work.search.align))
        except StopIteration as stop:
            work.outcome = stop.value
            return
        search = work.search
        self._waiting[self._searches.begin(search.text, search.settings, search.tag)] = work

    def results(self) -> list[TranslationResult]:
        """Wait until a search ends, if one is under way; the finished passages, in order."""
        for handle in self._searches.ended():
            self._advance(self._waiting.pop(handle), handle)
        ready = []
        self._begin()
        while self._entries and self._settle(self._entries[0]):
            entry = self._entries.popleft()
            whole = len(entry.results) == 1
            ready.append(entry.results[0] if whole else joined(entry.results, entry.lengths))
            self._begin()
        return ready

    def _settle(self, entry: Entry) -> bool:
        """Assemble the parts that are ready; whether all are."""
        while entry.begun and entry.begun[0].ready:
            part = entry.begun.popleft()
            entry.results.append(self._result(part, entry.language))
            entry.lengths.append(len(part.passage.text))
        return entry.begun_all and not entry.begun

    def _result(self, part: Part, language: str | None) -> TranslationResult:
        align = self._align(part.passage)
        sentences = [self._sentence(segment, work, align) for segment, work in part.segments]
        found = [segment for segment, _ in part.segments]
        return self._translator.assemble(part.passage, found, sentences, language, self._options)

    def _sentence(self, segment: Segment, work: Work | None, align: bool) -> Sentence:
        if work is None:
            return without_words(segment, align)
        assert work.outcome is not None
        if work.sentence is None or work.sentence.source != segment.text:
            work.sentence = work.outcome.sentence(segment, self._options.min_confidence)
        return work.sentence

    def _align(self, passage: Passage) -> bool:
        return self._options.align or bool(passage.marks)

    def drain(self) -> Iterator[TranslationResult]:
        """All remaining results, as they become ready."""
        while self._entries:
            yield from self.results()

    def __enter__(self) -> TranslationStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._searches.close()


def translate_all(
    translator: DocumentTranslator, passages: Sequence[Passage], options: TranslationOptions, language: str | None
) -> Iterator[TranslationResult]:
    """The result of each passage, in order, as soon as it is ready."""
    with TranslationStream(translator, options) as stream:
        for passage in passages:
            stream.add(passage, language=language)
            while stream.full:
                yield from stream.results()
        yield from stream.drain()
