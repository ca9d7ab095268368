"""tokenizer.json, against transformers reading the same directory."""

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_samples import HOSTILE, any_text

from regard.errors import InputError, TokenizerError
from regard.text.hf_tokenizer import HFTokenizer

SPECIAL = {  # pad, start, end, unknown, mask
    "wordpiece": (0, 2, 3, 1, 4),
    "byte level": (None, 0, 0, 0, None),
    "byte fallback": (None, 1, 2, 0, None),
    "unigram": (0, None, 1, 2, None),
    "minilm": (0, 101, 102, 100, 103),
}


def test_same_ids_and_texts_as_transformers(fast: SimpleNamespace, sentences: list[str]) -> None:
    for text in sentences:
        ids = fast.ours.encode(text)
        assert fast.ours.encode_target(text) == ids
        for theirs in fast.theirs:
            assert ids == theirs(text)["input_ids"], text
            assert fast.ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
            assert fast.ours.pieces(ids) == fast.ours.pieces_target(ids) == theirs.convert_ids_to_tokens(ids)


@settings(deadline=None, max_examples=150)
@given(text=any_text())
def test_same_ids_as_transformers_for_any_text(fast: SimpleNamespace, text: str) -> None:
    ids = fast.ours.encode(text)
    for theirs in fast.theirs:
        assert ids == theirs(text)["input_ids"]
    assert fast.ours.decode(ids) == fast.theirs[0].decode(ids, skip_special_tokens=True)


@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_same_text_as_transformers_for_any_ids(fast: SimpleNamespace, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, fast.ours.vocab - 1), max_size=20))
    for theirs in fast.theirs:
        assert fast.ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


def test_special_ids_and_size(fast: SimpleNamespace) -> None:
    ours = fast.ours
    assert (ours.pad, ours.start, ours.end, ours.unknown, ours.mask) == SPECIAL[fast.kind]
    assert ours.vocab == ours.vocab_target == len(fast.theirs[0])


def test_empty_text_is_only_the_special_tokens(fast: SimpleNamespace) -> None:
    start, end = [fast.ours.start], [fast.ours.end]
    expected = {"byte level": [], "byte fallback": start, "unigram": end}
    assert fast.ours.encode("") == expected.get(fast.kind, start + end)


def test_nothing_is_truncated_or_padded(fast: SimpleNamespace) -> None:
    """all-MiniLM's tokenizer.json says 128, the one trained here 16."""
    assert len(fast.ours.encode("a")) <= 3
    assert len(fast.ours.encode("fish " * 500)) >= 500


@settings(deadline=None, max_examples=150)
@given(text=any_text().filter(lambda text: "<" not in text))  # special tokens are left out when decoding
def test_byte_level_gives_the_text_back(byte_level: HFTokenizer, text: str) -> None:
    assert byte_level.decode(byte_level.encode(text)) == text


@pytest.mark.parametrize("hostile", ["one letter", "spaces", "openings"])
def test_hostile_megabyte(fast: SimpleNamespace, hostile: str) -> None:
    begin = time.thread_time()
    fast.ours.decode(fast.ours.encode(HOSTILE[hostile]))
    assert time.thread_time() - begin < 10  # 2 s on one busy core; anything quadratic takes hours


def test_lone_surrogate(fast: SimpleNamespace) -> None:
    for code in (0xD800, 0xDC7F, 0xDD00):
        with pytest.raises(InputError, match=rf"^the text has a lone surrogate U\+{code:X} at position 3, [^\n]*$"):
            fast.ours.encode(f"abc{chr(code)}")


@pytest.mark.parametrize("byte", [0x80, 0xE9, 0xFF])
def test_a_byte_that_is_not_utf8(fast: SimpleNamespace, byte: int) -> None:
    text = "né".encode() + bytes([byte]) + b"e"
    for encode in (fast.ours.encode, lambda text: fast.ours.encode_truncated(text, 9)):
        with pytest.raises(InputError, match=rf"^the text is not UTF-8: its byte 4 is 0x{byte:X}$"):
            encode(text.decode("utf-8", "surrogateescape"))


@pytest.mark.parametrize("wrong", [-1, 10**6, 2**40])
def test_id_out_of_range(fast: SimpleNamespace, wrong: int) -> None:
    for method in (fast.ours.decode, fast.ours.pieces):
        with pytest.raises(InputError, match=f"^id {wrong} at position 1 is outside the vocabulary"):
            method([0, wrong])


def test_saved_byte_for_byte(fast: SimpleNamespace, tmp_path: Path) -> None:
    fast.ours.save(tmp_path / "new" / "copy")
    for copy in (tmp_path / "new" / "copy").iterdir():
        assert copy.read_bytes() == (fast.directory / copy.name).read_bytes()
    again = HFTokenizer.load(tmp_path / "new" / "copy")
    assert again.encode("The keeper") == fast.ours.encode("The keeper")


