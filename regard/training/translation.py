"""From a recipe to a translation model that is ready to train, and from its checkpoints to a model directory.

run/recipe.json      the recipe, resolved: what `--resume` and everyone else reads
    data/            the training pairs, divided, where the recipe has a [data.split]
    start/           the model that it goes on from, where the recipe names one
    tokenizer/       learnt from the training pairs, where it goes on from none
    cache/           the pairs as tokens
    state/           checkpoints
    log.jsonl        what happened
    model/           what comes out
"""

import dataclasses
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.config import load_json, plain, read
from regard.data.batching import Batch, Epochs, collate
from regard.data.ragged import Ragged
from regard.data.sources import Pair, training_pairs, valid_pairs
from regard.data.split import split_settings, write_split
from regard.data.stats import Stats
from regard.data.token_cache import cached, tag_ids, where
from regard.errors import ConfigError, InputError, ModelError, OutputError, TaskError, TrainingError, UsageError
from regard.io import new_directory, write_json
from regard.models.config import BlockConfig, Seq2SeqConfig
from regard.models.generation_config import GenerationConfig
from regard.models.initialize import initialize
from regard.models.seq2seq import Seq2Seq
from regard.plural import counted
from regard.text import tokenizer as text
from regard.text.learn import SPECIAL, learn
from regard.text.tokenizer import Tokenizer
from regard.training import checkpoint
from regard.training.distributed import Workers
from regard.training.recipe import Recipe, model_config
from regard.training.translation_loss import TranslationLoss
from regard.weights.checkpoint import read_model, write_model
from regard.weights.directory import Checkpoint
from regard.weights.tensors import build_model, parameters

PAD, START, END = (SPECIAL.index(piece) for piece in ("<pad>", "<s>", "</s>"))
VALIDATION_ROWS = 64
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """All that a run needs, made or found again."""

    recipe: Recipe
    run: Path
    tokenizer: Tokenizer
    model: Seq2Seq
    loss: TranslationLoss
    epochs: Epochs
    valid: list[Pair]
    generation: GenerationConfig

    def where(self, row: int) -> str:
        """The line that a row of the corpus came from."""
        corpus = self.epochs.corpus
        return where(self.recipe.data, bisect_right(corpus.ends, row), int(corpus.lines[row]))


def generation_of(recipe: Recipe, started: Checkpoint | None) -> GenerationConfig:
    """What the model says about how it wants to be decoded."""
    decode = recipe.decode
    base = started.generation if started else GenerationConfig(start=START, end=(END,), pad=PAD)
    return dataclasses.replace(
        base,
        max_tokens=decode.max_new,
        beam=decode.beam,
        length_penalty=decode.length_penalty,
        length_form=decode.length_form,
    )


def check_files(recipe: Recipe) -> None:
    """Every file that the recipe names must be there, before anything is made for it."""
    folder = Path(recipe.data.dir)
    for files in (*recipe.data.train, *recipe.data.valid):
        for path in files.paths(folder):
            if not path.is_file():
                raise InputError(f"{path}: there is no such file; [data] dir says where files are")


def open_run(run: Path, recipe: Recipe) -> None:
    """Make the run's directory; one that is there already is gone on with, or is somebody else's."""
    if run.exists():
        raise UsageError(f"{run}: is there already; go on with --resume, remove it, or choose another name")
    check_files(recipe)
    try:
        run.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{run}: cannot be made ({error.strerror})") from None
    with new_directory(run) as draft:
        write_json(draft / "recipe.json", plain(recipe))
        if recipe.start:
            _copy_start(recipe, draft / "start")


def _copy_start(recipe: Recipe, folder: Path) -> None:
    """So that the run can go on when the directory that it started from is no longer there."""
    path = Path(recipe.start)
    stored, tokenizer = read_model(path, trainable=True), text.load(path)
    config = stored.config
    if not isinstance(config, Seq2SeqConfig) or tokenizer is None:
        raise TaskError(f"{path}: is no translation model with a tokenizer, so no training can start from it")
    if stored.generation.start is None or stored.generation.pad is None:
        raise ModelError(f"{path}: does not say which tokens start a text and fill a batch")
    config = read(Seq2SeqConfig, plain(config) | recipe.model, "[model]")
    with new_directory(folder) as draft:
        write_model(draft, Checkpoint(build_model(config, parameters(stored.model), path), stored.generation))
        tokenizer.save(draft)


def started_from(run: Path) -> Checkpoint | None:
    return read_model(run / "start") if (run / "start").exists() else None


def reopen_run(run: Path) -> Recipe:
    path = run / "recipe.json"
    if not path.is_file():
        raise TrainingError(f"{run}: there is no run to go on with")
    return read(Recipe, load_json(path), str(path))


