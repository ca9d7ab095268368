"""Which tokenizer a directory has, and what is said when it is broken."""

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard.text
from regard.errors import OutputError, TokenizerError
from regard.text.hf_tokenizer import HFTokenizer
from regard.text.marian_tokenizer import MarianTokenizer
from regard.text.tokenizer import Tokenizer, load


def test_no_tokenizer_at_all(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert load(tmp_path) is None


def test_each_directory_gets_its_kind(fast: SimpleNamespace, marian: SimpleNamespace) -> None:
    assert isinstance(fast.ours, HFTokenizer)
    assert isinstance(marian.ours, MarianTokenizer)
    both: list[Tokenizer] = [fast.ours, marian.ours]
    names = [name for name in dir(Tokenizer) if not name.startswith("_")]
    assert all(hasattr(tokenizer, name) for tokenizer in both for name in names)


def test_marian_comes_first(wordpiece_json: bytes, marian: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(wordpiece_json)
    marian.ours.save(tmp_path)
    assert isinstance(load(tmp_path), MarianTokenizer)


@pytest.mark.parametrize("name", ["vocab.txt", "vocab.json", "merges.txt", "tokenizer.model", "tokenizer_config.json"])
def test_incomplete_directory(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}")
    with pytest.raises(TokenizerError, match=rf"tokenizer\.json: is missing, and {name} cannot replace it"):
        load(tmp_path)


BROKEN: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "not JSON": lambda path: path.write_bytes(b"hello\nworld"),
    "a list": lambda path: path.write_bytes(b"[]"),
    "another object": lambda path: path.write_bytes(b'{"a": 1}'),
    "not UTF-8": lambda path: path.write_bytes(b'{"a": "\xff"}'),
    "deep": lambda path: path.write_bytes(b"[" * 100_000),
    "a directory": lambda path: path.mkdir(),
    "a dangling link": lambda path: path.symlink_to("nowhere"),
}


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.bin", "source.spm"])
@pytest.mark.parametrize("how", BROKEN)
def test_broken_file_is_named_in_one_line(tmp_path: Path, name: str, how: str) -> None:
    BROKEN[how](tmp_path / name)
    for other in {"target.spm", "vocab.json"} if name == "source.spm" else ():
        (tmp_path / other).write_bytes(b"{}")
    with pytest.raises(TokenizerError, match=rf"^[^\n]*{name}: [^\n]*$"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"])
@pytest.mark.parametrize("how", [how for how in BROKEN if how != "another object"])
def test_broken_settings_are_named_in_one_line(wordpiece_json: bytes, tmp_path: Path, name: str, how: str) -> None:
    (tmp_path / "tokenizer.json").write_bytes(wordpiece_json)
    BROKEN[how](tmp_path / name)
    with pytest.raises(TokenizerError, match=rf"^[^\n]*{name}: [^\n]*$"):
        load(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        '{"eos_token": 3}',
        '{"eos_token": {"text": "</s>"}}',
        '{"additional_special_tokens": "<x>"}',
        '{"additional_special_tokens": [7]}',
        '{"added_tokens_decoder": []}',
        '{"added_tokens_decoder": {"x": {"content": "<x>"}}}',
        '{"added_tokens_decoder": {"1": "<x>"}}',
    ],
)
def test_settings_of_the_wrong_kind(wordpiece_json: bytes, tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_bytes(wordpiece_json)
    (tmp_path / "tokenizer_config.json").write_text(content)
    with pytest.raises(TokenizerError, match=r"^[^\n]*tokenizer_config\.json: '\w+' must [^\n]*$"):
        load(tmp_path)


@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_damaged_tokenizer_json_never_escapes(wordpiece_json: bytes, scratch: Path, data: st.DataObject) -> None:
    raw = bytearray(wordpiece_json)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(raw) - 1))
        raw[position : position + data.draw(st.integers(0, 30))] = data.draw(st.binary(max_size=3))
    (scratch / "tokenizer.json").write_bytes(raw)
    message = ""
    try:
        tokenizer = load(scratch)
        assert tokenizer is not None
        tokenizer.decode(tokenizer.encode("The keeper [MASK] 😀"))
    except TokenizerError as error:
        message = str(error)
    assert "\n" not in message


def test_save_where_it_cannot_be(wordpiece_json: bytes, tmp_path: Path) -> None:
    tokenizer = HFTokenizer({"tokenizer.json": wordpiece_json}, tmp_path)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match=r"tokenizer\.json: cannot be written \([^\n]*\)$"):
        tokenizer.save(tmp_path / "file")
    (tmp_path / "full" / "tokenizer.json").mkdir(parents=True)
    with pytest.raises(OutputError, match=r"tokenizer\.json: cannot be written"):
        tokenizer.save(tmp_path / "full")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["tokenizer.json"]  # nothing half-written


def test_this_folder_imports_downhill_only() -> None:
    allowed = ("regard.errors", "regard.plural", "regard.config", "regard.io", "regard.cpu", "regard.text")
    for path in Path(regard.text.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert not name.startswith(("torch", "transformers", "pickle")), path
                assert not name.startswith("regard") or name.startswith(allowed), path


def test_no_torch_is_loaded(wordpiece_json: bytes, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(wordpiece_json)
    code = (
        "import sys; from pathlib import Path; from regard.text.tokenizer import load;"
        "assert load(Path(sys.argv[1])); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")
