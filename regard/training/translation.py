"""From a recipe to a translation model that is ready to train, and from its checkpoints to a model directory.

run/recipe.json      the recipe, resolved: what `--resume` and everyone else reads
    data/            the training pairs, divided, where the recipe has a [data.split]
    tokenizer/       learnt from the training pairs
    cache/           the pairs as tokens
    state/           checkpoints
    log.jsonl        what happened
    model/           what comes out
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.config import load_json, plain, read
from regard.data.account import Account
from regard.data.batching import Batch, Epochs, collate
from regard.data.cache import cached
from regard.data.ragged import Ragged
from regard.data.sources import Pair, training_pairs, valid_pairs
from regard.data.split import split_settings, write_split
from regard.errors import InputError, OutputError, TrainingError, UsageError
from regard.models.generation import Generation
from regard.models.initialize import initialize
from regard.models.seq2seq import Seq2Seq
from regard.text import tokenizer as text
from regard.text.learn import SPECIAL, learn
from regard.text.tokenizer import Tokenizer, tag_piece
from regard.training import state
from regard.training.distributed import Workers
from regard.training.losses import TranslationLoss
from regard.training.recipe import Recipe, model_config
from regard.weights import store
from regard.weights.directory import Stored, new_directory, write_json
from regard.weights.tensors import fill

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

    @property
    def generation(self) -> Generation:
        return generation_of(self.recipe)


def generation_of(recipe: Recipe) -> Generation:
    """What the model says about how it wants to be decoded."""
    decode = recipe.decode
    return Generation(
        start=START,
        end=(END,),
        pad=PAD,
        max_new=decode.max_new,
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
        raise UsageError(f"{run}: is there already; go on with --resume, or choose another name")
    check_files(recipe)
    try:
        run.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{run}: cannot be made ({error.strerror})") from None
    with new_directory(run) as draft:
        write_json(draft / "recipe.json", plain(recipe))


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
    separate = None if recipe.tokenizer.joint else tokenizer.vocab
    model = Seq2Seq(model_config(recipe, tokenizer.vocab_target, separate))
    initialize(model, recipe.seed)
    model.to(device)
    epochs = Epochs(
        corpus,
        tokens=recipe.train.batch_tokens,
        seed=recipe.seed,
        start=START,
        pad=PAD,
        weights=[files.weight for files in recipe.data.train],
        rank=workers.rank,
        world=workers.count,
    )
    valid, _ = valid_pairs(recipe.data)
    loss = TranslationLoss(model, recipe.train.label_smoothing)
    return Prepared(recipe=recipe, run=run, tokenizer=tokenizer, model=model, loss=loss, epochs=epochs, valid=valid)


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


def _tokenizer(recipe: Recipe, run: Path, say: Say) -> Tokenizer:
    folder = run / "tokenizer"
    if not folder.exists():
        say(f"learning {recipe.tokenizer.vocab:,} pieces …")

        def side(name: str) -> Iterator[str]:
            return (getattr(pair, name) for pair in training_pairs(recipe.data, Account()))

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
    tokenizer, context = prepared.tokenizer, prepared.model.config.context
    rows = [
        ([*tag_of(pair, tokenizer), *tokenizer.encode(pair.source)], tokenizer.encode_target(pair.target))
        for pair in prepared.valid
    ]
    rows = sorted((row for row in rows if max(map(len, row)) <= context), key=lambda row: len(row[0]))
    for start in range(0, len(rows), VALIDATION_ROWS):
        part = rows[start : start + VALIDATION_ROWS]
        source, target = (_ragged([row[side] for row in part]) for side in (0, 1))
        yield collate(source, target, torch.arange(start, start + len(part)).numpy(), start=START, pad=PAD)


def tag_of(pair: Pair, tokenizer: Tokenizer) -> list[int]:
    number = None if pair.tag is None else tokenizer.id_of(tag_piece(pair.tag))
    return [] if number is None else [number]


def _ragged(rows: Sequence[Sequence[int]]) -> Ragged:
    flat = torch.tensor([token for row in rows for token in row]).numpy()
    return Ragged(flat, torch.tensor([len(row) for row in rows]).numpy())


def finish(prepared: Prepared) -> list[Path]:
    """Write run/model from the mean of the checkpoints that the recipe asks for; which ones, comes back."""
    train = prepared.recipe.train
    paths = state.chosen(prepared.run / "state", train.average, best=train.average_best)
    if not paths:
        raise TrainingError(f"{prepared.run}: there is no validated checkpoint to make a model of")
    write_mean(prepared.run / "model", prepared.recipe, prepared.run, paths)
    return paths


def write_mean(directory: Path, recipe: Recipe, run: Path, paths: list[Path]) -> None:
    """A new model directory from the mean of some checkpoints of a run."""
    tokenizer = text.load(run / "tokenizer")
    if tokenizer is None:
        raise TrainingError(f"{run}: has lost its tokenizer")
    separate = None if recipe.tokenizer.joint else tokenizer.vocab
    config = model_config(recipe, tokenizer.vocab_target, separate)
    model = fill(config, state.mean_weights(paths), paths[-1])
    with new_directory(directory) as draft:
        store.write(draft, Stored(model, generation_of(recipe)))
        tokenizer.save(draft)
