"""regard train"""

import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options, output
from regard.errors import UsageError
from regard.plural import counted

if TYPE_CHECKING:
    import torch

    from regard.data.sources import Pair
    from regard.tasks import TranslationModel
    from regard.training.checkpoint import Progress
    from regard.training.loop import Batches
    from regard.training.recipe import Recipe
    from regard.training.translation import Prepared

SAMPLES = 3
"""Translations that are shown with each validation."""


@click.command(
    "train",
    cls=options.Verb,
    epilog="""\b
Examples:
  regard train recipes/sample.toml runs/sample
  regard train recipes/multi30k-en-de.toml runs/en-de --set data.dir=multi30k --set train.updates=4000
  regard train --resume runs/en-de
  torchrun --standalone --nproc_per_node 2 -m regard train recipes/sample.toml runs/two
""",
)
@click.argument("paths", nargs=-1, metavar="[RECIPE] RUN", type=options.PATH)
@click.option("--set", "overrides", multiple=True, metavar="TABLE.KEY=VALUE", help="A setting of the recipe, changed.")
@click.option("--resume", is_flag=True, help="Go on with the run from its last whole checkpoint.")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, mps or auto.")
def command(paths: tuple[Path, ...], overrides: tuple[str, ...], resume: bool, device: str) -> int:
    """Train a model as RECIPE says, in a new directory RUN: text files in, a model directory out (RUN/model)."""
    from regard.cpu import capabilities, threads
    from regard.cpu.device import resolve_device, resolve_dtype

    capabilities.prepare()
    from regard.training.distributed import Workers
    from regard.training.recipe import load_recipe
    from regard.training.translation import open_run, reopen_run

    if len(paths) != (1 if resume else 2):
        raise UsageError("give RECIPE and RUN to begin a run, or --resume RUN to go on with one")
    if resume and overrides:
        raise UsageError("--set is for a new run; one that goes on keeps its recipe")
    run = paths[-1]
    recipe = reopen_run(run) if resume else load_recipe(paths[0], overrides)
    if recipe.start:
        recipe = replace(recipe, start=str(options.model_path(Path(recipe.start))))
    if resume and (run / "model").exists():
        raise UsageError(f"{run}: is finished; its model is {run / 'model'}")
    workers = Workers(recipe.train.parallel)
    chosen = resolve_device(device)
    resolve_dtype(recipe.train.dtype, chosen)  # which complains about what this machine cannot do
    if workers.alone:
        threads.set_threads()
    with workers.meet(chosen):
        if not resume and workers.first:
            open_run(run, recipe)
        workers.wait()
        progress = learn(recipe, run, workers, chosen, resume)
    code = 0 if progress.stopped_by is None else 128 + progress.stopped_by
    if not workers.alone:
        workers.leave(code)
    return code


def learn(recipe: "Recipe", run: Path, workers: Any, device: "torch.device", resume: bool) -> "Progress":
    from regard.training.loop import Job, train
    from regard.training.translation import finish, prepare

    say: Callable[[str], None] = output.status if workers.first else lambda line: None
    prepared = prepare(recipe, run, workers, say, device)
    count = sum(parameter.numel() for parameter in prepared.model.parameters())
    batches, updates = counted(len(prepared.epochs(0)), "batch", "batches"), counted(recipe.train.updates, "update")
    say(f"{count / 1e6:.1f} M parameters, {batches} an epoch, {updates}")
    with output.progress(recipe.train.updates) as bar:
        progress = train(
            Job(
                loss=prepared.loss,
                model=prepared.model,
                batches=batches_of(prepared),
                validate=lambda: validate(prepared, device),
                settings=recipe.train,
                seed=recipe.seed,
                run=run,
                device=device,
                workers=workers,
                report=lambda record: show(record, bar),
                where=prepared.where,
            ),
            resume=resume,
        )
    if not workers.first:
        return progress
    if progress.stopped_by is not None:
        name = signal.Signals(progress.stopped_by).name
        say(f"stopped by {name} after update {progress.update:,}; go on with: regard train --resume {run}")
    else:
        used = finish(prepared)
        names = used[0].name if len(used) == 1 else f"{used[0].name} … {used[-1].name}"
        say(f"{run / 'model'}: the mean of {counted(len(used), 'checkpoint')} ({names})")
    return progress


