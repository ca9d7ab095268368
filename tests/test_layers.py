"""The tree's own rules, read off its source: who imports whom, who prints, who reads the environment, how long."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "regard"
FILES = sorted(PACKAGE.rglob("*.py"))

ROWS = [  # only downhill: a folder may import from rows above its own here, and from itself
    "errors plural",
    "config io",
    "cpu",
    "text blocks",
    "data models",
    "weights decoding",
    "inference",
    "tasks",
    "training documents",
    "evaluation",
    "serving explorer",
    "cli",
]
RANK = {name: rank for rank, names in enumerate(ROWS) for name in names.split()}
TOP = {"__init__.py", "__main__.py"}
LONGEST_FILE = 350
LONGEST_FUNCTION = 70


def home(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "regard":
                yield from ((node.lineno, f"regard.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, node.module
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)


def uphill(path: Path) -> Iterator[str]:
    for line, module in imports(ast.parse(path.read_text())):
        parts = module.split(".")
        if parts[0] != "regard" or len(parts) == 1:
            continue
        here, there = home(path), parts[1]
        if here != there and RANK[there] >= RANK[here]:
            yield f"{path.relative_to(PACKAGE)}:{line} {here} -> {there}"


def names(path: Path) -> set[str]:
    return {
        ast.unparse(node)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name | ast.Attribute)
    }


def test_imports_flow_downhill() -> None:
    files = [path for path in FILES if str(path.relative_to(PACKAGE)) not in TOP]
    assert [breach for path in files for breach in uphill(path)] == []


def test_the_rule_would_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("test_layers.PACKAGE", tmp_path)
    (tmp_path / "blocks").mkdir()
    bad = tmp_path / "blocks" / "bad.py"
    bad.write_text("from regard.errors import RegardError\nfrom regard.weights.model_io import read\n")
    assert list(uphill(bad)) == ["blocks/bad.py:2 blocks -> weights"]


def test_transformers_is_never_imported() -> None:
    foreign = {"transformers", "ctranslate2", "pickle", "sentence_transformers"}
    found = [
        (path.name, module)
        for path in FILES
        for _, module in imports(ast.parse(path.read_text()))
        if module.split(".")[0] in foreign
    ]
    assert found == []


def test_only_one_file_prints() -> None:
    assert [path.name for path in FILES if "print" in names(path)] == ["output.py"]


def test_the_environment_is_read_in_few_places() -> None:
    readers = [path for path in FILES if "os.environ" in names(path) and home(path) not in ("cpu", "cli")]
    assert [path.name for path in readers] == ["distributed.py"]


def test_every_file_is_written_by_one_module() -> None:
    """io.py writes atomically. Excepted: the library that the compiler writes into a folder of its own."""
    excepted = {"io.py": None, "inference/native/build.py": "os.replace(draft, path)"}
    roots = (PACKAGE, PACKAGE.parent / "examples", PACKAGE.parent / "benchmarks")
    breaches = [
        f"{path.relative_to(root)}:{line} {call}"
        for root in roots
        for path in sorted(root.rglob("*.py"))
        for line, call in writes(path)
        if excepted.get(str(path.relative_to(root)), "") not in (None, call)
    ]
    assert breaches == []


def writes(path: Path) -> Iterator[tuple[int, str]]:
    """Calls that open, write or rename a file past io.py. Appending is free: a log grows under its own name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        owner, _, name = called.rpartition(".")
        modes = [
            str(one.value) for one in (*node.args, *(k.value for k in node.keywords)) if isinstance(one, ast.Constant)
        ]
        if (
            (name == "open" and any(set(mode) & set("wx+") and set(mode) <= set("rwxabt+") for mode in modes))
            or (name in ("write_text", "write_bytes") and owner not in ("", "io", "files"))
            or (name in ("replace", "rename") and (owner == "os" or _one_path(node)) and owner != "dataclasses")
            or name in ("mkdtemp", "mkstemp", "NamedTemporaryFile", "TemporaryFile")
            or called in ("shutil.copy", "shutil.copyfile", "shutil.copy2", "shutil.copytree", "shutil.move")
        ):
            yield node.lineno, ast.unparse(node)


def _one_path(node: ast.Call) -> bool:
    """Path.replace and Path.rename take one argument; str.replace takes two, dataclasses.replace takes keywords."""
    return isinstance(node.func, ast.Attribute) and len(node.args) == 1 and not node.keywords


@pytest.mark.parametrize(
    "call",
    [
        'open(path, "w")',
        'path.open(mode="wb")',
        'path.open("x")',
        "path.write_text(text)",
        "(a / b).write_bytes(raw)",
        "os.replace(a, b)",
        "draft.replace(path)",
        "draft.rename(path)",
        "tempfile.mkdtemp(dir=folder)",
        "shutil.copy(a, b)",
    ],
)
def test_the_rule_on_writing_would_notice(call: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(f"x = 1\n{call}\n")
    assert [line for line, _ in writes(tmp_path / "bad.py")] == [2]
    (tmp_path / "good.py").write_text('open(path, "a"), open(path), text.replace("a", "b"), io.write_text(path, text)')
    assert list(writes(tmp_path / "good.py")) == []


def test_nothing_is_unpickled() -> None:
    assert [path.name for path in FILES if {"torch.load", "pickle.load", "pickle.loads"} & names(path)] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_file_or_function_outgrows_its_reader(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= LONGEST_FILE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno <= LONGEST_FUNCTION, node.name


def test_every_file_says_what_it_is_for() -> None:
    silent = [path for path in FILES if path.stat().st_size and not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []
