"""Training speed: regard beside transformers' Seq2SeqTrainer and JoeyNMT, the same sizes and batches, taking turns.

    python benchmarks/training.py [--preset transformer-tiny] [--updates 8] [--rounds 3] [--replicas] [--half]

All learn the same random pairs, 16 to 32 tokens a side, in the same batches. Reported: target tokens a second, their
ratio, and the model's own arithmetic (6 operations a parameter and token that it meets) as a share of what this
machine's float32 matrix product reaches in the same run. --alone leaves the others out and adds the peak memory;
--joeynmt takes the python of an environment that has it (benchmarks/joeynmt_steps.py says how to make one).
"""

import argparse
import os
import resource
import statistics
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
import transformers_model
from torch.utils.data import Dataset

from regard.config import to_table
from regard.cpu import capabilities
from regard.cpu import threads as cores
from regard.data.batching import Batch
from regard.io import write_json
from regard.models.config import Seq2SeqConfig
from regard.models.initialize import initialize
from regard.models.presets import preset
from regard.models.seq2seq import Seq2Seq
from regard.training.loop import Job, train
from regard.training.losses import TranslationLoss
from regard.training.settings import TrainSettings

PAD, START, END = 0, 1, 2
Contender = Callable[[Seq2SeqConfig, list[Batch], Path], float]


def random_batches(count: int, tokens: int, vocab: int) -> list[Batch]:
    """Batches of rows of nearly one length, as a length-sorted corpus gives them."""
    generator = torch.Generator().manual_seed(0)
    batches = []
    for number in range(count):
        length = 16 + (number * 5) % 17
        rows = tokens // length
        source, labels = (torch.randint(4, vocab, (rows, length), generator=generator) for _ in range(2))
        labels[:, -1] = END
        present = torch.ones_like(source, dtype=torch.bool)
        target = torch.cat((torch.full((rows, 1), START), labels[:, :-1]), 1)
        batches.append(
            Batch(
                source_BS=source,
                source_present_BS=present,
                target_BL=target,
                labels_BL=labels,
                target_present_BL=present,
                tokens=int(present.sum()),
                rows=torch.arange(rows),
            )
        )
    return batches


def ours(config: Seq2SeqConfig, batches: list[Batch], folder: Path, **settings: Any) -> float:
    """Seconds that the updates take, by the clock of its log."""
    model = Seq2Seq(config)
    initialize(model, seed=1)
    updates = len(batches)
    marks: list[float] = []
    job = Job(
        loss=TranslationLoss(model, 0.1),
        model=model,
        batches=lambda epoch: batches,
        validate=lambda: {"score": 0.0},
        settings=TrainSettings(updates=updates, validate_every=updates, log_every=1, warmup=10, **settings),
        seed=1,
        run=folder,
        device=torch.device("cpu"),
        report=lambda record: marks.append(time.perf_counter()) if record["kind"] == "train" else None,
    )
    train(job)
    return marks[-1] - marks[0]  # without the first update, which warms up


class Prepared(Dataset[dict[str, torch.Tensor]]):
    """A batch an item: the Trainer's own collation and padding are not what is measured."""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        batch = self.batches[number]
        return {
            "input_ids": batch.source_BS,
            "attention_mask": batch.source_present_BS.long(),
            "decoder_input_ids": batch.target_BL,
            "labels": batch.labels_BL,
        }


class Clock(transformers.TrainerCallback):
    def __init__(self) -> None:
        self.marks: list[float] = []

    def on_step_end(self, *args: object, **kwargs: object) -> None:
        self.marks.append(time.perf_counter())


def trainer(config: Seq2SeqConfig, batches: list[Batch], folder: Path, *, half: bool = False) -> float:
    marian = transformers.MarianConfig(
        **transformers_model.sizes(config),
        dropout=config.dropout,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=START,
        forced_eos_token_id=None,
    )
    arguments = transformers.Seq2SeqTrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=1,
        max_steps=len(batches),
        label_smoothing_factor=0.1,
        learning_rate=1e-3,
        use_cpu=True,
        bf16=half,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    clock = Clock()
    trainer = transformers.Seq2SeqTrainer(
        model=transformers.MarianMTModel(marian),
        args=arguments,
        train_dataset=Prepared(batches),
        data_collator=lambda items: items[0],
        callbacks=[clock],
    )
    trainer.train()
    return clock.marks[-1] - clock.marks[0]


def joeynmt(python: str, config: Seq2SeqConfig, batches: list[Batch], folder: Path) -> float:
    """In its own environment: it wants other versions than we do."""
    settings = folder / "joeynmt.json"
    write_json(settings, {**to_table(config), "threads": torch.get_num_threads()})
    torch.save([(batch.source_BS, batch.labels_BL) for batch in batches], folder / "batches.pt")
    script = Path(__file__).with_name("joeynmt_steps.py")
    command = [python, str(script), str(settings), str(folder / "batches.pt")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(printed.splitlines()[-1])


def operations(config: Seq2SeqConfig, tokens: int) -> float:
    """Multiplications and additions of forward and backward, for as many source as target tokens."""
    block = 4 * config.width**2 + 2 * config.width * config.inner
    met = config.encoder_layers * block + config.decoder_layers * (block + 4 * config.width**2)
    return 6.0 * tokens * (met + config.vocab * config.width)


def matmul_rate() -> float:
    """Operations a second of a large float32 matrix product."""
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    times = []
    for _ in range(6):
        start = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - start)
    return 2 * 2048**3 / min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="transformer-tiny")
    parser.add_argument("--tokens", type=int, default=4096, help="of a batch, on each side")
    parser.add_argument("--updates", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="regard only")
    parser.add_argument("--replicas", action="store_true", help="also regard with one model on all cores")
    parser.add_argument("--half", action="store_true", help="also regard and the Trainer with bfloat16")
    parser.add_argument("--joeynmt", metavar="PYTHON", help="of an environment with JoeyNMT")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.utils.logging.set_verbosity_error()
    capabilities.prepare()
    threads = cores.set_threads()
    config = preset(options.preset)
    assert isinstance(config, Seq2SeqConfig), "a translation model"
    batches = random_batches(options.updates + 1, options.tokens, config.vocab)
    tokens = sum(batch.tokens for batch in batches[1:])
    contenders: dict[str, Contender] = {"regard": ours}
    if options.replicas:
        contenders["one replica"] = partial(ours, replicas=1)
    if not options.alone:
        contenders["Seq2SeqTrainer"] = trainer
    if options.half:
        contenders["regard bfloat16"] = partial(ours, dtype="bfloat16")
    if options.half and not options.alone:
        contenders["Trainer bfloat16"] = partial(trainer, half=True)
    if options.joeynmt:
        contenders["JoeyNMT"] = partial(joeynmt, options.joeynmt)
    times: dict[str, list[float]] = {name: [] for name in contenders}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for name, run in contenders.items():
                place = Path(folder) / f"{name}-{number}"
                place.mkdir()
                times[name].append(run(config, batches, place))
    rates = {name: tokens / statistics.median(seconds) for name, seconds in times.items()}
    share = operations(config, 1) * rates["regard"] / matmul_rate()
    print(f"{options.preset}, {options.tokens} tokens a batch, {threads} threads, {options.rounds} rounds")
    for name, rate in rates.items():
        print(f"{name:16} {rate:7,.0f} target tokens/s   {rates['regard'] / rate:.2f}")
    if options.alone:
        print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB at the most")
    print(f"regard's arithmetic is {share:.0%} of this machine's float32 matrix product")


if __name__ == "__main__":
    main()
