"""One contender of benchmarks/decoding.py, in a process of its own: two libraries' threads in one process would wait
for each other. It reads jobs as JSON lines and answers with what it wrote, how long that took and its peak memory.

    python benchmarks/contenders.py NAME FOLDER THREADS
"""

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
LEAST = 1.0
"""Seconds of a turn at least: a shorter job is done again, for after another's turn the caches are cold."""

Run = Callable[[list[list[int]], int, int | None], list[list[int]]]
"""Sources, a beam and a length that is forced (None: as long as it will) -> what was written, without the end."""


def regards(folder: Path, threads: int, *, kind: str) -> Run:
    import regard
    from regard.cpu.threads import set_threads

    set_threads(threads)
    model = regard.load(folder / kind)

    def run(sources: list[list[int]], beam: int, forced: int | None) -> list[list[int]]:
        length = {} if forced is None else {"min_tokens": forced, "max_tokens": forced}
        return model.write(sources, beam=beam, **length)

    return run


def ctranslate2s(folder: Path, threads: int, *, compute: str, workers: int) -> Run:
    import ctranslate2

    names = [f"t{number}" for number in range(json.loads((folder / "sizes.json").read_text())["vocab"])]
    special = json.loads((folder / "names.json").read_text())
    for number, name in special.items():
        names[int(number)] = name
    numbers = {name: number for number, name in enumerate(names)}
    translator = ctranslate2.Translator(
        str(folder / f"ctranslate2-{compute}"),
        device="cpu",
        inter_threads=workers,
        intra_threads=threads // workers,
        compute_type=compute,
    )

    def run(sources: list[list[int]], beam: int, forced: int | None) -> list[list[int]]:
        length = {"max_decoding_length": 256}
        if forced is not None:
            length = {"min_decoding_length": forced, "max_decoding_length": forced}
        found = translator.translate_batch(
            [[names[token] for token in source] for source in sources], beam_size=beam, max_batch_size=32, **length
        )
        return [[numbers[name] for name in each.hypotheses[0]] for each in found]

    return run


def transformerses(folder: Path, threads: int) -> Run:
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(threads)
    if (folder / "marian").exists():
        model = transformers.MarianMTModel.from_pretrained(folder / "marian").eval()
    else:
        import transformers_model

        model = transformers_model.read(folder / "m2m100")
    pad, end = model.config.pad_token_id, model.config.eos_token_id

    def run(sources: list[list[int]], beam: int, forced: int | None) -> list[list[int]]:
        length: dict[str, int] = {"max_new_tokens": 256}
        if forced is not None:
            length = {"min_new_tokens": forced, "max_new_tokens": forced}
        written: list[list[int]] = [[] for _ in sources]
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
        for start in range(0, len(order), 32):
            some = order[start : start + 32]
            longest = max(len(sources[i]) for i in some)
            ids = torch.tensor([sources[i] + [pad] * (longest - len(sources[i])) for i in some])
            with torch.inference_mode():
                mask = torch.tensor([[1] * len(sources[i]) + [0] * (longest - len(sources[i])) for i in some])
                found = model.generate(ids, attention_mask=mask, num_beams=beam, do_sample=False, **length)
            for i, row in zip(some, found[:, 1:].tolist(), strict=True):
                written[i] = [token for token in row if token not in (pad, end)]
        return written

    return run


def contender(name: str, folder: Path, threads: int) -> Run:
    who, *what = name.split()
    if who == "regard":
        kinds = {"float32": "regard", "int8": "regard-int8", "int8 shortlist": "regard-shortlist"}
        return regards(folder, threads, kind=kinds[" ".join(what)])
    if who == "CTranslate2":
        return ctranslate2s(folder, threads, compute=what[0], workers=int(what[1]))
    return transformerses(folder, threads)


def peak_mb() -> float:
    """Of this process alone: getrusage's figure begins with that of the process which started it."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def main() -> None:
    name, folder, threads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    warnings.filterwarnings("ignore")
    run = contender(name, folder, threads)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        job: dict[str, Any] = json.loads(line)
        sources, beam, forced = job["sources"], job["beam"], job["forced"]
        started, times, seconds = time.perf_counter(), 0, 0.0
        while seconds < LEAST:
            if job["single"]:
                written = [run([source], beam, forced)[0] for source in sources]
            else:
                written = run(sources, beam, forced)
            times += 1
            seconds = time.perf_counter() - started
        seconds /= times
        print(json.dumps({"written": written, "seconds": seconds, "peak_mb": peak_mb()}), flush=True)


if __name__ == "__main__":
    main()