def prepare(recipe: Recipe, run: Path, workers: Workers, say: Say, device: torch.device) -> Prepared:
    """Tokenizer, token cache, model: made by the first worker, read by the others."""
    if not recipe.data.train:
        raise UsageError("the recipe names no training data: [data] train = …")
    tokenizer = corpus = None
    for turn in (True, False):
        if workers.first == turn:
            recipe = _divided(recipe, run, say)
            tokenizer = _tokenizer(recipe, run, say)
            corpus = cached(recipe.data, tokenizer, run / "cache", dropout=recipe.tokenizer.dropout)
        workers.wait()
    assert tokenizer is not None
    assert corpus is not None
    for line in corpus.account.lines():
        say(line)
    started = started_from(run)
    model, generation = _first_model(recipe, started, tokenizer), generation_of(recipe, started)
    if recipe.data.max_tokens > model.config.context:
        context = model.config.context
        raise ConfigError(f"[data] max_tokens {recipe.data.max_tokens} is more than the model's context, {context}")
    model.to(device)
    start, pad = _start_and_pad(generation)
    epochs = Epochs(
        corpus,
        tokens=recipe.train.batch_tokens,
        seed=recipe.seed,
        start=start,
        pad=pad,
        weights=[files.weight for files in recipe.data.train],
        rank=workers.rank,
        world=workers.count,
    )
    valid = _readable(valid_pairs(recipe.data)[0], tokenizer, model.config.context, say)
    loss = TranslationLoss(model, recipe.train.label_smoothing, recipe.train.agreement, recipe.train.risk)
    return Prepared(
        recipe=recipe,
        run=run,
        tokenizer=tokenizer,
        model=model,
        loss=loss,
        epochs=epochs,
        valid=valid,
        generation=generation,
    )


def _readable(pairs: list[Pair], tokenizer: Tokenizer, context: int, say: Say) -> list[Pair]:
    """The validation pairs that the model can read; that there are others is said now, and not after hours of work."""
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


def _first_model(recipe: Recipe, started: Checkpoint | None, tokenizer: Tokenizer) -> Seq2Seq:
    if started:
        assert isinstance(started.model, Seq2Seq)
        return started.model
    model = Seq2Seq(_new_config(recipe, tokenizer))
    initialize(model, recipe.seed)
    return model


def _new_config(recipe: Recipe, tokenizer: Tokenizer) -> Seq2SeqConfig:
    separate = None if recipe.tokenizer.joint else tokenizer.vocab
    return model_config(recipe, tokenizer.vocab_target, separate)


def _start_and_pad(generation: GenerationConfig) -> tuple[int, int]:
    assert generation.start is not None
    assert generation.pad is not None
    return generation.start, generation.pad


def _divided(recipe: Recipe, run: Path, say: Say) -> Recipe:
    """The recipe with the files that the run has divided for itself."""
    if recipe.data.split is None:
        return recipe
    folder = run / "data"
    if not folder.exists():
        with new_directory(folder) as draft:
            account = write_split(recipe.data, draft)
        for line in account.lines():
            say(line)
    return dataclasses.replace(recipe, data=split_settings(recipe.data, folder))


def _tokenizer_folder(recipe: Recipe, run: Path) -> Path:
    return run / ("start" if recipe.start else "tokenizer")


def _tokenizer(recipe: Recipe, run: Path, say: Say) -> Tokenizer:
    folder = _tokenizer_folder(recipe, run)
    if not folder.exists():
        say(f"learning {recipe.tokenizer.vocab:,} pieces …")

        def side(name: str) -> Iterator[str]:
            return (getattr(pair, name) for pair in training_pairs(recipe.data, Stats()))

        learnt = learn(recipe.tokenizer, side("source"), side("target"))
        with new_directory(folder) as draft:
            learnt.save(draft)
    found = text.load(folder)
    assert found is not None, "saved a moment ago"
    return found


@torch.inference_mode()
def validation_loss(prepared: Prepared, device: torch.device) -> float:
    """Mean negative log-likelihood of a token of the validation targets, unsmoothed."""
    total, tokens = 0.0, 0
    for batch in _validation_batches(prepared):
        _, likelihood = prepared.loss(batch.to(device))
        total, tokens = total - float(likelihood), tokens + batch.tokens
    return total / max(tokens, 1)


def _validation_batches(prepared: Prepared) -> Iterator[Batch]:
    tokenizer = prepared.tokenizer
    start_token, pad = _start_and_pad(prepared.generation)
    rows = [
        ([*tag_ids(pair.tag, tokenizer), *tokenizer.encode(pair.source)], tokenizer.encode_target(pair.target))
        for pair in prepared.valid
    ]
    rows.sort(key=lambda row: len(row[0]))
    for start in range(0, len(rows), VALIDATION_ROWS):
        part = rows[start : start + VALIDATION_ROWS]
        source, target = (_ragged([row[side] for row in part]) for side in (0, 1))
        yield collate(source, target, torch.arange(start, start + len(part)).numpy(), start=start_token, pad=pad)


def _ragged(rows: Sequence[Sequence[int]]) -> Ragged:
    flat = torch.tensor([token for row in rows for token in row]).numpy()
    return Ragged(flat, torch.tensor([len(row) for row in rows]).numpy())


def finish(prepared: Prepared) -> list[Path]:
    """Write run/model from the mean of the checkpoints that the recipe asks for; which ones, comes back."""
    train = prepared.recipe.train
    paths = checkpoint.chosen(prepared.run / "state", train.average, best=train.average_best)
    if not paths:
        raise TrainingError(f"{prepared.run}: there is no validated checkpoint to make a model of")
    write_mean(prepared.run / "model", prepared.recipe, prepared.run, paths)
    return paths


def write_mean(directory: Path, recipe: Recipe, run: Path, paths: list[Path]) -> None:
    """A new model directory from the mean of some checkpoints of a run."""
    tokenizer = text.load(_tokenizer_folder(recipe, run))
    if tokenizer is None:
        raise TrainingError(f"{run}: has lost its tokenizer")
    started = started_from(run)
    config: BlockConfig = started.config if started else _new_config(recipe, tokenizer)
    model = build_model(config, checkpoint.mean_weights(paths), paths[-1])
    with new_directory(directory) as draft:
        write_model(draft, Checkpoint(model, generation_of(recipe, started)))
        tokenizer.save(draft)
