"""Tokenizer files made to hang, to crash or to fill the memory: each is refused with one clear line, at once."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regard.errors import InputTooLong, TokenizerError
from regard.text.hf_tokenizer import MAX_GROWN_TEXT, HFTokenizer, growth
from regard.text.marian_tokenizer import MarianTokenizer
from regard.text.tokenizer import MAX_FILE_BYTES, load

WORDS = {word: number for number, word in enumerate(["<unk>", "<s>", "</s>", "fish", "sea"])}


def tokenizer_json(directory: Path, **changes: object) -> Path:
    """A directory with five words for tokens, or with something else in place of a part of the file."""
    content = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": WORDS, "unk_token": "<unk>"},
    }
    (directory / "tokenizer.json").write_text(json.dumps(content | changes))
    return directory


def refused(directory: Path, reason: str) -> None:
    with pytest.raises(TokenizerError, match=rf"^[^\n]*{reason}[^\n]*$") as caught:
        load(directory)
    assert len(str(caught.value)) < 1100


SPECIAL_FILES: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a terminal": lambda path: path.symlink_to("/dev/ptmx"),
}


@pytest.mark.parametrize("kind", SPECIAL_FILES)
@pytest.mark.parametrize(
    "name", ["tokenizer.json", "tokenizer_config.json", "source.spm", "vocab.json", "tokenizer.bin"]
)
def test_not_a_regular_file(tmp_path: Path, name: str, kind: str) -> None:
    if name == "tokenizer_config.json":
        tokenizer_json(tmp_path)
    if name == "vocab.json":
        (tmp_path / "source.spm").touch()
        (tmp_path / "target.spm").touch()
    SPECIAL_FILES[kind](tmp_path / name)
    refused(tmp_path, rf"{name}: cannot be read \(it is not a regular file\)")


def test_a_file_of_absurd_size(tmp_path: Path) -> None:
    with (tmp_path / "tokenizer.json").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    refused(tmp_path, r"tokenizer\.json: cannot be read \(it has more than 67,108,864 bytes\)")


def test_many_added_tokens(tmp_path: Path) -> None:
    added = {str(5 + i): {"content": f"<t{i}>", "special": i % 2 == 0} for i in range(20_000)}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    begin = time.process_time()
    tokenizer = HFTokenizer.load(tokenizer_json(tmp_path))
    assert time.process_time() - begin < 10  # 0.2 s; 40 s when they are added one by one
    assert tokenizer.encode("fish <t7> sea") == [3, 12, 4]


def replace(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


LONGER = {"type": "Sequence", "normalizers": [replace("a", "a" * 1000)] * 5}
DECOY = {"type": "Sequence", "decoders": [], "normalizers": [replace("a", "a" * 1000)] * 5}
BYTES = {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel", "add_prefix_space": True}] * 40}
TEXT: dict[str, Any] = {"Sequence": {"id": "A", "type_id": 0}}
TWICE = {"type": "TemplateProcessing", "single": [TEXT, TEXT], "pair": [TEXT, TEXT], "special_tokens": {}}


@pytest.mark.parametrize(
    "changes",
    [
        {"normalizer": LONGER},
        {"normalizer": DECOY},
        {"normalizer": {"type": "Sequence", "normalizers": [LONGER]}},
        {"normalizer": {"type": "Prepend", "prepend": "a" * 100_000}},
        {"normalizer": replace("", "a" * 100_000)},
        {"normalizer": {"type": "Replace", "pattern": {"Regex": "a"}, "content": "a" * 100_000}},
        {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKD"}, replace("ا", "ﷺ")] * 9}},
        {"normalizer": {"type": "Explode"}},
        {"normalizer": {"prepend": "a"}},
        {"normalizer": ["a", "b"]},
        {"pre_tokenizer": BYTES},
        {"post_processor": {"type": "Sequence", "processors": [TWICE] * 40}},
        {"decoder": {"type": "Sequence", "decoders": [replace("s", "s" * 1000)] * 5}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_text_that_would_fill_the_memory(tmp_path: Path, changes: dict[str, Any]) -> None:
    refused(tokenizer_json(tmp_path, **changes), r"tokenizer\.json: cannot be used as a tokenizer \(it[ s]")


def test_a_template_without_its_token_is_found_before_the_library_panics(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A panic writes lines of its own to standard error."""
    step = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}
    template = {"type": "TemplateProcessing", "single": [step, TEXT], "pair": [TEXT, TEXT], "special_tokens": {}}
    refused(tokenizer_json(tmp_path, post_processor=template), r"a token that it does not define, '\[CLS\]'")
    assert capfd.readouterr().err == ""