def batches_of(prepared: "Prepared") -> "Batches":
    """Pairs to learn from; where the recipe asks for the risk, with what the model makes of them by itself."""
    train = prepared.recipe.train
    if not train.risk:
        return prepared.epochs
    from regard.evaluation.rewards import SampleRewards
    from regard.tasks import TranslationModel
    from regard.training.minimum_risk import RewardedBatches

    translator = TranslationModel(prepared.model, prepared.generation, prepared.tokenizer, prepared.run)
    propose = SampleRewards(translator, train.risk_width)
    start, pad = prepared.epochs.start, prepared.epochs.pad
    return lambda epoch: RewardedBatches(prepared.epochs(epoch), propose, start=start, pad=pad)


def validate(prepared: "Prepared", device: "torch.device") -> dict[str, Any]:
    """Loss and BLEU on the validation pairs, and a few translations to look at."""
    from regard.evaluation.translation import bleu
    from regard.tasks import TranslationModel
    from regard.training.translation import validation_loss

    if not prepared.valid:
        return {"score": 0.0}
    started = time.perf_counter()
    loss = validation_loss(prepared, device)
    translator = TranslationModel(prepared.model, prepared.generation, prepared.tokenizer, prepared.run)
    outputs = translate_all(translator, prepared.valid)
    figure = bleu(outputs, [pair.target for pair in prepared.valid])
    stop_on = prepared.recipe.train.stop_on
    return {
        "score": -loss if stop_on == "loss" else figure.value,
        "loss": loss,
        "bleu": figure.value,
        "signature": figure.signature,
        "seconds": time.perf_counter() - started,
        "samples": [
            {"source": pair.source, "target": pair.target, "output": out}
            for pair, out in list(zip(prepared.valid, outputs, strict=True))[:SAMPLES]
        ],
    }


def translate_all(translator: "TranslationModel", pairs: "list[Pair]") -> list[str]:
    """Greedily, each into its own language where the model has several.

    A model that has just begun does not know when to stop: nothing may be much longer than the longest reference.
    """
    outputs = [""] * len(pairs)
    longest = max(len(translator.tokenizer.encode_target(pair.target)) for pair in pairs)
    for tag in {pair.tag for pair in pairs}:
        rows = [i for i, pair in enumerate(pairs) if pair.tag == tag]
        found = translator.translate([pairs[i].source for i in rows], beam=1, to=tag, max_new=longest + 20)
        for i, text in zip(rows, found, strict=True):
            outputs[i] = text
    return outputs


def show(record: dict[str, Any], bar: Any) -> None:
    """A line of the journal, for people."""
    match record["kind"]:
        case "train":
            bar.update(
                record["update"],
                f"loss {record['loss']:.3f}  lr {record['rate']:.2g}  {record['tokens_per_second']:,.0f} tokens/s",
            )
        case "valid":
            measured = (
                f"loss {record['loss']:.3f}, BLEU {record['bleu']:.2f}" if "loss" in record else "no validation data"
            )
            bar.status(f"update {record['update']:,}, epoch {record['epoch'] + 1}: {measured}")
            for sample in record.get("samples", [])[:1]:
                bar.status(f"  {sample['source']}\n  → {sample['output']}")
        case "split":
            bar.status(f"update {record['update']:,}: out of memory, tried again in {record['pieces']} pieces")
        case "skipped":
            bar.status(
                f"update {record['update']:,}: the loss was {record['loss']}, skipped (pairs {record['pairs']} …)"
            )
