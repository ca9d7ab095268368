"""A model that cannot be trained on this machine is refused before it is made."""

from pathlib import Path

import pytest

from regard.cli.main import main

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("size", ["width=10000000", "inner=999999999999", "head_width=99999999999999999"])
def test_a_model_larger_than_the_memory(size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = [f"data.dir={ROOT / 'recipes/sample'}", f"model.{size}", "tokenizer.vocab=300"]
    arguments = [word for one in sets for word in ("--set", one)]
    assert main(["train", str(ROOT / "recipes" / "sample.toml"), str(tmp_path / "run"), *arguments]) == 3
    assert "[model] the weights take" in capsys.readouterr().err.splitlines()[-1]
