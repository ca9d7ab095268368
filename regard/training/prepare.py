"""From a recipe to everything a run needs: tokenizer, token cache, model, validation pairs."""

import dataclasses
import math
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.data.batching import Epochs
from regard.data.filter_counts import Stats
from regard.data.sources import Pair, training_pairs, validation_pairs
from regard.data.split import split_settings, write_split
from regard.data.token_cache import cached_corpus, location, tag_ids
from regard.errors import ConfigError, UsageError
from regard.io import new_directory
from regard.models.config import GenerationConfig, Seq2SeqConfig
from regard.models.initialize import initialize
from regard.models.seq2seq import Seq2Seq
from regard.plural import counted
from regard.text import tokenizer as text
from regard.text.tokenizer import Tokenizer
from regard.text.train_tokenizer import SPECIAL, learn
from regard.training.distributed import Workers
from regard.training.losses import TranslationLoss
from regard.training.minimum_risk import MinimumRiskLoss
from regard.training.rdrop import RDropLoss
from regard.training.recipe import Recipe, model_config
from regard.training.run_directory import CACHE, SPLIT_DATA, check_files, read_start, tokenizer_folder
from regard.training.settings import TrainSettings
from regard.weights.model_directory import Checkpoint

PAD, START, END = (SPECIAL.index(piece) for piece in ("<pad>", "<s>", "</s>"))
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Everything a run needs."""

    recipe: Recipe
    run: Path
    tokenizer: Tokenizer
    model: Seq2Seq
    loss: TranslationLoss
    epochs: Epochs
    valid: list[Pair]
    generation: GenerationConfig

    def locate(self, row: int) -> str:
        """The file and line of a row of the corpus."""
        corpus = self.epochs.corpus
        return location(self.recipe.data, bisect_right(corpus.ends, row), int(corpus.lines[row]))


def prepare(recipe: Recipe, run: Path, workers: Workers, say: Say, device: torch.device) -> Prepared:
    """Make tokenizer, token cache and model, or load them if they exist. The main worker makes them first."""
    if not recipe.data.train:
        raise UsageError("the recipe names no training data: [data] train = …")
    tokenizer = corpus = None
    for turn in (True, False):
        if workers.is_main == turn:
            recipe = _with_split(recipe, run, say)
            check_files(recipe)
            tokenizer = _tokenizer(recipe, run, say)
            corpus = cached_corpus(recipe.data, tokenizer, run / CACHE, dropout=recipe.tokenizer.dropout)
        workers.barrier()
    assert tokenizer is not None
    assert corpus is not None
    for line in corpus.stats.lines():
        say(line)
    start = read_start(run)
    model, generation = _initial_model(recipe, start, tokenizer), generation_config(recipe, start)
    context = model.config.context
    if recipe.data.max_tokens > context:
        raise ConfigError(f"[data] max_tokens {recipe.data.max_tokens} is more than the model's context, {context}")
    assert generation.start is not None
    assert generation.pad is not None
    epochs = Epochs(
        corpus,
        tokens=recipe.train.batch_tokens,
        seed=recipe.seed,
        start=generation.start,
        pad=generation.pad,
        weights=[files.weight for files in recipe.data.train],
        rank=workers.rank,
        world=workers.count,
    )
    model.to(device)
    return Prepared(
        recipe=recipe,
        run=run,
        tokenizer=tokenizer,
        model=model,
        loss=make_loss(model, recipe.train),
        epochs=epochs,
        valid=_short_enough(validation_pairs(recipe.data)[0], tokenizer, context, say),
        generation=generation,
    )


def make_loss(model: Seq2Seq, settings: TrainSettings) -> TranslationLoss:
    if settings.rdrop_alpha:
        return RDropLoss(model, settings.label_smoothing, settings.rdrop_alpha)
    if settings.mrt_weight:
        return MinimumRiskLoss(model, settings.label_smoothing, settings.mrt_weight)
    return TranslationLoss(model, settings.label_smoothing)


def new_config(recipe: Recipe, tokenizer: Tokenizer) -> Seq2SeqConfig:
    """The config of a model that is trained from scratch."""
    source_vocab = None if recipe.tokenizer.joint else tokenizer.vocab
    return model_config(recipe, tokenizer.vocab_target, source_vocab)


def generation_config(recipe: Recipe, start: Checkpoint | None) -> GenerationConfig:
    """The decoding defaults of the model, from the recipe's [decode] table."""
    decode = recipe.decode
    base = start.generation if start else GenerationConfig(start=START, end=(END,), pad=PAD)
    return dataclasses.replace(
        base,
        max_tokens=decode.max_tokens,
        beam=decode.beam,
        length_penalty=decode.length_penalty,
        length_form=decode.length_form,
    )


