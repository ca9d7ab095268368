"""What every loaded model shares, whatever its family: its tokenizer, its place on disk, its limits.

The tasks themselves are in the files beside this one. A family that cannot do one says so, and what it can do instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from regard.errors import InputError, InputTooLong, TaskError, TokenizerError
from regard.io import new_directory
from regard.models import family_of
from regard.models.config import BlockConfig
from regard.models.generation_config import GenerationConfig
from regard.text.tokenizer import Tokenizer
from regard.weights.arrays import LazyModel
from regard.weights.directory import Checkpoint
from regard.weights.shortlist import Shortlist

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from regard.blocks.trace import Trace
    from regard.models import Family
    from regard.weights.checkpoint import Style

BATCH = 32
"""Texts that are run together when a list is given."""


class TokenProbability(NamedTuple):
    """One way to fill a gap."""

    token: str
    probability: float


@dataclass(frozen=True)
class Translation:
    """One translation, and what is known about it."""

    text: str
    score: float
    """What the search ranked it by; larger is better."""
    log_probability: float
    """Of the whole text and its end, as the model sees it."""
    pieces: list[str]
    piece_log_probabilities: list[float]
    """Of each piece, and last of the end where the text ended."""
    ended: bool
    """False where the length limit cut it off."""
    alignment: list[tuple[int, int]] | None = None
    """(source word, target word), words being what white space separates; where it was asked for."""
    source_ids: Sequence[int] = field(default=(), repr=False)
    ids: Sequence[int] = field(default=(), repr=False)
    """What was read and what was written, as the model knows it: `trace` shows how."""


class Model:
    """A model and its tokenizer. Each family can do some of the tasks, and says so when asked for another."""

    tasks: tuple[str, ...] = ()
    shortlist: Shortlist | None = None
    """Of a translation model: which words may translate which, where that was learnt."""

    def __init__(
        self, network: Family | LazyModel, generation: GenerationConfig, tokenizer: Tokenizer | None, source: Path
    ) -> None:
        self._network, self.generation, self.source = network, generation, source
        self._tokenizer, self._lock = tokenizer, RLock()

    @property
    def network(self) -> Family:
        """The modules. A translator makes them, and imports torch, when it is first asked for them."""
        with self._lock:
            if isinstance(self._network, LazyModel):
                self._network = self._network.open()
            return self._network

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= {**state, "_lock": RLock()}

    @property
    def config(self) -> BlockConfig:
        return self._network.config

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
                f"{self.source}: has no tokenizer files (tokenizer.json, or OPUS-MT's source.spm, target.spm and "
                f"vocab.json), so it takes ids but no text"
            )
        return self._tokenizer

    def save(self, directory: str | Path, style: Style = "regard") -> None:
        """Write a new model directory, regard's own or one for transformers."""
        from regard.weights.checkpoint import write_model

        with new_directory(Path(directory)) as half_done:
            write_model(half_done, Checkpoint(self.network, self.generation, self.shortlist), style)
            if self._tokenizer is not None:
                self._tokenizer.save(half_done)

    def generate(self, prompt: str = "", **options: Any) -> str:
        """How the model goes on after `prompt`."""
        self._cannot("generate")

    def translate(self, texts: Any, **options: Any) -> Any:
        """The translation of a text, or of each of a list."""
        self._cannot("translate")

    def embed(self, texts: str | Sequence[str]) -> Tensor:
        """One vector for a text (D), or for each of a list (N, D)."""
        self._cannot("embed")

    def fill(self, text: str, *, top: int = 5) -> list[list[TokenProbability]]:
        """For each mask in the text, in order, the likeliest tokens."""
        self._cannot("fill")

    def classify(self, item: Any) -> dict[str, float]:
        """The probability of each label, likeliest first."""
        self._cannot("classify")

    def logits(self, ids: Any, target: Any = None) -> Tensor:
        """The network's own output for ids."""
        raise NotImplementedError

    def write(self, rows: Sequence[Sequence[int]], **options: Any) -> list[list[int]]:
        """Ids in, ids out, for whoever has no tokenizer: what the search finds best for each row."""
        self._cannot("write")

    def trace(self, text: str, target: str | None = None) -> Trace:
        """One pass over a text, with every step of it written down."""
        self._cannot("trace")

    def _cannot(self, task: str) -> NoReturn:
        able = f"it can {', '.join(self.tasks)}" if self.tasks else "it gives logits only"
        raise TaskError(f"{self.source}: this {self.family} model cannot {task}; {able}")

    # ---- what the families share ----

    def _read(self, one: str) -> list[int]:
        """text -> tokens, for tasks that need something to read."""
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

    def _pad(self, rows: Sequence[Sequence[int]], *, left: bool = False) -> tuple[Tensor, Tensor]:
        return padded(rows, self.generation.pad or 0, self.device, left=left)


def padded(
    rows: Sequence[Sequence[int]], pad: int, device: torch.device, *, left: bool = False
) -> tuple[Tensor, Tensor]:
    """Rows of different lengths -> one tensor (B, L), and where it holds real tokens (B, L)."""
    import torch

    length = max(map(len, rows))
    ids_BL = torch.full((len(rows), length), pad, dtype=torch.long)
    present_BL = torch.zeros(len(rows), length, dtype=torch.bool)
    for i, row in enumerate(rows):
        place = slice(length - len(row), None) if left else slice(0, len(row))
        ids_BL[i, place], present_BL[i, place] = torch.tensor(row), True
    return ids_BL.to(device), present_BL.to(device)


def not_empty(text: str) -> None:
    if not text.strip():
        raise InputError("the text is empty")


def each(texts: Sequence[str], read: Callable[[str], Sequence[int]]) -> list[Sequence[int]]:
    """Every text as tokens. A complaint about one of them has its place in the list."""
    rows = []
    for place, text in enumerate(texts):
        try:
            rows.append(read(text))
        except InputError as error:
            error.index = place
            raise
    return rows


def in_batches(rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Indices of rows of about the same length, so that little of a batch is padding."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    for start in range(0, len(order), BATCH):
        yield order[start : start + BATCH]


def by_probability(labels: Sequence[str], logits_N: Tensor) -> dict[str, float]:
    # ImageNet has two cranes and two maillots: a name that stands for several classes is told apart by its number
    names = [name if labels.count(name) == 1 else f"{name} ({i})" for i, name in enumerate(labels)]
    ranked = sorted(zip(names, logits_N.softmax(-1).tolist(), strict=True), key=lambda pair: -pair[1])
    return dict(ranked)
