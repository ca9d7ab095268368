"""The recipes in the repository: their data is not here, but they must be ready for it."""

import re
from pathlib import Path

import pytest

from regard.training.recipe import load_recipe

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_can_be_read(path: Path) -> None:
    recipe = load_recipe(path)
    assert recipe.data.train
    assert recipe.train.updates >= recipe.train.warmup


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_that_it_speaks_of_are_there(path: Path) -> None:
    for other in re.findall(r"recipes/[\w-]+\.toml", path.read_text(encoding="utf-8")):
        assert (ROOT / other).is_file()
