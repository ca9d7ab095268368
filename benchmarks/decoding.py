"""Translation speed: regard, CTranslate2 and transformers, the same weights and inputs and threads, taking turns.

    python benchmarks/decoding.py [--model DIR --source FILE --reference FILE --to de] [--rounds 3] [--without NAME]

Two models. A random one of transformer-base's size (32,000 tokens) reads sources of 26 tokens and must write 30. A
real one, where it is given, translates the lines of a file as long as they get, and its BLEU is computed. Tokens a
second, for all sentences at once (bulk) and one at a time (single). Each contender has a process of its own, which
sleeps while the others work. CTranslate2 runs in both of its ways to use the threads: one translation with all, or
one on each.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ctranslate2_model
import torch
import transformers_model

import regard
from regard.cpu import threads as cores
from regard.inference.native import kernels, torch_kernels
from regard.io import atomic_file, write_json
from regard.models.config import GenerationConfig, Seq2SeqConfig
from regard.models.initialize import initialize
from regard.models.seq2seq import Seq2Seq
from regard.tasks.translation import TranslationModel
from regard.weights.model_directory import Checkpoint
from regard.weights.model_io import write_model
from regard.weights.quantize import quantize
from regard.weights.shortlist import Shortlist

VOCAB, READ, WRITTEN = 32_000, 26, 30
PAD, START, END = 0, 1, 2
CELLS = [(batch, beam) for batch in ("bulk", "single") for beam in (1, 4)]
SINGLES = 24
"""The number of sentences translated one at a time."""
SETTLED = 0.5
"""Seconds before a turn: after their work, OpenMP's threads spin for a while, Intel's for 0.2."""


@dataclass
class Figures:
    rates: list[float] = field(default_factory=list)
    peak_mb: float = 0.0
    written: list[list[int]] = field(default_factory=list)


class Contender:
    """A process that waits for jobs."""

    def __init__(self, name: str, folder: Path, threads: int) -> None:
        self.name = name
        script = Path(__file__).with_name("contenders.py")
        command = [sys.executable, str(script), name, str(folder), str(threads)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def do(self, **job: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        time.sleep(SETTLED)
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


# ---- the models ----


def random_model(folder: Path) -> Seq2SeqConfig:
    config = Seq2SeqConfig(
        vocab=VOCAB, width=512, heads=8, inner=2048, context=512, positions="sinusoidal_halves", output_bias=True
    )
    model = Seq2Seq(config).eval()
    initialize(model, seed=1)
    prepare(folder, model, GenerationConfig(start=START, end=(END,), pad=PAD, suppressed=(PAD,)))
    return config


def prepare(folder: Path, model: Seq2Seq, generation: GenerationConfig, shortlist: Shortlist | None = None) -> None:
    """The same weights in everyone's form."""
    assert generation.start is not None
    (folder / "regard").mkdir()
    write_model(folder / "regard", Checkpoint(model, generation))
    if model.config.norm_first:
        transformers_model.write(model, folder / "m2m100", generation)
    else:
        (folder / "marian").mkdir()
        write_model(folder / "marian", Checkpoint(model, generation), "huggingface")
    (folder / "regard-int8").mkdir()
    write_model(folder / "regard-int8", Checkpoint(quantize(deepcopy(model)), generation))
    if shortlist is not None:
        (folder / "regard-shortlist").mkdir()
        write_model(folder / "regard-shortlist", Checkpoint(quantize(deepcopy(model)), generation, shortlist))
    for compute in ("float32", "int8"):
        place = folder / f"ctranslate2-{compute}"
        place.mkdir()
        kind = None if compute == "float32" else compute
        names = ctranslate2_model.write(model, place, start=generation.start, end=generation.end[0], quantization=kind)
    special = {number: name for number, name in enumerate(names) if name != f"t{number}"}
    write_json(folder / "names.json", special)
    write_json(folder / "sizes.json", {"vocab": model.config.vocab})


# ---- measuring ----