def tokenizer_json(directory: Path, **changes: object) -> Path:
    """A directory with eight words for tokens, or with something else in place of a part of the file."""
    words = ["<unk>", "<s>", "</s>", "fish", "sea", "<odd>", "'s", "."]
    content = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(words)}, "unk_token": "<unk>"},
    }
    (directory / "tokenizer.json").write_text(json.dumps(content | changes))
    return directory


def test_well_known_names_without_a_config(tmp_path: Path) -> None:
    ours = HFTokenizer.load(tokenizer_json(tmp_path))
    assert (ours.pad, ours.start, ours.end, ours.unknown, ours.mask) == (None, 1, 2, 0, None)
    assert ours.decode([1, 3, 2]) == "<s> fish </s>"  # the file does not call them special, nor does transformers


def test_a_null_forbids_the_well_known_name(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text('{"bos_token": null}')
    assert HFTokenizer.load(tokenizer_json(tmp_path)).start is None


def test_special_tokens_map_and_objects(tmp_path: Path) -> None:
    (tmp_path / "special_tokens_map.json").write_text(
        '{"eos_token": {"content": "<odd>"}, "additional_special_tokens": ["sea"], "mask_token": "<not there>"}'
    )
    ours = HFTokenizer.load(tokenizer_json(tmp_path))
    assert (ours.end, ours.mask) == (5, None)  # transformers would invent an id 8 that the model has no row for
    assert ours.vocab == 8
    assert ours.decode([3, 5, 4]) == "fish"
    assert ours.encode("fish<odd>") == [3, 5]


def test_added_tokens_of_the_config(tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    added = {"9": {"content": "<y>", "special": False}, "8": {"content": "<x>", "special": True}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    ours = HFTokenizer.load(tokenizer_json(tmp_path))
    theirs = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    ids = ours.encode("fish<x><y> sea")
    assert ids == theirs("fish<x><y> sea")["input_ids"] == [3, 8, 9, 4]
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True) == "fish <y> sea"
    added["11"] = {"content": "<z>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    with pytest.raises(TokenizerError, match=r"gives '<z>' the id 10, but .* 11$"):
        HFTokenizer.load(tmp_path)


@pytest.mark.parametrize("asked", [True, False, None])
def test_clean_up(tmp_path: Path, asked: bool | None) -> None:
    from transformers import PreTrainedTokenizerFast

    config = {} if asked is None else {"clean_up_tokenization_spaces": asked}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    ours = HFTokenizer.load(tokenizer_json(tmp_path))
    text = ours.decode([3, 6, 4, 7])
    assert text == PreTrainedTokenizerFast.from_pretrained(tmp_path).decode([3, 6, 4, 7])
    assert text == ("fish's sea." if asked else "fish 's sea .")


def test_gap_in_the_vocabulary(tmp_path: Path) -> None:
    model = {"type": "WordLevel", "vocab": {"<unk>": 0, "sea": 5}, "unk_token": "<unk>"}
    ours = HFTokenizer.load(tokenizer_json(tmp_path, model=model))
    assert ours.vocab == 6
    with pytest.raises(InputError, match="id 3 is not used"):
        ours.pieces([3])
    with pytest.raises(InputError, match="id 3 is not used"):
        ours.decode([3])


def test_panic_of_the_library_is_an_error_of_the_file(tmp_path: Path) -> None:
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {},
    }
    with pytest.raises(TokenizerError, match=r"tokenizer\.json: cannot be used as a tokenizer \([^\n]*\)$"):
        HFTokenizer.load(tokenizer_json(tmp_path, post_processor=template))


def test_template_with_an_id_that_no_token_has(tmp_path: Path) -> None:
    template = {"type": "BertProcessing", "sep": ["[SEP]", 999], "cls": ["<s>", 1]}
    with pytest.raises(TokenizerError, match=r"tokenizer\.json: its template has a token .* \(id 999 [^\n]*\)$"):
        HFTokenizer.load(tokenizer_json(tmp_path, post_processor=template))


def test_text_without_an_unknown_token(tmp_path: Path) -> None:
    model = {"type": "WordLevel", "vocab": {"sea": 0}, "unk_token": "<unk>"}
    ours = HFTokenizer.load(tokenizer_json(tmp_path, model=model))
    with pytest.raises(TokenizerError, match=r"tokenizer\.json: cannot be used"):
        ours.encode("fish")


@pytest.fixture(scope="session")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> HFTokenizer:
    from tokenizer_samples import byte_level as train

    directory = tmp_path_factory.mktemp("byte_level")
    train().save(str(directory / "tokenizer.json"))
    return HFTokenizer.load(directory)
