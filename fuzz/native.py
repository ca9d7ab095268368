"""Random translation models and random searches on the C library: a result or one of our errors, never a signal.

    python -m fuzz native [--count SEARCHES] [--seed N] [--seconds S]
    python -m fuzz.sanitize address -m fuzz.native --count 20000      # what `make sanitize` runs a part of

Results are compared with nothing (tests/inference does that). Child processes do the work: each search may take
SEARCH_SECONDS of CPU time, each child MEMORY bytes. Under a sanitizer its reports end the child.
"""

import argparse
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from regard.cpu import threads
from regard.cpu.child_environment import child_environment
from regard.decoding.settings import SearchSettings
from regard.errors import RegardError
from regard.inference.backend import SpecialTokens
from regard.inference.native import kernels
from regard.inference.native.kernels import Array
from regard.inference.native.search import NativeSearch
from regard.inference.native_backend import NativeBackend, NativeModel, WeightLoader
from regard.inference.requests import Request
from regard.inference.scheduler import Scheduler
from regard.models.config import Seq2SeqConfig
from regard.weights.shortlist import Shortlist

SEARCH_SECONDS = 20.0
CHILD_SECONDS = 1800.0
MEMORY = 2 << 30
SEARCHES_PER_MODEL = 4
MODELS_PER_CHILD = 250
DEFAULT_COUNT = 4000
MAX_TOKENS = 40
HOSTILE = (-1, -(2**31), 2**31 - 1, 2**31, 2**62, -(2**63))
"""Impossible tokens and lengths."""
Random = np.random.Generator


# ---- a random model ----


def random_config(random: Random) -> Seq2SeqConfig:
    head_width, heads = random.choice([(8, 4), (16, 2), (16, 4), (24, 4), (32, 1), (32, 6), (40, 4), (64, 2), (64, 5)])
    tied = str(random.choice(["all", "target", "none"]))
    near = int(random.choice([2, 15, 16, 17, 40, 63, 64, 65, 300, 2047, 2048, 2049, 4100]))
    return Seq2SeqConfig(
        vocab=near,
        source_vocab=None if tied == "all" else int(random.integers(2, 100)),
        width=32 * int(random.integers(1, 5)),
        heads=int(heads),
        kv_heads=int(random.choice([one for one in range(1, heads + 1) if heads % one == 0])),
        head_width=int(head_width),
        inner=32 * int(random.integers(1, 7)),
        encoder_layers=int(random.integers(1, 4)),
        decoder_layers=int(random.integers(1, 4)),
        context=int(random.choice([1, 2, 7, 8, 33, 64])),
        positions=str(random.choice(["sinusoidal", "sinusoidal_halves", "learned", "none"])),  # type: ignore[arg-type]
        tied=tied,  # type: ignore[arg-type]
        activation=str(random.choice(["relu", "gelu", "gelu_tanh", "silu"])),  # type: ignore[arg-type]
        norm_first=bool(random.integers(2)),
        norm_eps=float(random.choice([0.0, 1e-5, 1.0])),
        attention_bias=bool(random.integers(2)),
        attention_output_bias=bool(random.integers(2)),
        feedforward_bias=bool(random.integers(2)),
        output_bias=bool(random.integers(2)),
        scale_embeddings=bool(random.integers(2)),
    )


class RandomWeights(WeightLoader):
    """Weights of any name and shape, now and then with numbers that no training gives."""

    def __init__(self, config: Seq2SeqConfig, random: Random, *, packed: bool, int8: bool) -> None:
        super().__init__(config, {}, packed=packed, int8=int8)
        self._random = random
        self._scale = float(random.choice([0.01, 0.3, 3.0]))
        self._strange = random.random() < 0.1

    def array(self, name: str, *shape: int, dtype: str = "float32") -> Array:
        random = self._random
        if dtype == "int8":
            return random.integers(-128, 128, shape, np.int8)
        numbers = random.standard_normal(shape, np.float32) * np.float32(self._scale)
        if self._strange and random.random() < 0.1:
            odd = random.choice([math.nan, math.inf, -math.inf, 3e38, -3e38, 1e-45, 0.0])
            numbers[tuple(random.integers(0, size) for size in shape)] = odd
        return numbers


def random_model(random: Random) -> NativeModel:
    config = random_config(random)
    packed, int8 = bool(random.integers(2)), bool(random.integers(2))
    return NativeModel(config, RandomWeights(config, random, packed=packed, int8=int8))


# ---- a random search ----


