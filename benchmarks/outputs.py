"""Two checkouts of regard: the same translations, scores, alignments and confidences, bit for bit?

    git worktree add /tmp/old 63082bb
    python benchmarks/outputs.py /tmp/old --source lines.en --to de --model int8=DIR --model float32=DIR

Each checkout translates every line, greedily and with a beam of 4: once as a sentence (tokens, scores,
log-probabilities) and once as a document (text, notes, alignment, words, confidences). Prints how many lines differ,
field by field.
Models must be in a format that both can read.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
BEAMS = (1, 4)
PROGRAM = """
import json, sys, warnings
from dataclasses import fields, is_dataclass
warnings.filterwarnings("ignore")
import regard
from regard.documents.passage import Passage

directory, source, to, beam = sys.argv[1:]
lines = open(source, encoding="utf-8").read().splitlines()
search = {"beam": int(beam)}
if hasattr(regard, "load_translator"):
    from regard.documents.options import TranslationOptions
    translator = regard.load_translator(directory)
    model, translate, links = translator.model, translator.translate_passages, "align"
else:  # before the names of November 2026
    from regard.pipeline.interpreter import Wishes as TranslationOptions
    translator = regard.open_interpreter(directory)
    model, translate, links = translator.translator, translator.render, "links"

def plain(value):
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value

for found in model.translations(lines, to=to, **search):
    print(json.dumps([list(plain(one).values()) for one in found]))
options = TranslationOptions(to=to, source="en", search=search, **{links: True})
for result in translate([Passage(line) for line in lines], options):
    print(json.dumps({**plain(result), "links": plain(result.links)}))
"""


def outputs(root: Path, model: Path, source: Path, to: str, beam: int) -> list[Any]:
    """One record a line of the source for its sentence, then one for its document."""
    command = [sys.executable, "-c", PROGRAM, str(model), str(source), to, str(beam)]
    env = os.environ | {"PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def differences(old: Any, new: Any) -> set[str]:
    """The fields in which two records differ. The order of a sentence's notes was random once."""
    if isinstance(old, list):
        return {"sentence search"} if old != new else set()
    found = {name for name in ("passage", "links", "language", "to") if old[name] != new[name]}
    if len(old["sentences"]) != len(new["sentences"]):
        return found | {"number of sentences"}
    for one, other in zip(old["sentences"], new["sentences"], strict=True):
        one["notes"], other["notes"] = sorted(one["notes"]), sorted(other["notes"])
        found |= {f"sentence: {name}" for name in one if one[name] != other[name]}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("--model", action="append", default=[], metavar="NAME=DIR")
    parser.add_argument("--source", type=Path, required=True, help="Lines to translate.")
    parser.add_argument("--to", default="de")
    arguments = parser.parse_args()
    for named in arguments.model:
        name, _, folder = named.partition("=")
        for beam in BEAMS:
            old, new = (
                outputs(root.resolve(), Path(folder).resolve(), arguments.source.resolve(), arguments.to, beam)
                for root in (arguments.old, HERE)
            )
            assert len(old) == len(new)
            differing = Counter(field for a, b in zip(old, new, strict=True) for field in differences(a, b))
            shown = ", ".join(f"{field} {count:,}" for field, count in differing.most_common()) or "nothing"
            print(f"{name}, beam {beam}: {len(old) // 2:,} lines; different: {shown}", flush=True)


if __name__ == "__main__":
    main()
