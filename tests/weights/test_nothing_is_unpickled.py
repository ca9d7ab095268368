"""Nothing in regard can open a pickle, so no checkpoint can run code."""

import ast
from pathlib import Path

import pytest

import regard

PACKAGE = Path(regard.__file__).parent
FORBIDDEN_MODULES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal", "jsonpickle"}
FORBIDDEN_CALLS = {
    "torch.load",
    "torch.jit.load",
    "torch.package",
    "torch.hub",
    "numpy.load",
    "np.load",
    "pd.read_pickle",
}
FORBIDDEN_WORDS = ("weights_only", "allow_pickle", "trust_remote_code")
FILES = sorted(PACKAGE.rglob("*.py"))


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def offences(source: str) -> list[str]:
    found = [word for word in FORBIDDEN_WORDS if word in source]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in FORBIDDEN_MODULES]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name for name in names if name in FORBIDDEN_CALLS or name.split(".")[0] in FORBIDDEN_MODULES]
        elif isinstance(node, ast.Attribute) and dotted(node) in FORBIDDEN_CALLS:
            found.append(dotted(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec"):
            found.append(node.func.id)
    return found


@pytest.mark.parametrize("file", FILES, ids=[str(file.relative_to(PACKAGE)) for file in FILES])
def test_no_pickle(file: Path) -> None:
    assert offences(file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import torch\nx = torch.load('f')",
        "from torch import load",
        "import numpy as np\nnp.load('f')",
        "load('f', weights_only=False)",
        "eval('1')",
    ],
)
def test_the_test_would_see_it(source: str) -> None:
    assert offences(source)