def _short_enough(pairs: list[Pair], tokenizer: Tokenizer, context: int, say: Say) -> list[Pair]:
    """The validation pairs that fit the model's context. The others are reported now, before hours of training."""
    lengths = [
        max(
            len(tag_ids(one.tag, tokenizer)) + len(tokenizer.encode(one.source)),
            len(tokenizer.encode_target(one.target)),
        )
        for one in pairs
    ]
    kept = [pair for pair, length in zip(pairs, lengths, strict=True) if length <= context]
    if len(kept) < len(pairs):
        say(f"{counted(len(pairs) - len(kept), 'validation pair')} left out: longer than the model's context")
    return kept


def _initial_model(recipe: Recipe, start: Checkpoint | None, tokenizer: Tokenizer) -> Seq2Seq:
    if start:
        assert isinstance(start.model, Seq2Seq)
        return start.model
    config = new_config(recipe, tokenizer)
    _check_size(config)
    model = Seq2Seq(config)
    initialize(model, recipe.seed)
    return model


def _check_size(config: Seq2SeqConfig) -> None:
    """The weights must fit into this machine's memory: otherwise Linux ends the process without a word."""
    try:
        with torch.device("meta"):
            size = 4.0 * sum(parameter.numel() for parameter in Seq2Seq(config).parameters())
    except (RuntimeError, TypeError, OverflowError):  # a size that is no 64-bit number
        size = math.inf
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else math.inf
    if size > memory or math.isinf(size):
        raise ConfigError(
            f"[model]: the weights take {size / 1e9:,.0f} GB, but this machine has {memory / 1e9:,.0f} GB of memory; "
            "choose a smaller width, inner, vocab or number of layers"
        )


def _with_split(recipe: Recipe, run: Path, say: Say) -> Recipe:
    """Split the training pairs if the recipe has a [data.split]; return the recipe with the new files."""
    if recipe.data.split is None:
        return recipe
    folder = run / SPLIT_DATA
    if not folder.exists():
        check_files(recipe)
        with new_directory(folder) as draft:
            stats = write_split(recipe.data, draft)
        for line in stats.lines():
            say(line)
    return dataclasses.replace(recipe, data=split_settings(recipe.data, folder))


def _tokenizer(recipe: Recipe, run: Path, say: Say) -> Tokenizer:
    folder = tokenizer_folder(recipe, run)
    if not folder.exists():
        say(f"learning {recipe.tokenizer.vocab:,} pieces …")

        def side(name: str) -> Iterator[str]:
            return (getattr(pair, name) for pair in training_pairs(recipe.data, Stats()))

        learned = learn(recipe.tokenizer, side("source"), side("target"))
        pieces = min(learned.vocab, learned.vocab_target)
        if pieces < recipe.tokenizer.vocab:
            say(
                f"warning: [tokenizer] vocab = {recipe.tokenizer.vocab:,} is too large for this text, which has only "
                f"{pieces:,} pieces that repeat; a smaller vocab sees every piece more often"
            )
        with new_directory(folder) as draft:
            learned.save(draft)
    tokenizer = text.load(folder)
    assert tokenizer is not None, "just saved"
    return tokenizer
