"""The spine: a model directory in, an object out whose methods are the path of a text through the model.

text -> tokens -> embeddings + positions -> [ the block ] x N -> logits -> search -> tokens -> text
        text/     blocks/                    blocks/  models/     models/   decoding/  text/
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import overload

import torch
from torch import Tensor

from regard import hardware
from regard.blocks.trace import Trace
from regard.decoding.greedy import greedy
from regard.errors import InputError, ModelError, UsageError
from regard.loaded import Candidate, Model, in_batches
from regard.models import family_of
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.seq2seq import Seq2Seq
from regard.models.vision import Vision
from regard.text import tokenizer as text
from regard.weights import store


class Translator(Model):
    """An encoder reads the source, a decoder writes the target."""

    network: Seq2Seq
    tasks = ("translate",)

    @overload
    def translate(self, texts: str, *, max_new: int | None = None) -> str: ...
    @overload
    def translate(self, texts: list[str], *, max_new: int | None = None) -> list[str]: ...
    def translate(self, texts: str | list[str], *, max_new: int | None = None) -> str | list[str]:
        if isinstance(texts, str):
            return self.translate([texts], max_new=max_new)[0]
        rows = [self._source(self._read(one)) for one in texts]  # text -> tokens
        results = [""] * len(rows)
        for batch in in_batches(rows):
            written = self._write([rows[i] for i in batch], max_new)  # tokens -> tokens
            for i, ids in zip(batch, written, strict=True):
                results[i] = self.tokenizer.decode(ids)  # tokens -> text
        return results

    @torch.inference_mode()
    def _write(self, sources: Sequence[Sequence[int]], max_new: int | None) -> list[list[int]]:
        memory = self.network.encode(*self._pad(sources))  # tokens -> states
        cache = self.network.new_cache()

        def step(ids_BL: Tensor) -> Tensor:  # states -> logits
            return self.network.decode(ids_BL, memory, cache=cache)[:, -1]

        first_B1 = torch.full((len(sources), 1), self._start(), device=self.device)
        limit, never = how_much(self, max_new, self.network.config.context - 1), not_to_write(self)
        return greedy(step, first_B1, max_new=limit, end=self.generation.end, never=never)

    def _start(self) -> int:
        if self.generation.start is None:
            raise ModelError(f"{self.source}: does not say which token a translation starts with")
        return self.generation.start

    def _source(self, ids: Sequence[int]) -> Sequence[int]:
        config = self.network.config
        return self._fit(ids, config.source_vocab or config.vocab, config.context)

    @torch.inference_mode()
    def logits(self, ids: Sequence[int], target: Sequence[int] | None = None) -> Tensor:
        """Logits of the token after each of `target` (L, V), which begins with the start token by itself."""
        config = self.network.config
        written = [self._start()] if target is None else self._fit(target, config.vocab, config.context)
        source_1S, target_1L = (torch.tensor([row], device=self.device) for row in (self._source(ids), written))
        logits_1LV: Tensor = self.network(source_1S, target_1L)
        return logits_1LV[0]

    @torch.inference_mode()
    def trace(self, text: str, target: str | None = None) -> Trace:
        """The source through the encoder, and a translation (its own unless given) through the decoder."""
        seen = Trace()
        source = self._source(self._read(text))
        written = self._write([source], None)[0] if target is None else self.tokenizer.encode_target(target)
        ends = self.generation.end
        target_ids = [self._start(), *(i for i in written if i not in ends)]
        self._fit(target_ids, self.network.config.vocab, self.network.config.context)
        source_1S, target_1L = (torch.tensor([row], device=self.device) for row in (source, target_ids))
        seen.note("source_ids", source_1S)
        seen.note("target_ids", target_1L)
        self.network(source_1S, target_1L, trace=seen)
        return seen


class TextModel(Model):
    """What encoders and decoders share: one text, one stack."""

    network: Encoder | Decoder

    @torch.inference_mode()
    def logits(self, ids: Sequence[int], target: object = None) -> Tensor:
        """At each place (L, V), or of the labels (N)."""
        logits: Tensor = self.network(torch.tensor([self._ids(ids)], device=self.device))
        return logits[0]

    @torch.inference_mode()
    def classify(self, item: str) -> dict[str, float]:
        labels = self.network.config.labels
        if not labels:
            self._cannot("classify")
        ids = self._ids(self._read(item))  # text -> tokens
        return by_probability(labels, self.logits(ids))  # tokens -> logits -> probabilities

    @torch.inference_mode()
    def trace(self, text: str, target: str | None = None) -> Trace:
        seen = Trace()
        ids_1L = torch.tensor([self._ids(self._read(text))], device=self.device)
        seen.note("ids", ids_1L)
        self.network(ids_1L, trace=seen)
        return seen

    def _ids(self, ids: Sequence[int]) -> Sequence[int]:
        return self._fit(ids, self.network.config.vocab, self.network.config.context)


class Reader(TextModel):
    """An encoder: it reads a text whole, for its meaning, its gaps or its class."""

    network: Encoder

    @property
    def tasks(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("embed",) + {"none": (), "masked_lm": ("fill",), "classifier": ("classify",)}[self.network.config.head]

    @torch.inference_mode()
    def embed(self, texts: str | Sequence[str]) -> Tensor:
        if isinstance(texts, str):
            return self.embed([texts])[0]
        rows = [self._ids(self._read(one)) for one in texts]  # text -> tokens
        vectors_ND = torch.empty(len(rows), self.config.width, device=self.device)
        for batch in in_batches(rows):
            vectors_ND[batch] = self.network.embed(*self._pad([rows[i] for i in batch]))  # tokens -> states -> vectors
        return vectors_ND

    @torch.inference_mode()
    def fill(self, text: str, *, top: int = 5) -> list[list[Candidate]]:
        if self.network.config.head != "masked_lm":
            self._cannot("fill")
        if top < 1:
            raise UsageError(f"top must be at least 1, not {top}")
        ids = self._ids(self._read(text))  # text -> tokens
        gaps = [place for place, token in enumerate(ids) if token == self.tokenizer.mask]
        if not gaps:
            known = self.tokenizer.mask
            mask = "" if known is None else f" ({self.tokenizer.pieces([known])[0]})"
            raise InputError(f"the text has no mask{mask} to fill")
        pieces = self.tokenizer.vocab  # the model's may be larger: vocabularies are often rounded up
        chances = self.logits(ids)[gaps].softmax(-1)[:, :pieces].topk(min(top, pieces))  # tokens -> logits
        return [
            [Candidate(*pair) for pair in zip(self.tokenizer.pieces(tokens), values, strict=True)]
            for tokens, values in zip(chances.indices.tolist(), chances.values.tolist(), strict=True)
        ]


class Writer(TextModel):
    """A decoder: it goes on where a text stops."""

    network: Decoder

    @property
    def tasks(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("generate",) if self.network.config.head == "lm" else ("classify",)

    def generate(self, prompt: str = "", *, max_new: int | None = None) -> str:
        if self.network.config.head != "lm":
            self._cannot("generate")
        ids = self.tokenizer.encode(prompt)  # text -> tokens
        if not ids:
            if self.generation.start is None:
                raise InputError("the prompt is empty, and this model has no token to begin with")
            ids = [self.generation.start]
        (said,) = self._continue([self._ids(ids)], max_new)  # tokens -> states -> logits -> tokens
        whole, given = self.tokenizer.decode([*ids, *said]), self.tokenizer.decode(ids)
        return whole.removeprefix(given)  # tokens -> text

    @torch.inference_mode()
    def _continue(self, prompts: Sequence[Sequence[int]], max_new: int | None) -> list[list[int]]:
        ids_BL, present_BL = self._pad(prompts, left=True)  # on the left: every row goes on at its right end
        cache = self.network.new_cache()

        def step(ids_BL: Tensor) -> Tensor:
            present = present_BL if cache.length == 0 else torch.ones_like(ids_BL, dtype=torch.bool)
            states_BLD = self.network.states(ids_BL, present, cache)
            logits_BV: Tensor = self.network.output(states_BLD[:, -1])
            return logits_BV

        limit, never = how_much(self, max_new, self.network.config.context - ids_BL.shape[1]), not_to_write(self)
        return greedy(step, ids_BL, max_new=limit, end=self.generation.end, never=never)


class Viewer(Model):
    """A vision model: pixels in the range it was trained on (C, Y, X) in, labels out."""

    network: Vision

    @property
    def tasks(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("classify",) if self.network.config.labels else ()

    def classify(self, item: Tensor) -> dict[str, float]:
        if not self.network.config.labels:
            self._cannot("classify")
        return by_probability(self.network.config.labels, self.logits(item))

    @torch.inference_mode()
    def logits(self, ids: Tensor, target: object = None) -> Tensor:
        """Of the labels (N), for the pixels of one image; without labels, the states (P, D)."""
        config = self.network.config
        if ids.shape != (config.channels, config.image, config.image):
            wanted = [config.channels, config.image, config.image]
            raise InputError(f"the image has shape {list(ids.shape)}, but this model looks at {wanted}")
        out: Tensor = self.network(ids.float()[None].to(self.device))
        return out[0]


def how_much(model: Translator | Writer, max_new: int | None, room: int) -> int:
    """How many tokens to write at most: as asked for, or as the model says, and what there is room for."""
    if max_new is not None and max_new < 1:
        raise UsageError(f"max_new must be at least 1, not {max_new}")
    return min(max_new or model.generation.max_new or room, room)


def not_to_write(model: Translator | Writer) -> Sequence[int]:
    """What the model says, and what its tokenizer has no piece for: vocabularies are often rounded up."""
    vocab = model.network.config.vocab
    pieces = model.tokenizer.vocab_target if model.has_tokenizer else vocab
    return (*model.generation.never, *range(pieces, vocab))


def by_probability(labels: Sequence[str], logits_N: Tensor) -> dict[str, float]:
    ranked = sorted(zip(labels, logits_N.softmax(-1).tolist(), strict=True), key=lambda pair: -pair[1])
    return dict(ranked)


KINDS: dict[str, Callable[..., Model]] = {
    "seq2seq": Translator,
    "encoder": Reader,
    "decoder": Writer,
    "vision": Viewer,
}


def load(directory: str | Path, *, device: str = "auto") -> Model:
    """The model in a directory: regard's own, or Hugging Face's as it is; or in a llama2.c `.bin` file."""
    hardware.prepare()  # before torch's first use: some machines die of what they advertise
    path = Path(directory)
    stored = store.read(path)
    tokenizer = text.load(path.parent if path.is_file() else path)
    if tokenizer is not None:
        written = getattr(stored.config, "vocab", 0)
        read = getattr(stored.config, "source_vocab", None) or written
        for pieces, known in ((tokenizer.vocab, read), (tokenizer.vocab_target, written)):
            if pieces > known:
                raise ModelError(
                    f"{path}: the tokenizer has {pieces:,} pieces, but the model knows only {known:,}; "
                    f"one of them belongs to another model"
                )
    stored.model.to(hardware.device(device))
    return KINDS[family_of(stored.config)](stored.model, stored.generation, tokenizer, path)