def random_settings(random: Random) -> SearchSettings:
    beam = int(random.choice([1, 1, 2, 4, 5, 8, 64]))
    return SearchSettings(
        beam=beam,
        n_best=int(random.integers(1, beam + 1)),
        length_penalty=float(random.choice([0.0, 0.6, 1.0, -10.0, 10.0])),
        length_form=str(random.choice(["plain", "paper"])),  # type: ignore[arg-type]
        patience=[None, 0.0, 1.0, 1000.0][random.integers(4)],
        min_tokens=int(random.choice([0, 0, 3, 10**6])),
    )


def random_tokens(random: Random, config: Seq2SeqConfig) -> SpecialTokens:
    vocab = config.vocab
    some = [int(token) for token in random.integers(0, vocab, int(random.choice([0, 1, 1, 3, 100])))]
    tokens = SpecialTokens(
        start=int(random.integers(0, vocab)),
        end=some,
        pad=0,
        suppressed=[int(token) for token in random.integers(0, vocab, int(random.choice([0, 1, vocab])))],
    )
    if random.random() < 0.05:
        wrong = int(random.choice(HOSTILE))
        changes: list[dict[str, Any]] = [{"start": wrong}, {"end": [wrong]}, {"suppressed": [0, wrong]}]
        tokens = replace(tokens, **changes[random.integers(3)])
    return tokens


def random_shortlist(random: Random, config: Seq2SeqConfig) -> Shortlist | None:
    if random.integers(2):
        return None
    source = config.source_vocab or config.vocab
    related = random.integers(-1, config.vocab, (source, int(random.integers(0, 9))), np.int32)
    frequent = random.integers(0, config.vocab, int(random.integers(0, 30)), np.int32)
    return Shortlist(np.ascontiguousarray(related), frequent)


def random_sources(random: Random, config: Seq2SeqConfig) -> list[list[int]]:
    vocab, longest = config.source_vocab or config.vocab, int(random.choice([1, 8, config.context]))
    sources = [
        [int(token) for token in random.integers(0, vocab, int(random.integers(0, longest + 1)))]
        for _ in range(int(random.integers(1, 9)))
    ]
    if random.random() < 0.03:
        sources[0] = [0, int(random.choice(HOSTILE))]
    return sources


def random_limits(random: Random, config: Seq2SeqConfig, requests: int, *, hostile: bool) -> list[int]:
    wrong = hostile and random.random() < 0.03
    most = int(random.choice([10**6, *HOSTILE])) if wrong else min(MAX_TOKENS, config.context)
    return [int(random.integers(min(1, most), max(1, most) + 1)) for _ in range(requests)]


def run_search(random: Random, model: NativeModel) -> None:
    """Requests that join and leave at any step; then the search ends, or is closed in the middle."""
    config, settings, tokens = model.config, random_settings(random), random_tokens(random, model.config)
    shortlist = random_shortlist(random, config)
    search = NativeSearch(
        model.native_encoder(config.context),
        model.decoder_io(MAX_TOKENS, shortlist),
        settings,
        tokens,
        source=config.context,
        max_tokens=MAX_TOKENS,
    )
    if shortlist is not None and random.random() < 0.1:  # as if a mapped file had changed
        shortlist.related_VC[:] = int(random.choice(HOSTILE[:3]))
        shortlist.frequent_F[:] = int(random.choice(HOSTILE[:3]))
    threads.set_native_share(int(random.integers(1, 4)))
    numbers, steps = count(), int(random.choice([0, 1, 3]))
    try:
        for _ in range(int(random.integers(1, 4))):
            sources = random_sources(random, config)
            search.add(
                [next(numbers) for _ in sources], sources, random_limits(random, config, len(sources), hostile=True)
            )
            for _ in range(int(random.integers(0, 4))):
                check(search.step(int(random.integers(0, 300)), int(random.integers(0, 300)), steps), config)
                search.cancel(int(random.integers(0, 20)))
        for _ in range(int(random.choice([3, MAX_TOKENS + 1]))):
            check(search.step(1000, 1000, steps), config)
    finally:
        search.close()


def run_scheduler(random: Random, model: NativeModel) -> None:
    """Two workers on one model."""
    tokens, settings = random_tokens(random, model.config), random_settings(random)
    sources = random_sources(random, model.config) * 3
    limits = random_limits(random, model.config, len(sources), hostile=False)
    requests = [
        Request(ids=source, settings=settings, max_tokens=limit) for source, limit in zip(sources, limits, strict=True)
    ]
    scheduler = Scheduler(NativeBackend(model, random_shortlist(random, model.config)), tokens)
    check(enumerate(scheduler.run(requests, workers=2)), model.config)


