"""Model directories: tiny ones of every family and format, with a file or two made hostile."""

import shutil
from pathlib import Path
from random import Random

from fuzz import mutate, samples
from fuzz.case import Case, Content
from fuzz.regard_calls import Failure, no_controls, nothing_left, regard
from fuzz.workers import Limits

TASKS = {
    "marian": (("translate",), ("translate", "--as-is", "--n-best", "2"), ("translate", "--json"), ("trace",)),
    "bert": (("embed",), ("fill",), ("classify",), ("trace",)),
    "roformer": (("embed",), ("fill",), ("classify",), ("trace",)),
    "gpt2": (("generate",), ("generate", "--beam", "3"), ("classify",), ("trace",)),
    "llama": (("generate",), ("generate", "--temperature", "1"), ("classify",), ("trace",)),
}
WARM = ("marian-0 huggingface", "bert-0 regard", "bert-4 huggingface", "gpt2-0 regard", "vit-0 regard", "translator")
CONVERSIONS = (("convert",), ("convert", "--to", "huggingface"), ("convert", "--int8"), ("average",))


class Directories:
    name = "directories"
    cases_per_child = 100
    limits = Limits()

    def prepare(self, folder: Path) -> None:
        self.folder = folder
        self.families = samples.models(folder)
        self.files = {
            name: {
                str(path.relative_to(folder / name)): path.read_bytes()
                for path in sorted((folder / name).rglob("*"))
                if path.is_file()
            }
            for name in self.families
        }
        for way, name in enumerate(WARM):  # imports what the verbs import
            self.run(Case(self.name, name, options=(str(way),)), folder / "run")
            shutil.rmtree(folder / "run")

    def make(self, luck: Random) -> Case:
        base = luck.choice(sorted(self.families))
        files = self.files[base]
        names = luck.sample(sorted(files), min(len(files), luck.choice((1, 1, 1, 2))))
        changed = {name: self._mutated(luck, name, files[name]) for name in names}
        return Case(self.name, base, changed, (str(luck.randrange(100)),))

    def _mutated(self, luck: Random, name: str, raw: bytes) -> Content:
        if luck.random() < 0.06:
            return luck.choice((*mutate.SPECIAL_FILES, f"link {name}"))
        if luck.random() < 0.03:  # another file of some model
            return luck.choice(sorted(self.files[luck.choice(sorted(self.files))].items()))[1]
        if name.endswith(".json"):
            return mutate.mutated_json(luck, raw)
        if name.endswith(".safetensors"):
            return mutate.mutated_safetensors(luck, raw)
        return mutate.mutated_bytes(luck, raw)

    def run(self, case: Case, folder: Path) -> None:
        case.lay(folder / "model", self.folder / case.base)
        family, way = self.families[case.base], int(case.options[0])
        model = folder / "model"
        if case.base == "llama2c":
            model = model / "model.bin"
        with nothing_left(folder):
            described = regard("info", model)
            no_controls("info", described.out)
            self._task(family, way, model)
        new = folder / "converted"
        with nothing_left(folder, new):
            verb, *options = CONVERSIONS[way % len(CONVERSIONS)]
            models = (model, model) if verb == "average" else (model,)
            done = regard(verb, *models, new, *options)
        if (done.code == 0) != new.exists():
            raise Failure(f"{verb}: exit {done.code}, but its result {'exists' if new.exists() else 'is missing'}")
        if (described.code, done.code) == (0, 0) and (again := regard("info", new)).code:
            raise Failure(f"{verb}: its result cannot be read: {again.err[:200]}")

    def _task(self, family: str, way: int, model: Path) -> None:
        if family == "vit":  # images come through Python only
            return
        tasks = TASKS[family]
        verb, *options = tasks[way % len(tasks)]
        text = "w5 w4 w6" if verb == "fill" else samples.TEXT
        if model.parent.joinpath("model", "card.json").exists() and verb in ("translate", "trace"):
            options += ["--to", "de"]
        done = regard(verb, text, "-m", model, *options)
        if verb == "trace":
            no_controls(verb, done.out)


KIND = Directories()
