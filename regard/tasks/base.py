"""What every loaded model shares, whatever its family: its tokenizer, its directory, its limits.

The tasks are in the files beside this one. A family that lacks a task raises `TaskError` and names those it has.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Unpack

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import SearchOptions, SearchSettings
from regard.errors import InputError, InputTooLong, ModelError, TaskError, TokenizerError, UsageError
from regard.inference.backend import Runtime, SpecialTokens
from regard.inference.requests import Request
from regard.inference.scheduler import Scheduler
from regard.models import family_of
from regard.models.config import BlockConfig, GenerationConfig
from regard.text.tokenizer import Tokenizer
from regard.weights.checksums import new_model
from regard.weights.model_directory import Checkpoint
from regard.weights.shortlist import Shortlist

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from regard.blocks.trace import Trace
    from regard.models import Family
    from regard.weights.model_io import Style

BATCH = 32
"""Texts per batch when a list is given."""


class TokenProbability(NamedTuple):
    """A token and its probability: one way to fill a mask."""

    token: str
    probability: float


class Model:
    """A model and its tokenizer, as `regard.load` returns it. What it can do is in `tasks`."""

    tasks: tuple[str, ...] = ()

    def __init__(
        self, network: Family | Runtime, generation: GenerationConfig, tokenizer: Tokenizer | None, source: Path
    ) -> None:
        self._runtime = network if isinstance(network, Runtime) else Runtime(network)
        self.generation, self.source = generation, source
        self._tokenizer = tokenizer
        if tokenizer is not None:
            for pieces, vocab in zip((tokenizer.vocab, tokenizer.vocab_target), self._vocabularies(), strict=True):
                if pieces > vocab:
                    raise ModelError(
                        f"{source}: the tokenizer has {pieces:,} pieces, but the model's vocabulary is {vocab:,}; "
                        f"one of them belongs to another model"
                    )

    def _vocabularies(self) -> tuple[int, int]:
        """Sizes of the source's and the target's vocabulary."""
        vocab = getattr(self.config, "vocab", 0)
        return vocab, vocab

    def __repr__(self) -> str:
        tasks = ", ".join(self.tasks) or "logits"
        return f"<{type(self).__name__} {self.source.name!r}: {self.family}, {tasks}>"

    @property
    def network(self) -> Family:
        """The torch modules. A translation model builds them on first use, and imports torch for it."""
        return self._runtime.network

    @property
    def shortlist(self) -> Shortlist | None:
        """Of a translation model: which tokens may translate which, where that was learned."""
        return self._runtime.shortlist

    @shortlist.setter
    def shortlist(self, shortlist: Shortlist | None) -> None:
        self._runtime.set_shortlist(shortlist)

    @property
    def config(self) -> BlockConfig:
        return self._runtime.model.config

    @property
    def family(self) -> str:
        return family_of(self.config)

    @property
    def device(self) -> torch.device:
        return next(self.network.parameters()).device

    @property
    def has_tokenizer(self) -> bool:
        return self._tokenizer is not None

    @property
    def tokenizer(self) -> Tokenizer:
        if self._tokenizer is None:
            raise TokenizerError(
                f"{self.source}: no tokenizer files (tokenizer.json, or OPUS-MT's source.spm, target.spm and "
                f"vocab.json), so this model takes ids but no text"
            )
        return self._tokenizer

    def save(self, directory: str | Path, style: Style = "regard") -> None:
        """Write a new model directory in regard's own format, or one for transformers."""
        with new_model(Path(directory)) as draft:
            self.save_files(draft, style)

    def save_files(self, draft: Path, style: Style = "regard") -> None:
        """Write the files of a model directory into one that somebody else completes."""
        from regard.weights.model_io import write_model

        write_model(draft, Checkpoint(self.network, self.generation, self.shortlist), style)
        if self._tokenizer is not None:
            self._tokenizer.save(draft)

    def generate(self, prompt: str = "", **search: Unpack[SearchOptions]) -> str:
        """The continuation of `prompt`."""
        self._cannot("generate")

    def generations(self, prompt: str = "", **search: Unpack[SearchOptions]) -> list[str]:
        """The `n_best` continuations of `prompt`."""
        self._cannot("generate")

    def translate(self, texts: Any, *, to: str | None = None, **search: Unpack[SearchOptions]) -> Any:
        """The translation of a text, or of each of a list."""
        self._cannot("translate")

    def embed(self, texts: str | Sequence[str]) -> Tensor:
        """One vector for a text (D), or for each of a list (N, D)."""
        self._cannot("embed")

    def fill(self, text: str, *, top: int = 5) -> list[list[TokenProbability]]:
        """The likeliest tokens for each mask in the text, in order."""
        self._cannot("fill")

    def classify(self, item: Any) -> dict[str, float]:
        """The probability of each label, likeliest first."""
        self._cannot("classify")

    def logits(self, ids: Any, target: Any = None) -> Tensor:
        """The network's output for ids."""
        raise NotImplementedError

    def write(self, rows: Sequence[Sequence[int]], **search: Unpack[SearchOptions]) -> list[list[int]]:
        """Token ids in, token ids out: the best hypothesis for each row. Needs no tokenizer."""
        self._cannot("write")

    def trace(self, text: str, target: str | None = None) -> Trace:
        """One pass over a text with every intermediate value recorded."""
        self._cannot("trace")

    def _cannot(self, task: str) -> NoReturn:
        able = f"it can {', '.join(self.tasks)}" if self.tasks else "it gives logits only"
        raise TaskError(f"{self.source}: this {self.family} model cannot {task}; {able}")

    # ---- what the families share ----

    def _read(self, one: str) -> list[int]:
        """text -> tokens, for tasks that need a text."""
        not_empty(one)
        return self.tokenizer.encode(one)

    def _fit(self, ids: Sequence[int], vocab: int, context: int) -> Sequence[int]:
        if not ids:
            raise InputError("there are no ids to read")
        if not all(0 <= i < vocab for i in ids):
            raise InputError(f"id {next(i for i in ids if not 0 <= i < vocab)} is not in 0 … {vocab - 1}")
        if len(ids) > context:
            raise InputTooLong(
                f"{len(ids):,} tokens, but this model reads at most {context:,}; shorten or split the text"
            )
        return ids

    def _pad(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        from regard.inference.torch_backend import padded

        return padded(rows, self.generation.pad or 0, self.device)


class Generating(Model):
    """A model that generates tokens: its requests go through one scheduler."""

    default_max_tokens: int = sys.maxsize
    """Of the output, where neither the caller nor the model sets a limit."""
    _scheduler: Scheduler | None = None

    def scheduler(self) -> Scheduler:
        """The scheduler of this model, on the backend that fits its weights as they are now."""
        backend, tokens = self._runtime.backend(), self._special_tokens()
        found = self._scheduler
        if found is None or found.backend is not backend or found.tokens != tokens:
            found = self._scheduler = Scheduler(backend, tokens)
        return found

    def _special_tokens(self) -> SpecialTokens:
        generation, vocab = self.generation, getattr(self.config, "vocab", 0)
        # vocabularies are often rounded up: what the tokenizer has no piece for is never generated
        pieces = self.tokenizer.vocab_target if self.has_tokenizer else vocab
        suppressed = (*generation.suppressed, *range(pieces, vocab))
        return SpecialTokens(start=generation.start, end=generation.end, pad=generation.pad or 0, suppressed=suppressed)

    def request(self, ids: Sequence[int], settings: SearchSettings, *, stream: bool = False) -> Request:
        """A request for one text in tokens, with the most tokens that its output may have."""
        limit = self._max_tokens(ids)
        limit = min(limit, self.default_max_tokens if settings.max_tokens is None else settings.max_tokens)
        return Request(ids=ids, settings=settings, max_tokens=limit, stream=stream)

    def _max_tokens(self, ids: Sequence[int]) -> int:
        """The most tokens that the output for a text may have, the end token included."""
        raise NotImplementedError

    def _search(self, rows: Iterable[Sequence[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
        return self.scheduler().run([self.request(row, settings) for row in rows])

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_scheduler": None}


def check_text(text: object, what: str = "text") -> None:
    """Raise a clear error for anything but a string."""
    if not isinstance(text, str):
        raise UsageError(f"{what} must be a string, not {type(text).__name__}: {text!r:.60}")


def check_texts(texts: object) -> None:
    """Raise a clear error for anything but a list of strings."""
    if not isinstance(texts, Sequence) or isinstance(texts, bytes):
        raise UsageError(f"texts must be a string or a list of strings, not {type(texts).__name__}")
    for index, text in enumerate(texts):
        check_text(text, f"text {index}")


def not_empty(text: str) -> None:
    check_text(text)
    if not text.strip():
        raise InputError("the text is empty")


def each(texts: Sequence[str], read: Callable[[str], Sequence[int]]) -> list[Sequence[int]]:
    """Every text as tokens. An error says which of them it is about."""
    rows = []
    for index, text in enumerate(texts):
        try:
            rows.append(read(text))
        except InputError as error:
            error.index = index
            raise
    return rows


def in_batches(rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Indices of rows of about the same length, so that little of a batch is padding."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    for start in range(0, len(order), BATCH):
        yield order[start : start + BATCH]


def by_probability(labels: Sequence[str], logits_N: Tensor) -> dict[str, float]:
    # ImageNet has two cranes and two maillots: a name that stands for several classes gets its number
    counts = Counter(labels)
    names = [name if counts[name] == 1 else f"{name} ({i})" for i, name in enumerate(labels)]
    ranked = sorted(zip(names, logits_N.softmax(-1).tolist(), strict=True), key=lambda pair: -pair[1])
    return dict(ranked)
