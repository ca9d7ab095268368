"""regard train"""

import os
import select
import signal
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options, output
from regard.errors import UsageError
from regard.plural import counted

if TYPE_CHECKING:
    import torch

    from regard.training.checkpoint import Progress
    from regard.training.distributed import Workers
    from regard.training.recipe import Recipe

STDERR = 2


@click.command(
    "train",
    cls=options.Verb,
    epilog="""\b
Examples:
  regard train recipes/sample.toml runs/sample
  regard train recipes/multi30k-en-de.toml runs/en-de --set data.dir=multi30k --set train.updates=4000
  regard train --resume runs/en-de
  regard train --resume runs/en-de --set train.updates=8000
  torchrun --standalone --nproc_per_node 2 -m regard train recipes/sample.toml runs/two
""",
)
@click.argument("paths", nargs=-1, metavar="[RECIPE] RUN", type=options.PATH)
@click.option("--set", "overrides", multiple=True, metavar="TABLE.KEY=VALUE", help="Override a setting of the recipe.")
@click.option("--resume", is_flag=True, help="Continue RUN from its last valid checkpoint, or extend it.")
@options.device_option
def command(paths: tuple[Path, ...], overrides: tuple[str, ...], resume: bool, device: str) -> int:
    """Train a model from RECIPE in a new directory RUN. The result is the model directory RUN/model."""
    from regard.cpu import capabilities, threads
    from regard.cpu.device import resolve_device, resolve_dtype

    capabilities.prepare()
    from regard.tasks.load import model_path
    from regard.training.distributed import Workers
    from regard.training.recipe import load_recipe
    from regard.training.run_directory import (
        check_resumable,
        create_run,
        failure_recorded,
        read_recipe,
        run_lock,
        save_recipe,
    )

    if len(paths) != (1 if resume else 2):
        raise UsageError("give RECIPE and RUN to start a run, or --resume RUN to continue one")
    run = paths[-1]
    if resume:
        recipe = read_recipe(run, overrides)
        check_resumable(run, recipe)
    else:
        recipe = load_recipe(paths[0], overrides)
    if recipe.start:
        recipe = replace(recipe, start=str(model_path(recipe.start)))
    workers = Workers(recipe.train.parallel)
    chosen = resolve_device(device)
    resolve_dtype(recipe.train.dtype, chosen)  # complains about a dtype that this machine does not support
    if workers.single:
        threads.set_threads()
    with workers.process_group(chosen):
        if workers.is_main and not resume:
            create_run(run, recipe, output.status)
        with run_lock(run) if workers.is_main else nullcontext():
            if workers.is_main and resume and overrides:
                save_recipe(run, recipe)
            workers.barrier()
            with failure_recorded(run) if workers.is_main else nullcontext():
                progress = train_run(recipe, run, workers, chosen, resume)
    code = 0 if progress.stopped_by is None else 128 + progress.stopped_by
    if not workers.single:
        workers.exit(code)
    return code


def train_run(recipe: "Recipe", run: Path, workers: "Workers", device: "torch.device", resume: bool) -> "Progress":
    from regard.evaluation.rewards import training_batches
    from regard.evaluation.validation import Validation
    from regard.training.export import export_model
    from regard.training.loop import Job, train
    from regard.training.prepare import prepare

    say: Callable[[str], None] = output.status if workers.is_main else lambda line: None
    prepared = prepare(recipe, run, workers, say, device)
    count = sum(parameter.numel() for parameter in prepared.model.parameters())
    batches, updates = counted(len(prepared.epochs(0)), "batch", "batches"), counted(recipe.train.updates, "update")
    say(f"{count / 1e6:.1f} M parameters, {batches} per epoch, {updates}")
    with output.progress(recipe.train.updates) as bar:
        job = Job(
            loss=prepared.loss,
            model=prepared.model,
            batches=training_batches(prepared),
            validate=Validation(prepared, device),
            settings=recipe.train,
            seed=recipe.seed,
            run=run,
            device=device,
            workers=workers,
            report=lambda record: report(record, bar),
            on_update=bar.advance,
            locate=prepared.locate,
        )
        progress = train(job, resume=resume)
        leave_closed_terminal()
    if not workers.is_main:
        return progress
    if progress.stopped_by is not None:
        name = signal.Signals(progress.stopped_by).name
        say(f"stopped by {name} after update {progress.update:,}; continue with: regard train --resume {run}")
    else:
        used = export_model(run, recipe)
        names = used[0].name if len(used) == 1 else f"{used[0].name} … {used[-1].name}"
        say(f"{run / 'model'}: the mean of {counted(len(used), 'checkpoint')} ({names})")
    return progress


def report(record: dict[str, Any], bar: Any) -> None:
    leave_closed_terminal()
    show(record, bar)


def leave_closed_terminal() -> None:
    """Print to nowhere once the terminal has been closed: a run that got no SIGHUP (nohup, disown) goes on."""
    if hasattr(select, "poll"):  # not on Windows
        terminal = select.poll()
        terminal.register(STDERR, 0)
        if any(events & select.POLLHUP for _, events in terminal.poll(0)):
            os.dup2(os.open(os.devnull, os.O_WRONLY), STDERR)


def show(record: dict[str, Any], bar: Any) -> None:
    """Print a record of the log. Both losses are shown as nll: the training loss itself has label smoothing."""
    match record["kind"]:
        case "train":
            bar.update(
                record["update"],
                f"nll {record['nll']:.3f}  lr {record['rate']:.2g}  {record['tokens_per_second']:,.0f} tokens/s",
            )
        case "valid":
            measured = (
                f"validation nll {record['loss']:.3f}, BLEU {record['bleu']:.2f}"
                if "loss" in record
                else "no validation data"
            )
            bar.status(f"update {record['update']:,}, epoch {record['epoch'] + 1}: {measured}")
            for sample in record.get("samples", [])[:1]:
                bar.status(f"  {sample['source']}\n  → {sample['output']}")
        case "split":
            bar.status(f"update {record['update']:,}: out of memory, retrying in {record['pieces']} pieces")
        case "skipped":
            bar.status(
                f"update {record['update']:,}: skipped, not finite: {record['loss']} (pairs {record['pairs']} …)"
            )
