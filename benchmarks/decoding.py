"""Translation speed: regard, CTranslate2 and transformers, the same weights and inputs and threads, taking turns.

    python benchmarks/decoding.py [--sentences 64] [--rounds 3] [--without transformers] [--json FILE]

A random model of transformer-base's size (32,000 tokens) reads sources of 26 tokens and must write 30: tokens a second.
CTranslate2 is given its better way of using the threads (one translation with all, or one on each), for each cell.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import ctranslate2_model
import torch
import transformers

import regard
from regard import hardware
from regard.models.config import Seq2SeqConfig
from regard.models.generation import Generation
from regard.models.initialize import initialize
from regard.models.seq2seq import Seq2Seq
from regard.weights import store
from regard.weights.directory import Stored
from regard.weights.quantize import quantize

VOCAB, READ, WRITTEN = 32_000, 26, 30
PAD, START, END = 0, 1, 2
CELLS = [(batch, beam) for batch in ("bulk", "single") for beam in (1, 4)]

Run = Callable[[list[list[int]], int], int]
"""Sources and a beam -> how many tokens were written."""


def random_model(folder: Path) -> Seq2Seq:
    config = Seq2SeqConfig(
        vocab=VOCAB, width=512, heads=8, inner=2048, context=512, positions="sinusoidal_halves", output_bias=True
    )
    model = Seq2Seq(config).eval()
    initialize(model, seed=1)
    generation = Generation(start=START, end=(END,), pad=PAD, never=(PAD,))
    for style in ("regard", "huggingface"):
        (folder / style).mkdir()
        store.write(folder / style, Stored(model, generation), style)  # type: ignore[arg-type]
    return model


def regards(folder: Path, *, int8: bool) -> Run:
    model = regard.load(folder / "regard")
    if int8:
        quantize(model.network)

    def run(sources: list[list[int]], beam: int) -> int:
        found = model.write(sources, beam=beam, min_new=WRITTEN, max_new=WRITTEN)
        return sum(map(len, found))

    return run


def ctranslate2s(folder: Path, model: Seq2Seq, compute: str, threads: int, workers: int) -> Run:
    place = folder / f"ctranslate2-{compute}"
    names = [f"t{number}" for number in range(VOCAB)]
    if not place.exists():
        place.mkdir()
        kind = None if compute == "float32" else compute
        names = ctranslate2_model.write(model, place, start=START, end=END, quantization=kind)
    translator = ctranslate2_model.translator(place, threads=threads, workers=workers, compute=compute)

    def run(sources: list[list[int]], beam: int) -> int:
        found = translator.translate_batch(
            [[names[token] for token in source] for source in sources],
            beam_size=beam,
            min_decoding_length=WRITTEN,
            max_decoding_length=WRITTEN,
            max_batch_size=32,
        )
        return sum(len(each.hypotheses[0]) for each in found)

    return run


def transformerses(folder: Path) -> Run:
    model = transformers.MarianMTModel.from_pretrained(folder / "huggingface").eval()

    def run(sources: list[list[int]], beam: int) -> int:
        written = 0
        for start in range(0, len(sources), 32):
            ids = torch.tensor(sources[start : start + 32])
            with torch.inference_mode():
                found = model.generate(
                    ids, num_beams=beam, do_sample=False, min_new_tokens=WRITTEN, max_new_tokens=WRITTEN
                )
            written += found[:, 1:].numel()
        return written

    return run


def measure(run: Run, sources: list[list[int]], batch: str, beam: int) -> float:
    """Tokens a second."""
    started = time.perf_counter()
    written = run(sources, beam) if batch == "bulk" else sum(run([source], beam) for source in sources[:4])
    return written / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without", nargs="*", default=[], help="contenders to leave out, by the beginning of a name")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.utils.logging.set_verbosity_error()
    hardware.prepare()
    threads = hardware.use_threads()
    generator = torch.Generator().manual_seed(0)
    sources = torch.randint(3, VOCAB, (options.sentences, READ), generator=generator).tolist()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = random_model(folder)
        contenders: dict[str, Run] = {
            "regard float32": regards(folder, int8=False),
            "regard int8": regards(folder, int8=True),
        }
        for compute in ("float32", "int8"):
            for workers in sorted({1, threads}):
                title = f"CTranslate2 {compute} {workers} x {threads // workers}"
                contenders[title] = ctranslate2s(folder, model, compute, threads, workers)
        contenders["transformers float32"] = transformerses(folder)
        for title in list(contenders):
            if any(title.startswith(left) for left in options.without):
                del contenders[title]
        rates = {title: {cell: [] for cell in CELLS} for title in contenders}  # type: dict[str, dict[tuple[str, int], list[float]]]
        for _ in range(options.rounds):
            for cell in CELLS:
                for title, run in contenders.items():
                    rates[title][cell].append(measure(run, sources, *cell))
    medians = {title: {cell: statistics.median(each) for cell, each in cells.items()} for title, cells in rates.items()}
    print(f"tokens/s, {threads} threads, {options.sentences} sentences, median of {options.rounds}")
    print(f"{'':28}" + "".join(f"{batch + ' beam ' + str(beam):>16}" for batch, beam in CELLS))
    for title, cells in medians.items():
        print(f"{title:28}" + "".join(f"{cells[cell]:16,.0f}" for cell in CELLS))
    if options.json:
        flat = {
            title: {f"{batch} beam {beam}": cells[batch, beam] for batch, beam in CELLS}
            for title, cells in medians.items()
        }
        options.json.write_text(json.dumps(flat, indent=2) + "\n")


if __name__ == "__main__":
    main()