def measure(folder: Path, sources: list[list[int]], forced: int | None, options: argparse.Namespace) -> dict[str, Any]:
    threads = options.threads
    names = ["regard float32", "regard int8"]
    if (folder / "regard-shortlist").exists():
        names.append("regard int8 shortlist")
    names += [f"CTranslate2 {compute} {workers}" for compute in ("float32", "int8") for workers in sorted({1, threads})]
    names.append("transformers float32")
    names = [name for name in names if not any(name.startswith(left) for left in options.without)]
    figures = {name: {cell: Figures() for cell in CELLS} for name in names}
    contenders = [Contender(name, folder, threads) for name in names]
    for turn in range(-1, options.rounds):  # the first is for warming up
        for batch, beam in CELLS:
            some = sources if batch == "bulk" else sources[:: -(-len(sources) // SINGLES)]
            for contender in contenders:
                slow = contender.name.startswith("transformers")
                if slow and turn > 0:
                    continue  # it is far behind: one measurement is enough
                answer = contender.do(
                    sources=some[:4] if turn < 0 else some, beam=beam, forced=forced, single=batch == "single"
                )
                if turn >= 0:
                    cell = figures[contender.name][batch, beam]
                    cell.rates.append(sum(map(len, answer["written"])) / answer["seconds"])
                    cell.peak_mb, cell.written = answer["peak_mb"], answer["written"]
    for contender in contenders:
        contender.close()
    return figures


def table(title: str, figures: dict[str, Any], bleus: dict[tuple[str, int], float]) -> dict[str, Any]:
    print(
        f"\n{title}\n{'tokens/s':28}" + "".join(f"{batch + ' beam ' + str(beam):>16}" for batch, beam in CELLS), end=""
    )
    print(f"{'peak MB':>10}" + ("   BLEU 1, 4" if bleus else ""))
    flat: dict[str, Any] = {}
    for name, cells in figures.items():
        rates = {cell: statistics.median(found.rates) for cell, found in cells.items()}
        peak = max(found.peak_mb for found in cells.values())
        scores = [bleus[name, beam] for beam in (1, 4) if (name, beam) in bleus]
        print(f"{name:28}" + "".join(f"{rates[cell]:16,.0f}" for cell in CELLS), end="")
        print(f"{peak:10,.0f}" + "".join(f"{score:8.2f}" for score in scores))
        flat[name] = {f"{batch} beam {beam}": rates[batch, beam] for batch, beam in CELLS}
        flat[name] |= {"peak_mb": peak, "bleu": scores}
    for kind in ("int8", "int8 shortlist", "float32"):
        others = [name for name in flat if name.startswith("CTranslate2 " + kind.split()[0])]
        if f"regard {kind}" in flat and others:
            ratios = [
                flat[f"regard {kind}"][cell] / max(flat[other][cell] for other in others)
                for cell in list(flat[others[0]])[:4]
            ]
            print(f"{kind + ' / CTranslate2':28}" + "".join(f"{ratio:15.2f}x" for ratio in ratios))
    return flat


def int8_rate(threads: int) -> float:
    """Operations a second of this machine's int8 matrix product, as regard does it: the best of some tries."""
    if not kernels.available():
        return float("nan")
    torch.set_num_threads(threads)
    rows, width, outs = 192, 512, 2048
    ready = torch_kernels.linear_from_int8(
        torch_kernels.pack_int8(torch.ones(outs, width, dtype=torch.int8), torch.ones(outs)), None
    )
    x, best = torch.randn(rows, width), float("inf")
    for _ in range(100):
        started = time.perf_counter()
        torch_kernels.linear(x, ready)
        best = min(best, time.perf_counter() - started)
    return 2 * rows * width * outs / best


def operations(config: Seq2SeqConfig, read: int, written: int, beam: int) -> int:
    """Operations in all linear layers, for this many tokens read and written."""
    own, inner = 4 * config.width**2, 2 * config.width * config.inner
    encoder = config.encoder_layers * (own + inner) + 2 * config.decoder_layers * config.width**2
    decoder = config.decoder_layers * (own + 2 * config.width**2 + inner) + config.width * config.vocab
    return 2 * (read * encoder + written * beam * decoder)


def shares(config: Seq2SeqConfig, sources: list[list[int]], figures: dict[str, Any], rate: float) -> None:
    for beam in (1, 4):
        cell = figures.get("regard int8", {}).get(("bulk", beam))
        if cell is None:
            continue
        written = sum(len(row) + 1 for row in cell.written)
        seconds = sum(map(len, cell.written)) / statistics.median(cell.rates)
        done = operations(config, sum(map(len, sources)), written, beam) / seconds
        print(
            f"regard int8, bulk, beam {beam}: {done / rate:.0%} of the machine's int8 product, {rate / 1e9:,.0f} GOP/s"
        )


def draw(path: Path, figures: dict[str, Any]) -> None:
    """Bars: a panel for each model and cell, tokens a second."""
    import matplotlib.pyplot as plt

    cells = [f"{batch} beam {beam}" for batch, beam in CELLS]
    figure, axes = plt.subplots(len(figures), len(cells), figsize=(15, 3.4 * len(figures)), squeeze=False)
    for row, (which, contenders) in zip(axes, figures.items(), strict=True):
        names = list(contenders)[::-1]
        colors = ["#2b6cb0" if name.startswith("regard") else "#cbd5e0" for name in names]
        for axis, cell in zip(row, cells, strict=True):
            axis.barh(names, [contenders[name][cell] for name in names], color=colors)
            axis.set_title(f"{which}: {cell}", fontsize=10)
            axis.set_xlabel("tokens/s", fontsize=8)
            axis.tick_params(labelsize=8, labelleft=axis is row[0])
            axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    with atomic_file(path) as draft:
        figure.savefig(draft, dpi=120, format=path.suffix[1:] or "png")


def bleu_of(model: TranslationModel, written: list[list[int]], references: list[str]) -> float:
    import sacrebleu

    texts = [model.tokenizer.decode(row) for row in written]
    return float(sacrebleu.corpus_bleu(texts, [references]).score)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model directory of regard's")
    parser.add_argument("--source", type=Path, help="lines for it")
    parser.add_argument("--reference", type=Path, help="their translations")
    parser.add_argument("--to", help="the language that they are in, of a model that has several")
    parser.add_argument("--sentences", type=int, default=64, help="of the random model")
    parser.add_argument("--threads", type=int, default=cores.set_threads())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without", nargs="*", default=[], help="contenders to leave out, by the beginning of a name")
    parser.add_argument("--skip-random", action="store_true")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--plot", type=Path, help="draw them to this file")
    options = parser.parse_args()
    all_figures: dict[str, Any] = {}
    if not options.skip_random:
        generator = torch.Generator().manual_seed(0)
        sources = torch.randint(3, VOCAB, (options.sentences, READ), generator=generator).tolist()
        with tempfile.TemporaryDirectory() as name:
            config = random_model(Path(name))
            title = f"random transformer-base, {options.threads} threads, {options.sentences} x {WRITTEN} tokens"
            figures = measure(Path(name), sources, WRITTEN, options)
            all_figures["random"] = table(title, figures, {})
            shares(config, sources, figures, int8_rate(options.threads))
    if options.model:
        model = regard.load(options.model)
        assert isinstance(model, TranslationModel)
        lines, references = (path.read_text().splitlines() for path in (options.source, options.reference))
        sources = [model.source_ids(line, options.to) for line in lines]
        with tempfile.TemporaryDirectory() as name:
            prepare(Path(name), model.network, model.generation, model.shortlist)
            figures = measure(Path(name), sources, None, options)
        bleus = {
            (contender, beam): bleu_of(model, cells["bulk", beam].written, references)
            for contender, cells in figures.items()
            for beam in (1, 4)
        }
        config = model.network.config
        title = f"{config.encoder_layers} + {config.decoder_layers} layers of width {config.width}"
        title += f", {config.vocab:,} tokens"
        title += f", {len(lines)} real sentences, {options.threads} threads"
        all_figures["real"] = table(title, figures, bleus)
        shares(config, sources, figures, int8_rate(options.threads))
    if options.json:
        write_json(options.json, all_figures)
    if options.plot:
        draw(options.plot, all_figures)


if __name__ == "__main__":
    main()
