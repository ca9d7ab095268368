"""OPUS-MT's files, against transformers' MarianTokenizer reading the same directory."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_samples import HOSTILE, any_text

from regard.errors import InputError, TokenizerError
from regard.text.marian_tokenizer import MarianTokenizer


def test_same_ids_and_texts_as_transformers(marian: SimpleNamespace, sentences: list[str]) -> None:
    ours, theirs = marian.ours, marian.theirs
    for text in sentences:
        assert ours.encode(text) == theirs(text)["input_ids"], text
        ids = ours.encode_target(text)
        assert ids == theirs(text_target=text)["input_ids"], text
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
        assert ours.pieces_target(ids) == theirs.convert_ids_to_tokens(ids)


@settings(deadline=None, max_examples=200)
@given(text=any_text())
def test_same_ids_as_transformers_for_any_text(marian: SimpleNamespace, text: str) -> None:
    assert marian.ours.encode(text) == marian.theirs(text)["input_ids"]
    ids = marian.ours.encode_target(text)
    assert ids == marian.theirs(text_target=text)["input_ids"]
    assert marian.ours.decode(ids) == marian.theirs.decode(ids, skip_special_tokens=True)


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_same_text_as_transformers_for_any_ids(marian: SimpleNamespace, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, marian.ours.vocab_target - 1), max_size=20))
    assert marian.ours.decode(ids) == marian.theirs.decode(ids, skip_special_tokens=True)


def test_a_sentence_comes_back(marian: SimpleNamespace) -> None:
    text = "Un jour, il trouva au fond de son sac une fillette."
    assert marian.ours.decode(marian.ours.encode_target(text)) == text


def test_language_code_is_one_piece(marian: SimpleNamespace) -> None:
    ours = marian.ours
    assert ours.pieces(ours.encode(">>fra<< The sea"))[0] == ">>fra<<"
    assert ours.encode(">>xyz<< The sea")[0] == ours.unknown


def test_special_ids_and_size(marian: SimpleNamespace) -> None:
    ours, theirs = marian.ours, marian.theirs
    assert (ours.end, ours.unknown, ours.pad) == (theirs.eos_token_id, theirs.unk_token_id, theirs.pad_token_id)
    assert ours.start is ours.mask is None
    assert ours.vocab == len(theirs)
    assert (ours.vocab_target == ours.vocab) == (marian.kind == "joint")


def test_empty_text_is_only_the_end(marian: SimpleNamespace) -> None:
    assert marian.ours.encode("") == marian.ours.encode_target("") == [marian.ours.end]
    assert marian.ours.decode([]) == ""


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_megabyte(marian: SimpleNamespace, hostile: str) -> None:
    begin = time.thread_time()
    marian.ours.decode(marian.ours.encode_target(HOSTILE[hostile]))
    assert time.thread_time() - begin < 10  # 2 s on one busy core; anything quadratic takes hours


def test_lone_surrogate(marian: SimpleNamespace) -> None:
    for method in (marian.ours.encode, marian.ours.encode_target):
        with pytest.raises(InputError, match=r"^the text has a lone surrogate U\+D800 at position 0, [^\n]*$"):
            method("\ud800")


@pytest.mark.parametrize("wrong", [-1, 10**6, 2**40])
def test_id_out_of_range(marian: SimpleNamespace, wrong: int) -> None:
    for method in (marian.ours.decode, marian.ours.pieces, marian.ours.pieces_target):
        with pytest.raises(InputError, match=f"^id {wrong} at position 1 is outside the vocabulary"):
            method([3, wrong])


def test_saved_byte_for_byte(marian: SimpleNamespace, tmp_path: Path) -> None:
    marian.ours.save(tmp_path)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {
        p.name: p.read_bytes() for p in marian.directory.iterdir()
    }


def test_tokens_added_with_transformers(
    marian: SimpleNamespace, tmp_path: Path, read_by_transformers: Callable[[Path], Any]
) -> None:
    """As after a fine-tuning: two more tokens, one of them special, saved the way transformers does."""
    theirs = read_by_transformers(marian.directory)
    theirs.add_tokens(["<new>", "<new>er"])
    theirs.add_special_tokens({"extra_special_tokens": ["<formal>"]})
    theirs.save_pretrained(tmp_path)
    ours = MarianTokenizer.load(tmp_path)
    text = "<formal> The <new>fish <new>er</s>"
    ids = ours.encode(text)
    assert ids == theirs(text)["input_ids"]
    assert "<new>er" in ours.pieces(ids)
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


def changed(marian: SimpleNamespace, directory: Path, name: str, content: bytes | str | None) -> Path:
    shutil.copytree(marian.directory, directory, dirs_exist_ok=True)
    (directory / name).unlink()
    if content is not None:
        (directory / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return directory


@pytest.mark.parametrize("name", ["source.spm", "target.spm", "vocab.json"])
@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe", b"[1, 2]", b'{"a": '])
def test_broken_file_is_named(marian: SimpleNamespace, tmp_path: Path, name: str, content: bytes | None) -> None:
    with pytest.raises(TokenizerError, match=rf"^[^\n]*{name}: [^\n]*$"):
        MarianTokenizer.load(changed(marian, tmp_path, name, content))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"</s>": 0, "<unk>": 1}, "has no <pad>"),
        ({"</s>": 0, "<unk>": 1, "<pad>": 1}, "two pieces share one id"),
        ({"</s>": 0, "<unk>": 1, "<pad>": "2"}, "the id of '<pad>' must be a whole number"),
        ({"</s>": 0, "<unk>": 1, "<pad>": -2}, "the id of '<pad>' must be a whole number"),
        ({"</s>": 0, "<unk>": 1, "<pad>": 2, "\ud800": 3}, "a piece has a lone surrogate"),
    ],
)
def test_vocabulary_that_cannot_work(
    marian: SimpleNamespace, tmp_path: Path, content: dict[str, Any], reason: str
) -> None:
    with pytest.raises(TokenizerError, match=rf"vocab\.json: {reason}"):
        MarianTokenizer.load(changed(marian, tmp_path, "vocab.json", json.dumps(content)))


@pytest.mark.parametrize("marian", ["separate"], indirect=True)
def test_separate_vocabularies_must_agree_on_the_special_tokens(marian: SimpleNamespace, tmp_path: Path) -> None:
    content = json.dumps({"</s>": 0, "<unk>": 1, "<pad>": 5})
    with pytest.raises(TokenizerError, match=r"target_vocab\.json: <pad> has the id 5, but in vocab\.json it has 2"):
        MarianTokenizer.load(changed(marian, tmp_path, "target_vocab.json", content))
    with pytest.raises(TokenizerError, match=r"target_vocab\.json: is missing"):
        MarianTokenizer.load(changed(marian, tmp_path, "target_vocab.json", None))


def test_gap_in_the_vocabulary(marian: SimpleNamespace, tmp_path: Path) -> None:
    content = json.dumps({"</s>": 0, "<unk>": 1, "<pad>": 2, "x": 7})
    ours = MarianTokenizer.load(changed(marian, tmp_path, "vocab.json", content))
    with pytest.raises(InputError, match="id 5 is not used"):
        ours.pieces([5])


def test_tokens_added_long_ago(
    marian: SimpleNamespace, tmp_path: Path, read_by_transformers: Callable[[Path], Any]
) -> None:
    """Before transformers 4.34 they were listed in added_tokens.json only."""
    shutil.copytree(marian.directory, tmp_path, dirs_exist_ok=True)
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<new>": marian.ours.vocab}))
    ours, theirs = MarianTokenizer.load(tmp_path), read_by_transformers(tmp_path)
    ids = ours.encode("The <new>fish")
    assert ids == theirs("The <new>fish")["input_ids"]
    assert marian.ours.vocab in ids
    (tmp_path / "added_tokens.json").write_text('{"<new>": "7"}')
    with pytest.raises(TokenizerError, match=r"added_tokens\.json: the id of '<new>' must be a whole number"):
        MarianTokenizer.load(tmp_path)


def test_clean_up(marian: SimpleNamespace, tmp_path: Path, read_by_transformers: Callable[[Path], Any]) -> None:
    config = json.loads((marian.directory / "tokenizer_config.json").read_text())
    content = json.dumps(config | {"clean_up_tokenization_spaces": True})
    directory = changed(marian, tmp_path, "tokenizer_config.json", content)
    ours, theirs = MarianTokenizer.load(directory), read_by_transformers(directory)
    ids = ours.encode_target("la lire , la .")
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True) == "la lire, la."