def run_kernels(random: Random, model: NativeModel) -> None:
    """What searches with rules call: the encoder and the embedding by themselves."""
    config, sources = model.config, random_sources(random, model.config)
    model.native_encoder(config.context).encode(sources)
    ids = random.integers(0, config.vocab, 9)
    positions = random.integers(0, config.context, 9)
    if random.random() < 0.2:
        (ids if random.integers(2) else positions)[3] = int(random.choice(HOSTILE))
    model.target(config.context).rows(ids, positions)


def check(finished: Any, config: Seq2SeqConfig) -> None:
    for _, hypotheses in finished:
        for hypothesis in hypotheses:
            if not all(0 <= token < config.vocab for token in hypothesis.generated):
                raise AssertionError(f"tokens outside the vocabulary: {hypothesis.generated}")
            if any(map(math.isnan, hypothesis.log_probs)):
                raise AssertionError(f"log-probabilities that are not numbers: {hypothesis.log_probs}")


# ---- child processes ----


def child(seed: int, first: int, last: int) -> None:
    """Run the models first … last - 1; a line of JSON before each, and one after each with what it took."""
    if not kernels.available():
        raise SystemExit("the C library is not available here")
    if not os.environ.get("LD_PRELOAD"):  # a sanitizer reserves terabytes
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for number in range(first, last):
        print(json.dumps({"model": number}), flush=True)
        random = np.random.default_rng([seed, number])
        model, slowest = random_model(random), 0.0
        for _ in range(SEARCHES_PER_MODEL):
            run = [run_search, run_search, run_search, run_scheduler, run_kernels][int(random.integers(5))]
            signal.setitimer(signal.ITIMER_PROF, SEARCH_SECONDS)  # its signal ends the process
            began = time.process_time()
            with suppress(RegardError, MemoryError, OverflowError):  # OverflowError: numpy's, for more than an int64
                run(random, model)
            slowest = max(slowest, time.process_time() - began)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"done": number, "seconds": slowest, "memory": peak}), flush=True)
        if peak > MEMORY:
            raise SystemExit(f"model {number}: {peak / 1e6:.0f} MB")


def run_child(seed: int, first: int, last: int) -> tuple[list[dict[str, float]], str | None]:
    """What a child reported, and what went wrong."""
    command = [sys.executable, "-m", "fuzz.native", "--child", str(seed), str(first), str(last)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=child_environment()
    ) as process:
        try:
            output, errors = process.communicate(timeout=CHILD_SECONDS)
        except BaseException as error:
            process.kill()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            output, errors = process.communicate()
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if process.returncode == 0:
        return lines, None
    last_model = max((line["model"] for line in lines if "model" in line), default=first)
    how = f"signal {-process.returncode}" if process.returncode < 0 else f"exit {process.returncode}"
    return lines, f"model {last_model} of seed {seed}: {how}\n{errors[-4000:]}"


def batches(models: int, seconds: float) -> Iterator[tuple[int, int]]:
    began = time.monotonic()
    for first in range(0, models, MODELS_PER_CHILD):
        if time.monotonic() - began > seconds:
            return
        yield first, min(first + MODELS_PER_CHILD, models)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz native", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=DEFAULT_COUNT, help="searches")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no new child after this")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child", type=int, nargs=3, metavar=("SEED", "FIRST", "LAST"), help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.child:
        child(*arguments.child)
        return 0
    failures, seconds, memory, done, began = [], 0.0, 0.0, 0, time.monotonic()
    for first, last in batches(math.ceil(arguments.count / SEARCHES_PER_MODEL), arguments.seconds):
        while first < last:  # after a failure the rest of the batch has a child of its own
            lines, failure = run_child(arguments.seed, first, last)
            finished = [line for line in lines if "done" in line]
            done += len(finished)
            seconds = max([seconds, *(line["seconds"] for line in finished)])
            memory = max([memory, *(line["memory"] for line in finished)])
            first = max([first, *(int(line.get("model", first)) for line in lines)]) + 1 if failure else last
            if failure:
                failures.append(failure)
                print(f"  {failure}", flush=True)
            if not lines:  # it did not even begin
                return 1
    searches = done * SEARCHES_PER_MODEL
    print(
        f"native       {searches:9,} searches  {searches / (time.monotonic() - began):6,.0f}/s  "
        f"{len(failures):6,} failures  slowest {seconds:5.2f} s  largest {memory / 1e6:6.1f} MB"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
