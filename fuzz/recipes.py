"""Recipes: TOML files with hostile keys, values and syntax."""

from pathlib import Path
from random import Random

from fuzz import mutate
from fuzz.case import Case
from fuzz.regard_calls import Failure, as_verb, nothing_left
from fuzz.samples import ROOT
from fuzz.workers import Limits

FILE = "recipe.toml"
WORDS = (
    *(
        "[data]\n",
        "[train]\n",
        "[model]\n",
        "[decode]\n",
        "[tokenizer]\n",
        "[data.split]\n",
        "[[data.train]]\n",
        "[x]\n",
    ),
    *("seed = ", "updates = ", "lr = ", "vocab = ", "width = ", "heads = ", "layers = ", "preset = ", "beam = "),
    *("start = ", "dir = ", "source = ", "target = ", "tsv = ", "columns = ", "max_tokens = ", "batch_tokens = "),
    *("stop_on = ", "betas = ", "schedule = ", "dtype = ", "boost = ", "= ", ".", ",", "#", "=\n", "\n", "\n\n"),
    *(
        "0\n",
        "-1\n",
        "1e999\n",
        "nan\n",
        "-inf\n",
        "9" * 400 + "\n",
        "9" * 5000 + "\n",
        "0x" + "f" * 5000 + "\n",
        "1.5\n",
    ),
    *(
        "true\n",
        "[]\n",
        "{}\n",
        '""\n',
        "''\n",
        '"a\\u0000b"\n',
        '"\\u001b[31m"\n',
        "[1, 2]\n",
        '["a", 1]\n',
        "1979-05-27\n",
    ),
    *("{ a = 1 }\n", "{ source = 'a', target = 'b' }\n", "[" * 2000, "[" * 200 + "]" * 200 + "\n", "a.b.c.d = 1\n"),
    *('"transformer-tiny"\n', '"gpt2"\n', '"none"\n', '"../.."\n', '"""', "'''", "07:32:00\n", "1_000_000\n", "0b1\n"),
)
VALUES = tuple(word.strip() for word in WORDS if word.endswith("\n") and len(word) > 2 and word[0] not in "[=a\n")


class Recipes:
    name = "recipes"
    cases_per_child = 2000
    limits = Limits()

    def prepare(self, folder: Path) -> None:
        self.texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "recipes").glob("*.toml"))]
        for text in self.texts:
            use(write(folder, text.encode()))

    def make(self, luck: Random) -> Case:
        text = luck.choice(self.texts)
        way = luck.random()
        if way < 0.15:
            raw = mutate.mutated_bytes(luck, text.encode())
        elif way < 0.3:
            raw = mutate.soup(luck, WORDS).encode("utf-8", "surrogatepass")
        elif way < 0.55:
            raw = mutate.mutated_text(luck, text, WORDS).encode("utf-8", "surrogatepass")
        else:
            raw = other_values(luck, text).encode()
        return Case(self.name, files={FILE: raw})

    def run(self, case: Case, folder: Path) -> None:
        case.lay(folder / "recipe", None)
        with nothing_left(folder):
            as_verb("train", lambda: use(folder / "recipe" / FILE))


def other_values(luck: Random, text: str) -> str:
    """One to three keys with another value."""
    lines = text.split("\n")
    settings = [i for i, line in enumerate(lines) if " = " in line and not line.startswith("#")]
    for i in luck.sample(settings, min(len(settings), luck.choice((1, 1, 2, 3)))):
        lines[i] = f"{lines[i].partition(' = ')[0]} = {luck.choice(VALUES)}"
    return "\n".join(lines)


def write(folder: Path, raw: bytes) -> Path:
    (folder / FILE).write_bytes(raw)
    return folder / FILE


def use(path: Path) -> None:
    """Read a recipe, and read it again as a run saves it."""
    from regard.config import to_table
    from regard.training.recipe import load_recipe, read_saved_recipe

    recipe = load_recipe(path)
    if read_saved_recipe(to_table(recipe), "recipe.json") != recipe:
        raise Failure("train: a saved recipe is another recipe")


KIND = Recipes()
