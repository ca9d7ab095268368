"""The spine: a model directory in, an object out whose methods are the path of a text through the model.

text -> tokens -> embeddings + positions -> [ the block ] x N -> logits -> search -> tokens -> text
        text/     blocks/                    blocks/  models/     models/   decoding/  text/
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor

from regard import hardware
from regard.blocks.trace import Trace
from regard.config import read
from regard.decoding import align as alignment
from regard.decoding.interface import Hypothesis, Opening
from regard.decoding.sample import seed_for
from regard.decoding.search import search
from regard.decoding.settings import Search
from regard.errors import InputError, ModelError, UsageError
from regard.loaded import Candidate, Model, Translation, in_batches
from regard.models import family_of
from regard.models.decoder import Decoder
from regard.models.encoder import Encoder
from regard.models.generation import Generation
from regard.models.seq2seq import Seq2Seq
from regard.models.vision import Vision
from regard.steps import TranslationStep, WritingStep
from regard.text import tokenizer as text
from regard.text.tokenizer import tag_piece
from regard.text.words import word_numbers
from regard.weights import store


class Translator(Model):
    """An encoder reads the source, a decoder writes the target."""

    network: Seq2Seq
    tasks = ("translate",)

    @overload
    def translate(self, texts: str, **options: Any) -> str: ...
    @overload
    def translate(self, texts: list[str], **options: Any) -> list[str]: ...
    def translate(self, texts: str | list[str], **options: Any) -> str | list[str]:
        if isinstance(texts, str):
            return self.translate([texts], **options)[0]
        return [found[0].text for found in self.translations(texts, **options)]

    def translations(
        self, texts: Sequence[str], *, to: str | None = None, align: bool = False, **options: Any
    ) -> list[list[Translation]]:
        """The translations that were found for each text, best first, with all that is known about them.

        `to` is the language, for a model that has several. The options are those of
        `regard.decoding.settings.Search`: beam, n_best, length_penalty, temperature, …
        """
        settings = search_settings(self.generation, options)
        rows = [self._source(self.source_ids(one, to)) for one in texts]  # text -> tokens
        results: list[list[Translation]] = [[] for _ in rows]
        for batch in in_batches(rows):
            found = self._search([rows[i] for i in batch], settings)  # tokens -> tokens
            for i, hypotheses in zip(batch, found, strict=True):
                results[i] = [self._translation(rows[i], one, align) for one in hypotheses]  # tokens -> text
        return results

    def write(self, rows: Sequence[Sequence[int]], **options: Any) -> list[list[int]]:
        settings = search_settings(self.generation, options)
        return [found[0].tokens for found in self._search([self._source(row) for row in rows], settings)]

    @torch.inference_mode()
    def _search(self, sources: Sequence[Sequence[int]], settings: Search) -> list[list[Hypothesis]]:
        memory = self.network.encode(*self._pad(sources))  # tokens -> states
        opening = Opening(
            first_BL=torch.full((len(sources), 1), self._start(), device=self.device),
            room=self.network.config.context - 1,
            end=self.generation.end,
            never=not_to_write(self),
            seeds=[seed_for(settings.seed, row) for row in sources],  # each text has its own luck, in any company
        )
        return search(TranslationStep(self.network, memory), opening, settings)  # states -> logits -> tokens

    def _translation(self, source: Sequence[int], found: Hypothesis, align: bool) -> Translation:
        return Translation(
            text=self.tokenizer.decode(found.tokens),
            score=found.score,
            log_probability=found.log_probability,
            pieces=self.tokenizer.pieces_target(found.tokens),
            piece_log_probabilities=found.token_log_probabilities,
            ended=found.ended,
            alignment=self._align(source, found.tokens) if align else None,
        )

    def _align(self, source: Sequence[int], target: Sequence[int]) -> list[tuple[int, int]]:
        """Which word of the source each word of the target looks at, by the cross-attention of a second pass."""
        seen = self._trace(source, [self._start(), *target])
        layers = range(self.network.config.decoder_layers)
        weights_NHTS = torch.stack([seen[f"decoder.blocks.{i}.cross.weights"][0] for i in layers])
        tokenizer = self.tokenizer
        special = {tokenizer.pad, tokenizer.start, tokenizer.end, *(i for i in source[:1] if self._is_tag(i))}
        source_words = word_numbers(tokenizer.pieces(source), source, special)
        target_words = word_numbers(tokenizer.pieces_target(target), target, special)
        return alignment.hard(alignment.of_words(alignment.soft(weights_NHTS), source_words, target_words))

    def source_ids(self, text: str, to: str | None = None) -> list[int]:
        """What the model reads: the text, and before it the language asked for, of a model that has several."""
        return [*([] if to is None else [self._tag(to)]), *self._read(text)]

    def _is_tag(self, token: int) -> bool:
        (piece,) = self.tokenizer.pieces([token])
        return piece.startswith(">>") and piece.endswith("<<")

    def _tag(self, language: str) -> int:
        number = self.tokenizer.id_of(tag_piece(language))
        if number is None:
            raise UsageError(f"{self.source}: this model does not know '{language}' as a language to translate into")
        return number

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
        source = self._source(self._read(text))
        if target is None:
            written = self._search([source], search_settings(self.generation, {}))[0][0].tokens
        else:
            written = [token for token in self.tokenizer.encode_target(target) if token not in self.generation.end]
        return self._trace(source, [self._start(), *written])

    @torch.inference_mode()
    def _trace(self, source: Sequence[int], target: Sequence[int]) -> Trace:
        seen = Trace()
        self._fit(target, self.network.config.vocab, self.network.config.context)
        source_1S, target_1L = (torch.tensor([row], device=self.device) for row in (source, target))
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

    def generate(self, prompt: str = "", **options: Any) -> str:
        if self.network.config.head != "lm":
            self._cannot("generate")
        settings = search_settings(self.generation, options)
        ids = self.tokenizer.encode(prompt)  # text -> tokens
        if not ids:
            if self.generation.start is None:
                raise InputError("the prompt is empty, and this model has no token to begin with")
            ids = [self.generation.start]
        said = self._search([self._ids(ids)], settings)[0][0].tokens  # tokens -> states -> logits -> tokens
        whole, given = self.tokenizer.decode([*ids, *said]), self.tokenizer.decode(ids)
        return whole.removeprefix(given)  # tokens -> text

    def write(self, rows: Sequence[Sequence[int]], **options: Any) -> list[list[int]]:
        settings = search_settings(self.generation, options)
        return [found[0].tokens for found in self._search([self._ids(row) for row in rows], settings)]

    @torch.inference_mode()
    def _search(self, prompts: Sequence[Sequence[int]], settings: Search) -> list[list[Hypothesis]]:
        ids_BL, present_BL = self._pad(prompts, left=True)  # on the left: every row goes on at its right end
        opening = Opening(
            first_BL=ids_BL,
            present_BL=present_BL,
            room=[self.network.config.context - len(prompt) for prompt in prompts],
            end=self.generation.end,
            never=not_to_write(self),
            seeds=[seed_for(settings.seed, row) for row in prompts],
        )
        return search(WritingStep(self.network, present_BL), opening, settings)


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


def search_settings(generation: Generation, options: Mapping[str, Any]) -> Search:
    """How to search: as the caller says, and else as the model says."""
    asked = {key: value for key, value in options.items() if value is not None}
    if asked.get("max_new", 1) < 1:
        raise UsageError(f"max_new must be at least 1, not {asked['max_new']}")
    own = {
        "beam": 1 if asked.get("temperature") else generation.beam,
        "length_penalty": generation.length_penalty,
        "length_form": generation.length_form,
        "max_new": generation.max_new,
    }
    if asked.get("n_best", 1) > own["beam"] and not asked.get("temperature"):
        own["beam"] = asked["n_best"]
    return read(Search, own | asked, "search")


def not_to_write(model: Translator | Writer) -> Sequence[int]:
    """What the model says, and what its tokenizer has no piece for: vocabularies are often rounded up."""
    vocab = model.network.config.vocab
    pieces = model.tokenizer.vocab_target if model.has_tokenizer else vocab
    return (*model.generation.never, *range(pieces, vocab))


def by_probability(labels: Sequence[str], logits_N: Tensor) -> dict[str, float]:
    # ImageNet has two cranes and two maillots: a name that stands for several classes is told apart by its number
    names = [name if labels.count(name) == 1 else f"{name} ({i})" for i, name in enumerate(labels)]
    ranked = sorted(zip(names, logits_N.softmax(-1).tolist(), strict=True), key=lambda pair: -pair[1])
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