def test_an_added_token_that_would_fill_the_memory(tmp_path: Path) -> None:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    token = {"id": 5, "content": "a" * 4000, **flags, "normalized": True}
    tokenizer_json(tmp_path, normalizer=replace("a", "a" * 9000), added_tokens=[token] * 2)
    refused(tmp_path, "times longer")


def test_how_long_a_text_may_be_depends_on_its_growth(tmp_path: Path) -> None:
    tokenizer = HFTokenizer.load(tokenizer_json(tmp_path, normalizer=replace("a", "a" * 5000)))
    most = MAX_GROWN_TEXT // 5000
    assert tokenizer.encode("s" * most) == [0]
    for encode in (tokenizer.encode, lambda text: tokenizer.encode_truncated(text, 9)):
        with pytest.raises(InputTooLong, match=rf"^the text has 13,422 characters, but .* at most {most:,} at once$"):
            encode("a" * (most + 1))


@pytest.mark.parametrize(
    ("part", "factor"),
    [
        (None, 1),
        ({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")]}, 2),  # Llama 2
        ({"type": "Sequence", "normalizers": [replace("``", '"'), replace("''", '"'), {"type": "NFKD"}]}, 18),  # ALBERT
        ({"type": "BertNormalizer", "clean_text": True}, 8),
        ({"type": "Sequence", "pretokenizers": [{"type": "Split"}, {"type": "ByteLevel"}]}, 5),  # Llama 3
        ({"type": "TemplateProcessing", "single": [TEXT], "special_tokens": {"</s>": {"ids": [2]}}}, 1),
    ],
)
def test_what_published_files_have(part: Any, factor: float) -> None:
    assert growth(part) == factor


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a" * 300, -1.0]]}, "a piece of more than 256"),
        (
            {"type": "WordPiece", "vocab": WORDS, "unk_token": "<unk>", "continuing_subword_prefix": "##"}
            | {"max_input_chars_per_word": 10**9},
            "max_input_chars_per_word is 1,000,000,000, more than 1,000",
        ),
    ],
    ids=["Unigram", "WordPiece"],
)
def test_a_model_that_would_take_hours_for_a_word(tmp_path: Path, model: dict[str, Any], reason: str) -> None:
    refused(tokenizer_json(tmp_path, model=model), reason)


def test_a_piece_without_end(tmp_path: Path) -> None:
    model = {"type": "WordLevel", "vocab": {"<unk>": 0, "x" * 5000: 1}, "unk_token": "<unk>"}
    refused(tokenizer_json(tmp_path, model=model), "has a piece of more than 4,096 characters")


def test_an_id_without_end(tmp_path: Path) -> None:
    model = {"type": "WordLevel", "vocab": {"<unk>": 0, "x": 2**32 - 1}, "unk_token": "<unk>"}
    refused(tokenizer_json(tmp_path, model=model), "an id that is not a whole number from 0 to 4,194,303")


@pytest.mark.parametrize("number", ["9" * 400, "9" * 5000, "٣"])
def test_an_added_token_with_an_endless_id(tmp_path: Path, number: str) -> None:
    config = {"added_tokens_decoder": {number: {"content": "<x>"}}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    refused(tokenizer_json(tmp_path), "added.tokens")


def test_many_tokens_added_to_marian(marian: SimpleNamespace, tmp_path: Path) -> None:
    marian.ours.save(tmp_path)
    added = {str(1000 + i): {"content": f"<t{i}>"} for i in range(20_000)}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    if "target_vocab.json" in marian.ours.contents:
        config = {"separate_vocabs": True, "added_tokens_decoder": added}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    refused(tmp_path, "has 20,00[0-9] added and special tokens, more than 10,000")


def test_a_normalizer_that_writes_no_utf8(marian: SimpleNamespace, tmp_path: Path) -> None:
    for name, content in marian.ours.contents.items():  # the ligature ﬁ becomes two bytes that are no character
        (tmp_path / name).write_bytes(content.replace(b"\0fi\0", b"\0\xff\xfe\0"))
    tokenizer = MarianTokenizer.load(tmp_path)
    for name, encode in (("source.spm", tokenizer.encode), ("target.spm", tokenizer.encode_target)):
        with pytest.raises(
            TokenizerError, match=rf"^[^\n]*{name}: cannot be used as a tokenizer \([^\n]*utf-8[^\n]*\)$"
        ):
            encode("ﬁ")
